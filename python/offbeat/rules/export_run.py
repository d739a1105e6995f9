# SPDX-License-Identifier: BSD-3-Clause
"""Make an export, check it on the host, and write it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from offbeat.errors import FAILED, CommandError
from offbeat.files import write_whole
from offbeat.mpi.choice import Choice, choose
from offbeat.rules import export_choices, export_intel, export_mpich, export_openmpi
from offbeat.rules.export import SETTINGS, Export
from offbeat.rules.export_check import NO_EFFECT, NOT_FASTER, Host, SeenEffect, check, run_with_files
from offbeat.rules.export_choices import Table
from offbeat.units import format_count


@dataclass(frozen=True)
class Request:
    """What to export, and the MPI to check it with."""

    to: str
    tables: Sequence[Table]  # one for each number of ranks
    choice: Choice


@dataclass(frozen=True)
class MadeExport:
    """An export that was checked."""

    files: Mapping[str, str] = field(default_factory=dict)  # empty: there is nothing to export
    settings: Sequence[str] = ()  # those of the files that set variables
    seen: Sequence[SeenEffect] = ()
    notes: Sequence[str] = ()


def refuse_folder(folder: Path, *, force: bool) -> None:
    """Refuse to write where the user may not want it. Called before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder")
    if not folder.absolute().parent.is_dir():
        raise CommandError(f"{folder}: there is no folder {folder.absolute().parent}")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise CommandError(f"{folder} is not empty; add --force to overwrite the files of an earlier export")


def read_request(paths: Sequence[Path], to: str, objective: str, mpi: str | None) -> Request:
    """Read the results. Raises CommandError if they do not match each other, or the installed MPI."""
    if (disturbing := export_choices.disturbing_variable(os.environ)) is not None:
        raise CommandError(f"{disturbing} is set, so the check could not see the default; unset it")
    tables: dict[int, Table] = {}
    wanted: dict[str, str] = {}
    for path in paths:
        found = export_choices.read(path, to)
        ranks = found.plan.ranks
        if ranks in tables:
            raise CommandError(
                f"{path} has {format_count(ranks, 'rank')}, as another file has; name one of them"
            )
        tables[ranks] = export_choices.table(found, objective)
        if not tables[ranks].choices:
            missing = f" under {objective} arrival" if objective != export_choices.ROBUST else ""
            raise CommandError(f"{path} has no cell in which native was measured{missing}")
        about = found.about["mpi"]
        wanted.setdefault(str(about.get("version")), str(about.get("libmpi")))
    if len(wanted) > 1:
        raise CommandError(f"the files were measured under several versions: {', '.join(wanted)}")
    ((version, libmpi),) = wanted.items()
    choice = choose(mpi or libmpi, None, [], os.environ)
    install = choice.install
    if (install.vendor, install.version) != (export_choices.VENDORS[to], version):
        raise CommandError(
            f"{paths[0]} was measured under {export_choices.VENDORS[to]} {version}, not {install}; "
            "an export is for one version"
        )
    return Request(to, list(tables.values()), choice)


def make_and_check(request: Request, folder: Path, on_start: Callable[[str], None]) -> MadeExport:
    """Make the export for ``folder``, and check it on the host.

    Where an algorithm does not take effect, the export counts the host's own decision as best.
    """
    host = Host(request.choice.install, request.choice.variables, on_start)
    make = _exporter(request)
    tables = list(request.tables)
    made = make(tables)
    notes = list(made.notes)
    seen: list[SeenEffect] = []
    try:
        with tempfile.TemporaryDirectory(prefix=".offbeat-export-", dir=folder.absolute().parent) as name:
            trial = Path(name)
            for table in tables:
                if (settings := _settings_file(made, table)) is not None:
                    _write_all(trial, made.files(trial, host.install.vendor))
                    seen += check(made, trial, table, settings, host)
            dropped = [each for each in seen if not each.has_effect]
            if dropped:
                notes += [_why_dropped(each) for each in dropped]
                tables = [_table_without(table, dropped) for table in tables]
                made = make(tables)
                notes += [note for note in made.notes if note not in notes]
                _write_all(trial, made.files(trial, host.install.vendor))
                for table in tables:
                    if (settings := _settings_file(made, table)) is not None:
                        run_with_files(made, trial, table, settings, host)
    except OSError as error:
        raise CommandError(f"cannot write beside {folder}: {error.strerror}", FAILED) from None
    if not made.named:
        return MadeExport(notes=notes)
    kept = [each for each in seen if (each.ranks, each.collective, each.size_bytes, each.name) in made.named]
    what = f"{host.install.vendor} {host.install.version}"
    return MadeExport(made.files(folder.absolute(), what), list(made.settings), kept, notes)


def _exporter(request: Request) -> Callable[[Sequence[Table]], Export]:
    if request.to == "mpich":
        library = export_mpich.Library.read(request.choice.install.libmpi)
        return lambda tables: export_mpich.export(tables, library)
    if request.to == "openmpi":
        return lambda tables: export_openmpi.export(tables, request.choice.install.version)
    return export_intel.export


def _settings_file(made: Export, table: Table) -> str | None:
    """The file that sets the variables for a table; None if the export names nothing there."""
    if not any(ranks == table.ranks for ranks, *_ in made.named):
        return None
    own = f"settings-{table.ranks}.sh"
    return own if own in made.settings else SETTINGS


def _table_without(table: Table, dropped: Sequence[SeenEffect]) -> Table:
    return table.without(
        {(e.collective, e.size_bytes): e.by == NOT_FASTER for e in dropped if e.ranks == table.ranks}
    )


def _why_dropped(seen: SeenEffect) -> str:
    why = f"{seen.name} had no effect"
    if seen.by != NO_EFFECT:
        times = f"{seen.default_us:.4g} us before, {seen.exported_us:.4g} us with it"
        why = f"{seen.name} was {seen.by} in the check ({times})"
    where = f"{seen.collective} of {seen.size_bytes} bytes, {format_count(seen.ranks, 'rank')}"
    return f"{where}: the default counts as best, because {why}"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files, each by renaming a complete one."""
    try:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, _writer(text))
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}", FAILED) from None


def _writer(text: str) -> Callable[[TextIO], int]:
    return lambda file: file.write(text)


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
