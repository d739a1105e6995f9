# SPDX-License-Identifier: BSD-3-Clause
"""Each part of the C++ code uses only what stands above it in ARCHITECTURE.md."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"

# From the bottom up. A folder may include itself and those before it.
# The longest name that fits is a file's layer.
LAYERS = (
    "base",
    "patterns",
    "models",
    "reduction",
    "transport",
    "node",
    "collectives",
    "simulator",
    "selection",
    "clock",
    "trace",
    "mpi",
    "mpi/interpose",
    "mpi/tracer",
    "mpi/bench",
    "capi",
)
# The layers whose code may know an MPI.
WITH_MPI = tuple(layer for layer in LAYERS if layer.startswith("mpi"))
# Each is a library or a program of its own: none uses another one's parts.
APART = ("mpi/interpose", "mpi/tracer", "mpi/bench")

INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def layer_of(file: Path) -> str:
    folders = [str(folder) for folder in file.parents]
    return next(folder for folder in folders if folder in LAYERS)


def includes() -> list[tuple[Path, Path]]:
    """Each file of src/ with each file of src/ that it includes."""
    found = []
    for path in sorted(SOURCE.rglob("*.?pp")):
        for name in INCLUDE.findall(path.read_text()):
            for included in (SOURCE / name, path.parent / name):
                if included.is_file():
                    found.append((path.relative_to(SOURCE), included.relative_to(SOURCE)))
                    break
    return found


def test_every_file_belongs_to_a_layer() -> None:
    assert all(layer_of(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.?pp"))


def test_no_layer_uses_one_above_it() -> None:
    pairs = includes()
    assert len(pairs) > 200, "includes are not found"
    wrong = [
        f"{file} includes {included}"
        for file, included in pairs
        if LAYERS.index(layer_of(included)) > LAYERS.index(layer_of(file))
        or (layer_of(file) != layer_of(included) and {layer_of(file), layer_of(included)} <= set(APART))
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_mpi_folders_know_an_mpi() -> None:
    wrong = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.?pp"))
        if "mpi.h" in INCLUDE.findall(path.read_text()) and layer_of(path.relative_to(SOURCE)) not in WITH_MPI
    ]
    assert not wrong, wrong
