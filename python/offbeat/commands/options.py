# SPDX-License-Identifier: BSD-3-Clause
"""Options that several verbs share, and the checks of their values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from offbeat import _core
from offbeat.bench.plan import COLLECTIVES
from offbeat.errors import FAILED, CommandError
from offbeat.expressions import canonical

Ranks = Annotated[int, typer.Option("-n", "--ranks", metavar="N", help="Number of ranks.")]
Mpi = Annotated[
    str | None,
    typer.Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to use: a prefix, or a name as in `offbeat info` (openmpi, mpich-5, intel, mpiabi, "
        "embedded). Default: the one that the program is linked to.",
    ),
]
MpiOfNoProgram = Annotated[
    str | None,
    typer.Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to use: a prefix, or a name as in `offbeat info` (openmpi, mpich-5, intel, mpiabi, "
        "embedded). Default: the one of the mpirun on PATH, otherwise embedded.",
    ),
]
MpiOfExport = Annotated[
    str | None,
    typer.Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to check with: a prefix, or a name as in `offbeat info`. Default: the one of RESULTS.",
    ),
]
Allreduce = Annotated[
    str | None,
    typer.Option(
        "--allreduce", metavar="EXPR", help="Algorithm of MPI_Allreduce, such as 'pipeline(4, ring)'."
    ),
]
Algorithm = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        metavar="COLLECTIVE=EXPR",
        help="Algorithm of another collective, such as 'bcast=pipeline(8, chain)'; may be repeated.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FOLDER", envvar="OFFBEAT_TRACE", help="Also record a trace into FOLDER."
    ),
]
MpirunArgs = Annotated[
    str,
    typer.Option("--mpirun-args", metavar="'ARGS'", help="Arguments for mpirun, placed before the program."),
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Say which MPI and which algorithms are chosen, and why. -vv also counts the calls.",
    ),
]

HostOfRules = Annotated[
    str | None,
    typer.Option("--mpi", metavar="NAME", help=f"The MPI as rules name it: {', '.join(_core.hosts())}."),
]
CollectiveOfRules = Annotated[
    str | None, typer.Option("--collective", metavar="NAME", help="Show only the rules of this collective.")
]
UsersRules = Annotated[
    Path | None,
    typer.Option(
        "--rules", metavar="FILE", envvar="OFFBEAT_RULES", help="Rules to try before the built-in ones."
    ),
]


def checked_host(name: str | None) -> None:
    """Refuse an MPI that rules have no name for."""
    if name is not None and name not in _core.hosts():
        raise CommandError(f"--mpi {name}: rules know only {', '.join(_core.hosts())}")


def checked_served(collective: str | None) -> None:
    """Refuse a collective that offbeat does not serve."""
    if collective is not None and collective not in COLLECTIVES:
        raise CommandError(f"offbeat does not serve '{collective}', only {', '.join(COLLECTIVES)}")


def checked_ranks(ranks: int) -> int:
    """Refuse fewer than one rank."""
    if ranks < 1:
        raise CommandError(f"-n {ranks}: the number of ranks must be at least 1")
    return ranks


def checked_trace(folder: Path | None) -> Path | None:
    """The absolute path of the folder for a trace. Refuses a folder that already has one."""
    if folder is not None and any(folder.glob("rank-*.trace")):
        raise CommandError(f"{folder} already has a trace; remove it or name another folder")
    return folder.resolve() if folder is not None else None


def split_arguments(text: str) -> list[str]:
    """The words of ``--mpirun-args``, quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--mpirun-args {text!r}: {str(error).lower()}") from None


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


def write_text(path: Path, text: str) -> None:
    """Write a file that the user named."""
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", FAILED) from None


def chosen_algorithms(allreduce: str | None, others: list[str] | None) -> dict[str, str]:
    """The canonical expression for each collective that was named."""
    chosen = {"allreduce": canonical(allreduce)} if allreduce is not None else {}
    for text in others or []:
        collective, equals, expression = text.partition("=")
        if not equals:
            raise CommandError(f"--algorithm {text}: write COLLECTIVE=EXPR, such as bcast=binomial")
        if collective not in COLLECTIVES:
            known = ", ".join(COLLECTIVES)
            raise CommandError(f"--algorithm {text}: offbeat does not serve '{collective}', only {known}")
        if collective in chosen:
            raise CommandError(f"--algorithm {text}: {collective} already has an algorithm")
        chosen[collective] = canonical(expression, collective)
    return chosen
