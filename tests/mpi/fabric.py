# SPDX-License-Identifier: BSD-3-Clause
"""libfabric as the network, where this machine has it and offbeat was built with its headers."""

from __future__ import annotations

import ctypes

import pytest
from offbeat.errors import CommandError
from offbeat.mpi import libraries

NAME = "libfabric.so.1"


def obstacle() -> str | None:
    """Why offbeat cannot use libfabric here; None where it can."""
    try:
        ctypes.CDLL(NAME)
        is_used = NAME.encode() in libraries.library_without_mpi().read_bytes()
    except (OSError, CommandError) as error:
        return str(error)
    return None if is_used else "offbeat was built without libfabric's headers"


needs_fabric = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
BY_FABRIC = "libfabric:tcp"
