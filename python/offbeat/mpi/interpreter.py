# SPDX-License-Identifier: BSD-3-Clause
"""Find the MPI of a Python program. An extension module decides it, not the interpreter.

mpi4py chooses a libmpi on import (see its ``_mpiabi.py``: MPI4PY_LIBMPI and
mpi4py.cfg come first, then the virtual environment). So the interpreter that will
run the program imports mpi4py, without starting MPI, and says which libmpi it got.
Other modules are linked to one MPI, so it is enough to look at their files.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Modules that bring MPI. If a program imports several, the first one in this list counts.
_MPI_MODULES = ("petsc4py", "slepc4py", "horovod", "dolfinx", "mpi4py", "h5py", "netCDF4")
_FALLBACK_MODULES = ("mpi4py", "petsc4py")  # the modules to try if the program shows no import of another one
_OPTIONS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")

_PRINT_MODULE_CODE = """
import glob, importlib.util, json, os, sys
def ask(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    answer = {"name": name, "libmpi": None, "extensions": []}
    if name == "mpi4py":
        import mpi4py
        mpi4py.rc.initialize = False
        try:
            import mpi4py.MPI
        except Exception:
            return answer
        with open("/proc/self/maps") as maps:
            files = {line.split(None, 5)[-1].strip() for line in maps}
        stems = ("libmpi.so", "libmpich.so", "libmpi_abi.so")
        loaded = sorted(file for file in files if os.path.basename(file).startswith(stems))
        answer["libmpi"] = loaded[0] if loaded else None
    else:
        for folder in spec.submodule_search_locations or []:
            answer["extensions"] += sorted(glob.glob(os.path.join(folder, "**", "*.so"), recursive=True))
    return answer
for name in sys.argv[1:]:
    answer = ask(name)
    if answer is not None:
        print("offbeat:" + json.dumps(answer))
        break
"""


@dataclass(frozen=True)
class MpiModule:
    """An extension module that brings MPI into Python."""

    name: str
    libmpi: Path | None
    extensions: list[Path]


def find_mpi_module(
    python: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> MpiModule | None:
    """The module through which this program reaches MPI, or None if no such module is found."""
    imported = imported_modules(source_of(arguments))
    candidates = [name for name in _MPI_MODULES if name in imported]
    candidates += [name for name in _FALLBACK_MODULES if name not in candidates]
    ask = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run(
            [str(python), "-c", _PRINT_MODULE_CODE, *candidates],
            env=ask, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in answer.stdout.splitlines():
        if line.startswith("offbeat:"):
            found = json.loads(line.removeprefix("offbeat:"))
            libmpi = Path(found["libmpi"]) if found["libmpi"] else None
            return MpiModule(found["name"], libmpi, [Path(path) for path in found["extensions"]])
    return None


def source_of(arguments: Sequence[str]) -> str:
    """The code that ``python ARGUMENTS`` runs, if it is in one file; otherwise an empty text."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "-c":
            return next(rest, "")
        if argument == "-m":
            return f"import {next(rest, 'sys')}"
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            try:
                return Path(argument).read_text(encoding="utf-8", errors="replace")
            except OSError:
                return ""
    return ""


def imported_modules(source: str) -> set[str]:
    """The top-level names of all modules that ``source`` imports, in any place."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules.add(node.module.partition(".")[0])
    return modules
