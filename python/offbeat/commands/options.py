# SPDX-License-Identifier: BSD-3-Clause
"""Options that several verbs share, spelled once."""

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
        "embedded). By default the one that the program is linked to.",
    ),
]
MpiOfNoProgram = Annotated[
    str | None,
    typer.Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to use: a prefix, or a name as in `offbeat info` (openmpi, mpich-5, intel, mpiabi, "
        "embedded). By default the one of the mpirun on PATH, otherwise embedded.",
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
        "--trace", metavar="FOLDER", envvar="OFFBEAT_TRACE", help="Also record who arrives when, there."
    ),
]
MpirunArgs = Annotated[
    str,
    typer.Option("--mpirun-args", metavar="'ARGS'", help="Passed to mpirun as they are, before the program."),
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Say what is chosen and why; -vv: and count the calls.",
    ),
]

HostOfRules = Annotated[
    str | None,
    typer.Option("--mpi", metavar="NAME", help=f"The MPI, as in rules: one of {', '.join(_core.hosts())}."),
]
CollectiveOfRules = Annotated[
    str | None, typer.Option("--collective", metavar="NAME", help="Only the rules of this one.")
]
UsersRules = Annotated[
    Path | None,
    typer.Option(
        "--rules", metavar="FILE", envvar="OFFBEAT_RULES", help="Rules that come before the built-in ones."
    ),
]


def checked_host(name: str | None) -> None:
    """Refuse an MPI that rules have no name for."""
    if name is not None and name not in _core.hosts():
        raise CommandError(f"--mpi {name}: rules know {', '.join(_core.hosts())}")


def checked_served(collective: str | None) -> None:
    """Refuse a collective that offbeat does not serve."""
    if collective is not None and collective not in COLLECTIVES:
        raise CommandError(f"offbeat serves no '{collective}', but {', '.join(COLLECTIVES)}")


def checked_ranks(ranks: int) -> int:
    """Refuse numbers of ranks that cannot be."""
    if ranks < 1:
        raise CommandError(f"-n {ranks}: the number of ranks must be at least 1")
    return ranks


def checked_trace(folder: Path | None) -> Path | None:
    """The folder of a trace, for ranks that may run elsewhere; refuse one that has a trace."""
    if folder is not None and any(folder.glob("rank-*.trace")):
        raise CommandError(f"{folder} has a trace already; remove it or name another folder")
    return folder.resolve() if folder is not None else None


def split_arguments(text: str) -> list[str]:
    """The words of ``--mpirun-args``, quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--mpirun-args {text!r}: {str(error).lower()}") from None


def checked_output(path: Path | None, *, force: bool) -> None:
    """Refuse to overwrite, before any work is done; ``--force`` allows it."""
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
            raise CommandError(f"--algorithm {text}: offbeat serves no '{collective}', but {known}")
        if collective in chosen:
            raise CommandError(f"--algorithm {text}: {collective} was chosen before")
        chosen[collective] = canonical(expression, collective)
    return chosen
