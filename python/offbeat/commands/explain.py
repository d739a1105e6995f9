# SPDX-License-Identifier: BSD-3-Clause
"""offbeat explain: say which algorithm a call would run, and why, without running anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from offbeat import _core
from offbeat.commands import completion
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.output import new_console, print_json
from offbeat.commands.rule_options import (
    HostOfRules,
    UsersRules,
    checked_host,
    checked_served,
    stored_rules,
)
from offbeat.errors import CommandError
from offbeat.expressions import canonical
from offbeat.reports import rule_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files, stored
from offbeat.simulate.machine import path_of
from offbeat.units import format_count, format_size, parse_size

_DEFAULT_RANKS = 2


def explain(
    calls: Annotated[
        str,
        Argument(
            metavar="COLLECTIVE",
            complete=completion.collectives,
            help="A collective, such as bcast; ibcast: its non-blocking calls.",
        ),
    ],
    length: Annotated[
        str | None, Argument(metavar="SIZE", help="Length of the call, such as 64KiB. Default: any.")
    ] = None,
    ranks: Annotated[
        int | None,
        Option(
            "-n", "-np", "--ranks", metavar="N", help="Ranks of the communicator. Default: 2 on each node."
        ),
    ] = None,
    mpi: HostOfRules = None,
    nodes: Annotated[int, Option(metavar="N", help="Nodes of the communicator.")] = 1,
    ppn: Annotated[int | None, Option(metavar="N", help="Instead of -n: ranks on each node.")] = None,
    sizes: Annotated[str | None, Option("--bytes", metavar="SIZE", help="The same as SIZE.")] = None,
    rules: UsersRules = None,
    machine: Annotated[
        str | None,
        Option(
            metavar="NAME|FILE",
            help="The machine from which grid(auto) takes its shape, as in offbeat simulate.",
        ),
    ] = None,
    board: Annotated[
        bool, Option("--board/--no-board", help="Whether the ranks of a node share memory.")
    ] = True,
    as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say which algorithm a call runs, and why.

    This runs nothing. It also says in which form the algorithm runs, and which rule chose it. Rules that
    offbeat tune stored, OFFBEAT_RULES, OFFBEAT_MACHINE, OFFBEAT_ADAPT and OFFBEAT_<COLLECTIVE> have the same
    effect as in a program.

    offbeat explain allreduce 64KiB -n 4
    offbeat explain allreduce 16KiB --mpi mpich --nodes 8 --ppn 64
    offbeat explain bcast --nodes 4 --ppn 16 --json
    """
    collective = calls.removeprefix("i")  # no collective has a name that begins with it
    checked_served(collective)
    checked_host(mpi)
    ppn = _ranks_on_each_node(ranks, nodes, ppn)
    if length is not None and sizes is not None:
        raise CommandError(f"the length is both {length} and --bytes {sizes}; give one")
    size = length or sizes
    size_bytes = parse_size(size) if size is not None else None
    in_force = stored.in_force(mpi, os.environ)
    host, tuned = in_force.host, ""
    if rules is None and (path := stored_rules(in_force)) is not None:
        rules, tuned = path, f", which offbeat tune stored for {in_force.mpi}"
    users_rules = rule_files.without_errors(str(rules)) if rules is not None else None
    adapt = rule_files.adapt_setting(os.environ)
    variable = f"OFFBEAT_{collective.upper()}"
    fixed = os.environ.get(variable, "")
    if fixed:
        fixed = canonical(fixed, collective)
    grids = _machine_of_grids(machine)
    where = f"{format_count(nodes, 'node')} of {format_count(ppn, 'rank')}"
    try:
        rows = _core.plan(calls, host, nodes, ppn, board, users_rules, fixed, variable, grids, adapt)
    except ValueError as error:
        raise CommandError(f"{where}: {error}") from None
    if size_bytes is not None:
        rows = [row for row in rows if row["least_bytes"] <= size_bytes <= (row["most_bytes"] or size_bytes)]
    warnings = _warnings(rules, users_rules, rows) if rules is not None and users_rules is not None else []
    if as_json:
        cell = {"collective": calls, "mpi": host, "nodes": nodes, "ppn": ppn}
        found = {"rules": str(rules) if rules is not None else None, "rows": rows, "warnings": warnings}
        print_json({**cell, "board": board, "bytes": size_bytes, **found})
        return
    of = "" if size_bytes is None else f" of {format_size(size_bytes)}"
    caption = f"{calls}{of} on {where}, MPI: {host}"
    console = new_console(width=160)
    console.print(to_terminal(rule_sheets.plan_sheet(caption, rows)))
    if rules is not None:
        console.print(f"Rules: {rules}{tuned}; then the built-in ones", soft_wrap=True)
    for line in warnings:
        console.print(line, soft_wrap=True)


def _ranks_on_each_node(ranks: int | None, nodes: int, ppn: int | None) -> int:
    for option, value in (("-n", ranks), ("--nodes", nodes), ("--ppn", ppn)):
        if value is not None and value < 1:
            raise CommandError(f"{option} {value}: it must be at least 1")
    if ranks is None:
        return ppn if ppn is not None else _DEFAULT_RANKS
    if ppn is not None:
        raise CommandError(f"-n {ranks} and --ppn {ppn}: give one of them")
    if ranks % nodes:
        raise CommandError(f"-n {ranks}: {nodes} nodes cannot have equally many ranks; the rules need that")
    return ranks // nodes


def _machine_of_grids(machine: str | None) -> str:
    """The machine file from which grid(auto) takes its shape, or "" for none."""
    grids = path_of(machine) if machine is not None else os.environ.get("OFFBEAT_MACHINE", "")
    try:
        if grids:
            _core.machine_name(grids)
    except ValueError as error:
        raise CommandError(f"{'--machine' if machine is not None else 'OFFBEAT_MACHINE'}: {error}") from None
    return grids


def _warnings(rules: Path, users_rules: _core.Rules, rows: Sequence[_core.PlanRow]) -> list[str]:
    """A line for each alternative that no call tries, in the rules that chose these rows."""
    origins = {row["origin"] for row in rows}
    lines = rule_files.lines_on_untried(str(rules), users_rules, os.environ)
    return [line for line in lines if any(line.startswith(f"{origin}: ") for origin in origins)]


COMMAND = Command(explain)
