# SPDX-License-Identifier: BSD-3-Clause
"""Read the files of rules that the user names."""

from __future__ import annotations

from collections.abc import Mapping

from offbeat import _core
from offbeat.errors import CommandError

BUILT_IN = "built-in"
_ADAPT = "OFFBEAT_ADAPT"
_ADAPTS = ("off", "on", "any")


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


def adapt(environment: Mapping[str, str]) -> str:
    """The value of OFFBEAT_ADAPT. Raises CommandError if it has none of its values."""
    value = environment.get(_ADAPT) or "on"
    if value not in _ADAPTS:
        raise CommandError(f"{_ADAPT}='{value}': it must be {', '.join(_ADAPTS[:-1])} or {_ADAPTS[-1]}")
    return value


def never_tried(file: str, rules: _core.Rules, environment: Mapping[str, str]) -> list[str]:
    """One line for each alternative that no call tries, because its bits may differ from the first one's."""
    if adapt(environment) != "on":
        return []
    lines = [
        f"{file}:{rule['line']}: {name} is never tried after {rule['first']}: it may combine in another "
        f"order ({_ADAPT}=any allows it)"
        for rule in rules.rules
        for name in rule["never_tried"]
    ]
    return list(dict.fromkeys(lines))
