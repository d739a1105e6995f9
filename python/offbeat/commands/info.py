# SPDX-License-Identifier: BSD-3-Clause
"""offbeat info: show the MPIs, this machine, the libraries, the settings and the algorithms."""

from __future__ import annotations

import os
from typing import Annotated, Any

from offbeat import __version__, _core, machine
from offbeat.commands import completion
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.output import new_console, print_json, print_unbroken
from offbeat.commands.rule_options import checked_served
from offbeat.mpi import host_algorithms, libraries
from offbeat.mpi.discovery import discover
from offbeat.reports import inventory


def info(
    collective: Annotated[
        str | None,
        Argument(
            metavar="[COLLECTIVE]",
            complete=completion.collectives,
            help="Show the algorithms of a collective instead, such as bcast.",
        ),
    ] = None,
    all_collectives: Annotated[
        bool, Option("--all", help="Show the algorithms of all collectives as well.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False,
    settings: Annotated[bool, Option("--settings", help="List the environment variables instead.")] = False,
) -> None:
    """Show the MPIs, this machine, the settings and the algorithms.

    The first MPI is the one for programs that do not show which one they need. The names for native(NAME) are
    among the algorithms of a collective.

    offbeat info
    offbeat info allreduce
    offbeat info --all
    offbeat info --settings
    offbeat info --json
    """
    checked_served(collective)
    found = collect()
    if as_json:
        print_json(found)
        return
    console = new_console()
    if settings:
        console.print(inventory.settings_table(found["settings"]))
        return
    if collective is None:
        console.print(f"offbeat {found['version']}", style="bold", end="\n\n")
        for table in (inventory.mpi_table(found["mpi"]), inventory.library_table(found["libraries"])):
            print_unbroken(console, table)
            console.print()
        console.print(inventory.machine_table(found["machine"]), "")
        console.print(inventory.given_settings_table(found["settings"], os.environ), "")
        if not all_collectives:
            console.print(
                "Algorithms: offbeat info COLLECTIVE, or --all. All settings: offbeat info --settings."
            )
            return
    algorithms = [each for each in found["algorithms"] if collective in (None, each["collective"])]
    for table in inventory.host_algorithm_tables(found["mpi"], collective):
        console.print(table, "")
    console.print(*inventory.algorithm_tables(algorithms), sep="\n\n")


def collect() -> dict[str, Any]:
    """Everything that ``info`` shows, as plain data."""
    served = libraries.installed()
    return {
        "version": __version__,
        "machine": machine.description(),
        "mpi": [
            {
                "name": install.name,
                "vendor": install.vendor,
                "version": install.version,
                "family": install.family,
                "libmpi": str(install.libmpi),
                "mpirun": str(install.mpirun) if install.mpirun is not None else None,
                "served_by": served[install.preload].name if install.preload in served else None,
                "host_algorithms": host_algorithms.checked_names(install.vendor, install.version),
            }
            for install in discover(os.environ)
        ],
        "libraries": [
            {
                "name": name,
                "serves": meaning,
                "path": str(served[name]) if name in served else None,
            }
            for name, meaning in libraries.PRELOADS.items()
        ],
        "algorithms": list(_core.algorithms()),
        "settings": list(_core.settings()),
    }


COMMAND = Command(info)
