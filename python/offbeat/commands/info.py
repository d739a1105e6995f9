# SPDX-License-Identifier: BSD-3-Clause
"""offbeat info: list the MPIs, the libraries, the algorithms and the settings."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer
from rich.console import Console

from offbeat import __version__, _core
from offbeat.mpi import host_algorithms, libraries
from offbeat.mpi.discovery import discover
from offbeat.reports import inventory


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(info)


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="List the environment variables instead.")
    ] = False,
) -> None:
    """Show the MPIs found, the libraries and the algorithms.

    The first MPI is the one for programs that do not show which one they need.

    offbeat info
    offbeat info --settings
    offbeat info --json
    """
    found = collect()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    console = Console(width=None if os.isatty(1) else 140, highlight=False)
    if settings:
        console.print(inventory.settings_table(found["settings"]))
        return
    console.print(f"offbeat {found['version']}", style="bold", end="\n\n")
    console.print(inventory.mpi_table(found["mpi"]), "")
    console.print(inventory.library_table(found["libraries"]), "")
    for table in inventory.host_algorithm_tables(found["mpi"]):
        console.print(table, "")
    console.print(*inventory.algorithm_tables(found["algorithms"]), sep="\n\n")


def collect() -> dict[str, Any]:
    """Everything that ``info`` shows, as plain data."""
    served = libraries.installed()
    return {
        "version": __version__,
        "mpi": [
            {
                "name": install.name,
                "vendor": install.vendor,
                "version": install.version,
                "family": install.family,
                "libmpi": str(install.libmpi),
                "mpirun": str(install.mpirun) if install.mpirun is not None else None,
                "served_by": served[install.family].name if install.family in served else None,
                "host_algorithms": host_algorithms.checked(install.vendor, install.version),
            }
            for install in discover(os.environ)
        ],
        "libraries": [
            {
                "family": family,
                "serves": libraries.FAMILY_MEANING[family],
                "path": str(served[family]) if family in served else None,
            }
            for family in libraries.FAMILIES
        ],
        "algorithms": list(_core.algorithms()),
        "settings": list(_core.settings()),
    }
