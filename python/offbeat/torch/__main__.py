# SPDX-License-Identifier: BSD-3-Clause
"""Compile the backend now, for example while a container is made: python -m offbeat.torch"""

import sys

from offbeat.errors import CommandError
from offbeat.torch import _build

try:
    print(_build.build())
except CommandError as error:
    _build.say(str(error))
    sys.exit(2)
