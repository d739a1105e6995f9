# SPDX-License-Identifier: BSD-3-Clause
"""A hint for command lines in which another launcher stands before the program."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from offbeat.errors import CommandError
from offbeat.mpi.launcher import NAMES
from offbeat.mpi.program import linkage

# What lies beside a launcher, and not beside a program that only has the name of one.
_COMPANIONS = {*NAMES, "mpicc", "sbatch", "apstat", "jslist"}
_COUNT = re.compile(r"(?:-n|-np|--n|--np|--ntasks)=?(\d*)")
_WITH_NAMES = {"--map-by", "--rank-by", "--bind-to"}  # their values may be names of programs, such as node


def refuse(verb: str, program: Sequence[str], path: Path, environment: Mapping[str, str]) -> None:
    """Raise CommandError if the program is a launcher, which would start a job for each rank.

    A program that only has the name of one is fine: it is linked to an MPI, or no launcher lies beside it.
    """
    if not _is_launcher(program[1:], path, environment):
        return
    raise CommandError(
        f"{program[0]} would start once for each rank, because offbeat starts the ranks itself; "
        f"type: {_better(verb, program, environment)}"
    )


def _is_launcher(arguments: Sequence[str], path: Path, environment: Mapping[str, str]) -> bool:
    if path.name not in NAMES:
        return False
    folders = {path.parent, path.resolve().parent}
    others = _COMPANIONS - {path.name}
    if not any((folder / other).exists() for folder in folders for other in others):
        return False
    return linkage(path, arguments, environment).libmpi is None


def _better(verb: str, program: Sequence[str], environment: Mapping[str, str]) -> str:
    """The command line without the launcher, as far as its options are clear."""
    launcher, rest = Path(program[0]).name, list(program[1:])
    ranks, options = "N", list[str]()
    while rest and (rest[0].startswith("-") or not _is_program(rest[0], environment)):
        word = rest.pop(0)
        if found := _COUNT.fullmatch(word):
            ranks = found[1] or (rest.pop(0) if rest else ranks)
        elif word != "--":
            options += [word, rest.pop(0)] if word in _WITH_NAMES and rest else [word]
    if not rest or ":" in rest:
        return f"offbeat {verb} -n N -- PROGRAM ARGUMENTS"
    placed = ""
    if launcher in ("srun", "aprun", "jsrun"):
        placed = f" --launcher {shlex.quote(shlex.join([launcher, *options]))}"
    elif options:
        placed = f" --mpirun-args {shlex.quote(shlex.join(options))}"
    return f"offbeat {verb} -n {ranks}{placed} -- {shlex.join(rest)}"


def _is_program(word: str, environment: Mapping[str, str]) -> bool:
    return shutil.which(word, path=environment.get("PATH")) is not None or (
        os.access(word, os.X_OK) and Path(word).is_file()
    )
