# SPDX-License-Identifier: BSD-3-Clause
"""offbeat export: write a trace for Perfetto, or as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from offbeat.commands.options import checked_output
from offbeat.errors import CommandError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(export)


def export(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The folder that offbeat trace made.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="FILE.json for Perfetto, FILE.csv for a table."),
    ],
    begin: Annotated[
        float, typer.Option("--from", metavar="SECONDS", help="Leave out calls that end earlier.")
    ] = 0.0,
    end: Annotated[
        float, typer.Option("--to", metavar="SECONDS", help="Leave out calls that begin later.")
    ] = float("inf"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """Write the calls of a trace for other tools.

    offbeat export run.trace -o run.json

    A .json file opens in https://ui.perfetto.dev and in chrome://tracing. It shows one line per rank, with
    the time in each call divided into waiting and communicating. A .csv file has one line for each call of
    each rank. Seconds count from the first call.
    """
    checked_output(output, force=force)
    if output.suffix not in (".json", ".csv"):
        raise CommandError(f"-o {output}: the name must end in .json (Perfetto) or .csv (a table)")
    if not begin < end:
        raise CommandError(f"--from {begin:g} --to {end:g}: there is nothing between")
    from offbeat.trace import export as exporting
    from offbeat.trace import read

    write = exporting.write_perfetto if output.suffix == ".json" else exporting.write_csv
    count = write(read(trace), output, begin, end)
    print(f"wrote {count} calls to {output}")
