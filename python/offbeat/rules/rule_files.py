# SPDX-License-Identifier: BSD-3-Clause
"""Files of rules that the user named."""

from __future__ import annotations

from offbeat import _core
from offbeat.errors import CommandError

BUILT_IN = "built-in"


def read(path: str) -> _core.Rules:
    """The rules of a file with its errors; a CommandError if it cannot be read at all."""
    try:
        return _core.read_rules(path)
    except ValueError as error:  # UsageError
        raise CommandError(str(error)) from None


def without_errors(path: str) -> _core.Rules:
    """The same; an error in the file is a CommandError, too."""
    rules = read(path)
    if rules.errors:
        others = len(rules.errors) - 1
        more = f"; `offbeat rules check` shows {others} more" if others else ""
        raise CommandError(rules.errors[0] + more)
    return rules
