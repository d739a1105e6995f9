# SPDX-License-Identifier: BSD-3-Clause
"""Read the files of rules that the user names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from offbeat import _core
from offbeat.errors import CommandError

BUILT_IN = "built-in"
_ADAPT = "OFFBEAT_ADAPT"
_ADAPTS = ("off", "on", "any")
_NATIVE_NAME = re.compile(r"native\((\w+)\)")


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


def adapt_setting(environment: Mapping[str, str]) -> str:
    """The value of OFFBEAT_ADAPT. Raises CommandError if it has none of its values."""
    value = environment.get(_ADAPT) or "on"
    if value not in _ADAPTS:
        raise CommandError(f"{_ADAPT}='{value}': it must be {', '.join(_ADAPTS[:-1])} or {_ADAPTS[-1]}")
    return value


def lines_on_untried(file: str, rules: _core.Rules, environment: Mapping[str, str]) -> list[str]:
    """One line for each alternative that no call tries, because its bits may differ from the first one's."""
    if adapt_setting(environment) != "on":
        return []
    lines = [
        f"{file}:{rule['line']}: {name} is never tried after {rule['first']}: it may combine in another "
        f"order ({_ADAPT}=any allows it)"
        for rule in rules.rules
        for name in rule["never_tried"]
    ]
    return list(dict.fromkeys(lines))


def lines_on_unknown_names(file: str, rules: _core.Rules) -> list[str]:
    """One line for each ``native(NAME)`` that no version of an MPI has, for any collective of its line."""
    known = _core.host_algorithms()
    found: dict[tuple[int, str], bool] = {}
    for rule in rules.rules:
        # A pipeline takes the names of non-blocking calls, and so do those calls.
        calls = (rule["collective"], f"i{rule['collective']}")
        for name in _NATIVE_NAME.findall(rule["text"]):
            there = any(
                each["name"] == name and each["call"] in calls and rule["host"] in ("*", each["host"])
                for each in known
            )
            found[rule["line"], name] = found.get((rule["line"], name), False) or there
    return [
        f"{file}:{line}: native({name}) never runs: no MPI that the rule is for has such an algorithm "
        "(`offbeat info --all` lists them)"
        for (line, name), there in found.items()
        if not there
    ]
