# SPDX-License-Identifier: BSD-3-Clause
"""offbeat explain: say which algorithm a call would run, and why, without running anything."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from offbeat import _core
from offbeat.commands import completion
from offbeat.commands.options import HostOfRules, UsersRules, checked_host, checked_served
from offbeat.errors import CommandError
from offbeat.expressions import canonical
from offbeat.reports import rule_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files
from offbeat.simulate.machine import path_of
from offbeat.units import format_size, parse_size

_PLAIN_WIDTH = 160  # columns of output that goes to a file or a pipe
_OTHER = "other"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(explain)


def explain(
    calls: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE",
            autocompletion=completion.collectives,
            help="A collective, such as bcast; ibcast: its non-blocking calls.",
        ),
    ],
    mpi: HostOfRules = None,
    nodes: Annotated[int, typer.Option(metavar="N", help="Nodes of the communicator.")] = 1,
    ppn: Annotated[int, typer.Option(metavar="N", help="Ranks on each node.")] = 2,
    size: Annotated[
        str | None,
        typer.Option("--bytes", metavar="SIZE", help="Length of the call, such as 64KiB. Default: any."),
    ] = None,
    rules: UsersRules = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The machine from which grid(auto) takes its shape, as in offbeat simulate.",
        ),
    ] = None,
    board: Annotated[
        bool, typer.Option("--board/--no-board", help="Whether the ranks of a node share memory.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say which algorithm a call runs, and why.

    This runs nothing. It also says in which form the algorithm runs, and which rule chose it. OFFBEAT_RULES,
    OFFBEAT_MACHINE and OFFBEAT_<COLLECTIVE> have the same effect as in a program.

    offbeat explain allreduce --mpi mpich --nodes 8 --ppn 64 --bytes 16KiB
    offbeat explain bcast --nodes 4 --ppn 16 --json
    """
    collective = calls.removeprefix("i")  # no collective has a name that begins with it
    checked_served(collective)
    checked_host(mpi)
    for option, value in (("--nodes", nodes), ("--ppn", ppn)):
        if value < 1:
            raise CommandError(f"{option} {value}: it must be at least 1")
    size_bytes = parse_size(size) if size is not None else None
    users_rules = rule_files.without_errors(str(rules)) if rules is not None else None
    variable = f"OFFBEAT_{collective.upper()}"
    fixed = os.environ.get(variable, "")
    if fixed:
        fixed = canonical(fixed, collective)
    grids = path_of(machine) if machine is not None else os.environ.get("OFFBEAT_MACHINE", "")
    try:
        if grids:
            _core.machine_name(grids)
    except ValueError as error:
        raise CommandError(f"{'--machine' if machine is not None else 'OFFBEAT_MACHINE'}: {error}") from None
    try:
        rows = _core.plan(calls, mpi or _OTHER, nodes, ppn, board, users_rules, fixed, variable, grids)
    except ValueError as error:
        raise CommandError(f"{nodes} nodes of {ppn} ranks: {error}") from None
    if size_bytes is not None:
        rows = [row for row in rows if row["least_bytes"] <= size_bytes <= (row["most_bytes"] or size_bytes)]
    if as_json:
        cell = {"collective": calls, "mpi": mpi or _OTHER, "nodes": nodes, "ppn": ppn}
        print(json.dumps({**cell, "board": board, "bytes": size_bytes, "rows": rows}, indent=2))
        return
    where = f"{nodes} node{'' if nodes == 1 else 's'} of {ppn} rank{'' if ppn == 1 else 's'}"
    of = "" if size_bytes is None else f" of {format_size(size_bytes)}"
    caption = f"{calls}{of} on {where}, MPI: {mpi or _OTHER}"
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
    console.print(to_terminal(rule_sheets.plan_sheet(caption, rows)))
