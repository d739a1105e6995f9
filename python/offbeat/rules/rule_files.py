# SPDX-License-Identifier: BSD-3-Clause
"""Read the files of rules that the user names."""

from __future__ import annotations

from offbeat import _core
from offbeat.errors import CommandError

BUILT_IN = "built-in"


def read(path: str) -> _core.Rules:
    """The rules and the errors of a file. Raises CommandError if it cannot be read."""
    try:
        return _core.read_rules(path)
    except ValueError as error:  # UsageError
        raise CommandError(str(error)) from None


def without_errors(path: str) -> _core.Rules:
    """The rules of a file. Raises CommandError if it cannot be read or has an error."""
    rules = read(path)
    if rules.errors:
        others = len(rules.errors) - 1
        more = f"; `offbeat rules check` shows {others} more" if others else ""
        raise CommandError(rules.errors[0] + more)
    return rules
