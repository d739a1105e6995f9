# SPDX-License-Identifier: BSD-3-Clause
"""offbeat export: write a trace for Perfetto, or as a table."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Annotated

from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.options import AsJson
from offbeat.commands.output import checked_output, print_json
from offbeat.errors import CommandError
from offbeat.units import format_count, parse_duration_s

_OTF2_SUFFIX = ".otf2"
_FORMATS = {".json": "Perfetto", ".csv": "a table", _OTF2_SUFFIX: "OTF2"}


def export(
    trace: Annotated[Path, Argument(metavar="TRACE", help="The folder that offbeat trace made.")],
    output: Annotated[
        Path,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="FILE.json for Perfetto, FILE.csv for a table, FILE.otf2 for OTF2.",
        ),
    ],
    begin_text: Annotated[
        str, Option("--from", metavar="TIME", help="Leave out calls that end earlier, such as 1.5s.")
    ] = "0s",
    end_text: Annotated[
        str | None, Option("--to", metavar="TIME", help="Leave out calls that begin later.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite FILE.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace for Perfetto, Vampir or a table.

    A .json file opens in https://ui.perfetto.dev and in chrome://tracing. It shows one line per rank, with
    the time in each call divided into waiting and communicating. A .csv file has one line for each call of
    each rank. A name that ends in .otf2 is a folder with an OTF2 archive, for Vampir, Scalasca and others
    (pip install 'offbeat[otf2]'). Times count from the first call.

    offbeat export run.trace -o run.json
    offbeat export run.trace -o run.csv --from 1.5 --to 2
    offbeat export run.trace -o run.otf2
    """
    _check_output(output, force=force)
    begin = parse_duration_s(begin_text, may_be_zero=True)
    end = parse_duration_s(end_text, may_be_zero=True) if end_text is not None else math.inf
    if not begin < end:
        raise CommandError(f"--from {begin:g} --to {end:g}: there is nothing between")
    from offbeat.trace import export as exporting
    from offbeat.trace import read

    found = read(trace)
    if output.suffix == _OTF2_SUFFIX:
        from offbeat.trace import otf2_archive

        count = otf2_archive.write(found, output, begin, end)
    else:
        write = exporting.write_perfetto if output.suffix == ".json" else exporting.write_csv
        count = write(found, output, begin, end)
    if as_json:
        print_json({"output": str(output), "format": _FORMATS[output.suffix], "calls": count})
    else:
        print(f"Wrote {format_count(count, 'call')} to {output}")


def _check_output(output: Path, *, force: bool) -> None:
    if output.suffix not in _FORMATS:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in _FORMATS.items())
        raise CommandError(f"-o {output}: the name must end in one of {known}")
    if output.suffix != _OTF2_SUFFIX:
        checked_output(output, force=force)
    elif output.exists():
        if not force:
            raise CommandError(f"{output} exists; add --force to replace it")
        if not output.is_dir() or not (output / "traces.otf2").exists():
            raise CommandError(f"{output} is not an OTF2 archive, so it is not replaced")
        shutil.rmtree(output)


COMMAND = Command(export)
