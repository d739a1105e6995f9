# SPDX-License-Identifier: BSD-3-Clause
"""What may have been meant by a name that a command line got wrong."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from offbeat.commands.command_line import Command, Group


def of_name(wrong: str, names: Collection[str]) -> str:
    """The end of a message about an unknown name."""
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def of_option(command: Command, wrong: str) -> str:
    """The end of a message about an option that a verb does not have.

    Another verb may have it: then the option of this verb that does the same is meant, if it has one.
    """
    from offbeat.commands.root import ROOT

    owners = [other for other in _verbs(ROOT) if other.option(wrong) is not None]
    of_same_name = {parameter.name: parameter.longest for parameter in command.options}
    for other in owners:
        parameter = other.option(wrong)
        if parameter is not None and parameter.name in of_same_name:
            return f"; did you mean '{of_same_name[parameter.name]}'? offbeat {other.name} calls it {wrong}"
    spelled = [spelling for parameter in command.options for spelling in parameter.spellings]
    near = of_name(wrong, spelled)
    if near or not owners:
        return near
    return f"; it is an option of offbeat {', '.join(owner.name for owner in owners)}"


def _verbs(group: Group) -> Iterator[Command]:
    for command in group.commands.values():
        if isinstance(command, Group):
            yield from _verbs(command)
        else:
            yield command
