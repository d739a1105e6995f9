# SPDX-License-Identifier: BSD-3-Clause
"""The form of all result files of this folder: what was measured, where, when, and by which command.

A file is one JSON object with the fields of KEYS. `cells` has one object for each thing that was measured:
what it is (collective, ranks, size_bytes, mpi, ...), and the values of all passes or runs, with the unit in
the name. A benchmark may add facts of its own. The plots and tables of docs/gallery/measured.md come from
files of this form in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from offbeat import __version__, machine
from offbeat.mpi import discovery

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "results"
FORMAT = "offbeat benchmark"
VERSION = 1
KEYS = (
    "format",
    "version",
    "benchmark",  # the name of the script
    "command",
    "started",  # in UTC, as `ended`
    "ended",
    "load",  # the load average of the last minute, at the start and at the end
    "machine",
    "offbeat",  # its version and the commit of the checkout
    "mpis",  # the name that the cells have for each MPI, its vendor and its version
    "cells",
)


def add_option(parser: argparse.ArgumentParser) -> None:
    default = FOLDER / f"{Path(sys.argv[0]).stem}.json"
    parser.add_argument(
        "--json",
        nargs="?",
        const=default,
        type=Path,
        metavar="FILE",
        help=f"also write all values to this file (without FILE: benchmarks/results/{default.name})",
    )


class ResultFile:
    """Notes when a benchmark began, and writes its file. Without a path it writes nothing.

    Once one exists, SIGTERM, which `timeout` sends, acts like Ctrl-C, so no rank is left running.
    """

    def __init__(self, path: Path | None) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self._path = path
        self._started = _now()
        self._load = os.getloadavg()[0]
        if path is not None and not path.resolve().parent.is_dir():
            sys.exit(f"{path}: there is no folder {path.parent}")  # not after hours of measuring

    def write(
        self, cells: Iterable[Mapping[str, Any]], mpis: Sequence[Mapping[str, str]] = (), **facts: object
    ) -> None:
        """Write the complete file, and remove FILE.part."""
        if self._path is not None:
            self._write(self._path, cells, mpis, facts)
            self._part(self._path).unlink(missing_ok=True)

    def write_part(
        self, cells: Iterable[Mapping[str, Any]], mpis: Sequence[Mapping[str, str]] = (), **facts: object
    ) -> None:
        """Write what was measured so far to FILE.part, because FILE may hold a complete earlier run."""
        if self._path is not None:
            self._write(self._part(self._path), cells, mpis, facts)

    @staticmethod
    def _part(path: Path) -> Path:
        return path.with_name(f"{path.name}.part")

    def _write(
        self,
        path: Path,
        cells: Iterable[Mapping[str, Any]],
        mpis: Sequence[Mapping[str, str]],
        facts: Mapping[str, object],
    ) -> None:
        document = {
            "format": FORMAT,
            "version": VERSION,
            "benchmark": Path(sys.argv[0]).stem,
            "command": _command(),
            "started": self._started,
            "ended": _now(),
            "load": {"start": round(self._load, 2), "end": round(os.getloadavg()[0], 2)},
            "machine": machine.description(),
            "offbeat": {"version": __version__, "commit": _commit()},
            "mpis": list(mpis),
            **facts,
            "cells": list(cells),
        }
        lines = [f" {json.dumps(name)}: {_in_lines(value)}" for name, value in document.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def mpi(name: str, where: Path | str | None = None) -> dict[str, str]:
    """An element of `mpis`: the MPI of a prefix, or the one that `--mpi` would select by its name."""
    found = discovery.select(str(where or name), {})
    return {"name": name, "vendor": found.vendor, "version": found.version}


def mpi_of_launcher(name: str, mpirun: str) -> dict[str, str]:
    """An element of `mpis`: the MPI whose mpirun this is, a path or a name on PATH."""
    return mpi(name, shutil.which(mpirun))


def mpi_of_compiler(mpicc: str) -> dict[str, str]:
    """An element of `mpis`: the MPI whose compiler this is."""
    found = discovery.select(str(Path(mpicc).absolute().parents[1]), {})
    return {"name": found.name, "vendor": found.vendor, "version": found.version}


def read(path: Path) -> dict[str, Any]:
    """A file of this form. Raises ValueError for any other."""
    document: dict[str, Any] = json.loads(path.read_text())
    if missing := [key for key in KEYS if key not in document]:
        raise ValueError(f"{path}: no {', '.join(missing)}")
    if (document["format"], document["version"]) != (FORMAT, VERSION):
        raise ValueError(f"{path}: {document['format']} {document['version']}, not {FORMAT} {VERSION}")
    return document


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _command() -> str:
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script
    return shlex.join(["python", str(shown), *sys.argv[1:]])


def _commit() -> str:
    """The commit of the checkout, with `-changed` if the code of offbeat is not that of the commit."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True)
        code = [*git, "diff", "--quiet", "HEAD", "--", "include", "python", "src"]
        changed = subprocess.run(code, capture_output=True).returncode != 0
    except OSError:
        return ""
    return head.stdout.strip() + ("-changed" if changed and head.returncode == 0 else "")


def _in_lines(value: Any) -> str:
    """JSON with a line for each element of a list of objects, so that two files can be compared."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(json.dumps(each, allow_nan=False) for each in value) + "\n ]"
    return json.dumps(value, allow_nan=False)
