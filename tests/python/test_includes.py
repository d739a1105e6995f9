# SPDX-License-Identifier: BSD-3-Clause
"""Each part of the C++ code uses only what stands above it in ARCHITECTURE.md."""

from __future__ import annotations

import re
from collections import defaultdict
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
    "collectives/board",
    "collectives/phases",
    "collectives/of_each",
    "collectives/all",
    "simulator",
    "selection",
    "groups",
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

# Files that are not in the layer of their folder. The registry brings all algorithms together; the costs of
# combinators depend on them, and so do automatic grids.
ELSEWHERE = {
    "collectives/registry.cpp": "collectives/all",
    "collectives/cost.cpp": "collectives/all",
    "collectives/automatic_grid.cpp": "collectives/all",
}

INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def layer_of(file: Path) -> str:
    """The layer of a file of src/. One collective, or a combinator, may use another one's algorithms."""
    if str(file) in ELSEWHERE:
        return ELSEWHERE[str(file)]
    folders = [str(folder) for folder in file.parents]
    layer = next(folder for folder in folders if folder in LAYERS)
    if layer == "collectives" and len(file.parts) > 2:
        return "collectives/of_each"
    return layer


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


def test_files_elsewhere_exist() -> None:
    assert all((SOURCE / file).is_file() for file in ELSEWHERE)


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


OPENS_NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{")
DEFINES_TYPE = re.compile(
    r"(?:struct|class|enum class|union) (?:\w+\(.*\) )?(\w+)(?: final)?(?: :|\s*\{|\s*$)"
)


def types(source: str) -> set[str]:
    """The types that this text defines outside functions, but not those of an unnamed namespace."""
    found, names = set(), list[str]()
    for line in source.splitlines():
        if opened := OPENS_NAMESPACE.fullmatch(line):
            names.append(opened[1])
        elif line.startswith("}  // namespace"):
            names.pop()
        elif (defined := DEFINES_TYPE.match(line)) and "" not in names:
            found.add("::".join([*names, defined[1]]))
    return found


def test_no_two_types_have_one_name() -> None:
    """C++ forbids it even if no file sees both: the linker keeps one of each inline function."""
    files = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.?pp")):
        for name in types(path.read_text()):
            files[name].append(str(path.relative_to(SOURCE)))
    assert len(files) > 300, "types are not found"
    assert not [f"{name}: {where}" for name, where in files.items() if len(where) > 1]
