# SPDX-License-Identifier: BSD-3-Clause
"""What commands print and write: the console, JSON, warnings, and the files that the user names."""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offbeat import files, machine
from offbeat.commands.command_line import Context
from offbeat.errors import FAILED, CommandError, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PLAIN_WIDTH = 140  # columns of output that goes to a file or a pipe
_WIDEST = 10_000


def new_console(*, width: int = _PLAIN_WIDTH, stderr: bool = False, quiet: bool = False) -> Console:
    """The console of a command. Names such as ``[1]`` are text and not markup.

    ``width`` is the number of columns if standard output goes to a file or a pipe. A terminal has its own.
    """
    from rich.console import Console  # which takes 0.1 s, and not all commands need it

    columns = None if sys.stdout.isatty() else width
    return Console(width=columns, highlight=False, markup=False, stderr=stderr, quiet=quiet)


def print_unbroken(console: Console, table: Table) -> None:
    """Print a table whose cells somebody may copy, such as paths: as wide as it needs, even in a terminal."""
    known = console.width
    console.width = max(known, console.measure(table, options=console.options.update(width=_WIDEST)).maximum)
    console.print(table)
    console.width = known


def warn(line: str) -> None:
    """Print one line about something that the user should know, on standard error."""
    print(f"offbeat: {printable(line)}", file=sys.stderr)


def warn_of_load() -> None:
    """Say before a measurement that other programs use the cores."""
    line = machine.overload_warning()
    if line is not None:
        warn(f"{line}, so times may be wrong")


def print_json(document: Any) -> None:
    """Print what ``--json`` asks for. Raises ValueError for numbers that JSON lacks, such as infinity."""
    print(json.dumps(document, indent=1, allow_nan=False))


def today() -> str:
    """The date in UTC, as rules and files have it: ``2026-01-31``."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def hold(context: Context, path: Path, option: str) -> None:
    """Keep other commands from writing the file ``path`` until this one ends.

    Raises CommandError if it is a folder, or if another command writes it. ``option`` names the file.
    """
    if path.is_dir():
        raise CommandError(f"{option} {path}: it is a folder")
    context.enter_context(files.locked_for_writing(path))


def checked_output(path: Path | None, *, force: bool) -> None:
    """Refuse to overwrite a file unless ``--force`` is given. Called before any work is done."""
    if path is None:
        return
    if path.is_dir():
        raise CommandError(f"{path} is a folder")
    if path.exists() and not force:
        raise CommandError(f"{path} exists; add --force to overwrite it")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")


def checked_drawing(page: Path | None, figures: Path | None) -> None:
    """Refuse to draw if the packages or the browser that it takes are not here. Called before any work."""
    if figures is not None and figures.exists() and not figures.is_dir():
        raise CommandError(f"--figures {figures}: it is not a folder")
    if page is not None or figures is not None:
        importlib.import_module("plotly")  # main() says how to install what is missing
    if figures is not None:
        from offbeat.reports import images

        images.check_browser()


def write_text(path: Path, text: str) -> None:
    """Write a file that the user named. Raises CommandError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", FAILED) from None
