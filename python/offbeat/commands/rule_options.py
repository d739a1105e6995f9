# SPDX-License-Identifier: BSD-3-Clause
"""Options about rules, and the checks of their values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from offbeat import _core
from offbeat.bench.plan import COLLECTIVES
from offbeat.commands import completion
from offbeat.commands.command_line import Option
from offbeat.commands.output import warn
from offbeat.errors import CommandError
from offbeat.rules import stored

HostOfRules = Annotated[
    str | None,
    Option(
        "--mpi",
        metavar="NAME",
        complete=completion.hosts,
        help=f"The MPI as rules name it: {', '.join(_core.hosts())}. Its rules that offbeat tune stored on "
        "this machine count. Default: the MPI that offbeat run uses.",
    ),
]
CollectiveOfRules = Annotated[
    str | None,
    Option(
        "--collective",
        metavar="NAME",
        complete=completion.collectives,
        help="Show only the rules of this collective.",
    ),
]
UsersRules = Annotated[
    Path | None,
    Option(
        "--rules",
        metavar="FILE",
        variable="OFFBEAT_RULES",
        help="Rules to try before the built-in ones. Default: those that offbeat tune stored.",
    ),
]


def checked_host(name: str | None) -> None:
    """Refuse an MPI that rules have no name for."""
    if name is not None and name not in _core.hosts():
        raise CommandError(f"--mpi {name}: rules know only {', '.join(_core.hosts())}")


def stored_rules(found: stored.RulesInForce) -> Path | None:
    """The file of stored rules. A line on standard error says why stored rules do not count, as in a run."""
    if found.stored.warning is not None:
        warn(found.stored.warning)
    return found.stored.path


def checked_served(collective: str | None) -> None:
    """Refuse a collective that offbeat does not serve."""
    if collective is not None and collective not in COLLECTIVES:
        raise CommandError(f"offbeat does not serve '{collective}', only {', '.join(COLLECTIVES)}")
