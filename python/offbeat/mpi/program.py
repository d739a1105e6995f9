# SPDX-License-Identifier: BSD-3-Clause
"""Find the MPI library that a program uses, without running the program."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from offbeat.errors import CommandError
from offbeat.mpi.install import is_libmpi

_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*")


class Linkage(NamedTuple):
    """The MPI library that a program will load, as far as it is known."""

    libmpi: Path | None = None
    missing: str | None = None  # the SONAME that the program needs and ld.so does not find
    how: str = ""  # a reason to show to the user, such as "lmp is linked to it"
    python: bool = False
    sanitized: bool = False  # it loads libasan, which refuses to start behind a preload


def find_program(name: str, environment: Mapping[str, str]) -> Path:
    """The file that the command ``name`` executes."""
    found = shutil.which(name, path=environment.get("PATH"))
    if found is None and os.sep not in name:
        # As with mpirun, a program in the working folder needs no ./ before its name.
        found = shutil.which(os.path.join(os.curdir, name))
    if found is not None:
        return Path(found).absolute()
    path = Path(name)
    if path.is_dir():
        raise CommandError(f"{name} is a folder, not a program")
    if path.exists():
        hint = f"; a Python script is run as: python {name}" if path.suffix == ".py" else ""
        raise CommandError(f"{name} is not executable{hint}")
    where = "" if os.sep in name else " on PATH or in this folder"
    raise CommandError(f"program '{name}' not found{where}")


def linkage(program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> Linkage:
    """Find the MPI library that ld.so, or mpi4py, will load for this program in this environment."""
    if _PYTHON.fullmatch(program.name):
        return _linkage_of_python(program, arguments, environment)
    magic = _first_bytes(program)
    if magic.startswith(b"\x7fELF"):
        return _linkage_of_elf(program, environment, f"{program.name} is linked to it")
    if magic.startswith(b"#!"):
        command = _interpreter_of(magic, environment)
        if command and _PYTHON.fullmatch(Path(command[0]).name):
            return _linkage_of_python(Path(command[0]), [*command[1:], str(program), *arguments], environment)
    return Linkage()


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(512)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None


def _interpreter_of(first_line: bytes, environment: Mapping[str, str]) -> list[str]:
    """The command of a ``#!`` line, with ``env`` resolved."""
    words = shlex.split(first_line[2:].decode(errors="replace"))
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        found = shutil.which(words[0], path=environment.get("PATH")) if words else None
        words = [found or words[0], *words[1:]] if words else []
    return words


def _linkage_of_elf(path: Path, environment: Mapping[str, str], how: str) -> Linkage:
    """The libmpi that ld.so finds, by rpath, runpath and LD_LIBRARY_PATH, also through other libraries."""
    ask = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
    try:
        listing = subprocess.run(
            ["ldd", str(path)], env=ask, capture_output=True, text=True, check=False
        ).stdout
    except FileNotFoundError:
        raise CommandError("ldd is not installed; name the MPI with --mpi") from None
    sanitized = "\tlibasan.so" in listing
    for line in listing.splitlines():
        match = re.fullmatch(r"\s*(\S+) => (not found|\S+)(?: \(0x[0-9a-f]+\))?\s*", line)
        if match is None or not is_libmpi(Path(match[1]).name):
            continue
        if match[2] == "not found":
            return Linkage(missing=match[1], how=how, sanitized=sanitized)
        return Linkage(libmpi=Path(os.path.normpath(match[2])), how=how, sanitized=sanitized)
    return Linkage(sanitized=sanitized)


def _linkage_of_python(python: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> Linkage:
    from offbeat.mpi import interpreter  # only Python programs need it

    module = interpreter.find_mpi_module(python, arguments, environment)
    if module is None:
        return Linkage(python=True)
    how = f"{module.name} of {python} loads it"
    if module.libmpi is not None:
        return Linkage(libmpi=module.libmpi, how=how, python=True)
    for extension in module.extensions:
        found = _linkage_of_elf(extension, environment, how)
        if found.libmpi is not None or found.missing is not None:
            return Linkage(found.libmpi, found.missing, how, python=True)
    return Linkage(python=True)
