# SPDX-License-Identifier: BSD-3-Clause
"""The compiled files that ship inside the package, in ``offbeat/lib``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import offbeat
from offbeat.errors import CommandError

# The preload libraries, liboffbeat-<name>.so, and what each serves. Each name but openmpi6 is an ABI family:
# Open MPI 6 belongs to the family openmpi, but has more functions.
PRELOADS = {
    "openmpi": "Open MPI 4 and 5",
    "openmpi6": "Open MPI 6",
    "mpich": "the MPICH family (MPICH, Intel MPI, MVAPICH, Cray MPICH)",
    "mpiabi": "the MPI standard ABI (libmpi_abi)",
}


_preferred_folders: list[Path] = []


def prefer_folder(folder: Path) -> None:
    """Use the compiled files of a build folder, before the installed ones."""
    _preferred_folders.insert(0, folder.absolute())


def _find_file(name: str) -> Path | None:
    # An editable installation has two folders: the sources, and site-packages with the compiled files.
    for folder in [*_preferred_folders, *(Path(part) / "lib" for part in offbeat.__path__)]:
        path = folder / name
        if path.is_file():
            return path
    return None


def installed() -> dict[str, Path]:
    """The preload libraries of this installation, by name."""
    found = {name: _find_file(f"liboffbeat-{name}.so") for name in PRELOADS}
    return {name: path for name, path in found.items() if path is not None}


def preload_library(name: str) -> Path:
    """One of the libraries to preload under programs."""
    return _library(f"liboffbeat-{name}.so", PRELOADS[name])


def library_without_mpi() -> Path:
    """The library for programs that have no MPI."""
    return _library("liboffbeat.so", "programs without MPI")


def trace_library(name: str) -> Path:
    """The tracer that belongs to a preload library."""
    return _library(f"liboffbeat-trace-{name}.so", PRELOADS[name])


def _library(name: str, meaning: str) -> Path:
    path = _find_file(name)
    if path is None:
        raise CommandError(f"this installation of offbeat has no {name}, for {meaning}")
    return path


def bench_files(family: str) -> tuple[Path, Path]:
    """The starter executable and the benchmark of an ABI family."""
    return starter(), _library(f"offbeat-bench-{family}.so", f"offbeat bench under {PRELOADS[family]}")


def starter() -> Path:
    """The executable that loads an MPI library and prints its version, or starts the benchmark."""
    return _library("offbeat-launch", "programs that use MPI")


def joined_preload(libraries: Sequence[Path], environment: Mapping[str, str]) -> str:
    """The value of LD_PRELOAD: what the user already preloads, then ``libraries`` in their order.

    Another library of offbeat's is dropped: it is left from an earlier ``offbeat env``.
    """
    # ld.so accepts both blanks and colons as separators.
    present = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    wanted = [library.name for library in libraries]
    others = [entry for entry in present if not Path(entry).name.startswith("liboffbeat-")]
    own = {Path(entry).name: entry for entry in present}
    return ":".join(
        [*others, *(own.get(name, str(each)) for name, each in zip(wanted, libraries, strict=True))]
    )
