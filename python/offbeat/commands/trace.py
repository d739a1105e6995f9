# SPDX-License-Identifier: BSD-3-Clause
"""offbeat trace: record when each rank arrives at each collective of a program."""

from __future__ import annotations

import shlex
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from offbeat.commands.options import (
    Algorithm,
    Allreduce,
    Mpi,
    MpirunArgs,
    Ranks,
    Verbose,
    chosen_algorithms,
)
from offbeat.commands.start import built
from offbeat.errors import CommandError
from offbeat.mpi import launch


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(context_settings={"allow_interspersed_args": False})(trace)


def trace(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM", help="The program and its arguments.")],
    ranks: Ranks = 1,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder to write the trace to.")
    ] = Path("run.trace"),
    every: Annotated[
        int, typer.Option("--every", metavar="K", min=1, help="Record every K-th call of each communicator.")
    ] = 1,
    ranks_every: Annotated[
        int, typer.Option("--ranks-every", metavar="R", min=1, help="Record on every R-th rank.")
    ] = 1,
    allreduce: Allreduce = None,
    algorithm: Algorithm = None,
    mpi: Mpi = None,
    mpirun_args: MpirunArgs = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the trace that FOLDER has.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Record when each rank arrives at each collective of an unchanged MPI program.

    offbeat trace -n 4 -o run.trace -- ./program arguments

    The host MPI runs the collectives, unless you give --allreduce or --algorithm. Then offbeat
    serves every collective that it has algorithms for, and chooses those that you do not name.
    """
    algorithms = chosen_algorithms(allreduce, algorithm)
    settings = launch.Settings(
        algorithms,
        verbose,
        trace=output.resolve(),
        trace_every=every,
        trace_ranks_every=ranks_every,
    )
    job = built(program, ranks, mpi, mpirun_args, settings, algorithms=bool(algorithms))
    make_room(output, force=force)
    status = run(job)
    print(f"offbeat: {summary(output)}", file=sys.stderr)
    raise typer.Exit(status)


def make_room(folder: Path, *, force: bool) -> None:
    """Refuse a folder that already has a trace. With ``force``, remove that trace and nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder")
    found = [*folder.glob("rank-*.trace"), *folder.glob("spawned-*")]
    if found and not force:
        raise CommandError(f"{folder} already has a trace; name another folder or add --force")
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def run(job: launch.Launch) -> int:
    """Run the job to its end. Returns its exit status as a shell does."""
    sys.stdout.flush()
    try:
        process = subprocess.Popen(job.command, env=job.environment)
    except OSError as error:
        raise CommandError(f"cannot execute {job.command[0]}: {error.strerror}") from None

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    # A terminal sends Ctrl-C to mpirun as well, and mpirun then ends the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    status = process.wait()
    return status if status >= 0 else 128 - status


def summary(folder: Path) -> str:
    """One line that says what the trace contains and how to read it."""
    calls, lost, ranks = 0, 0, 0
    for path in folder.glob("rank-*.trace"):
        with path.open("rb") as file:
            header = file.read(64)
        if len(header) == 64 and header.startswith(b"OFFBEAT\n"):
            made, missing = struct.unpack_from("<QQ", header, 40)
            calls, lost, ranks = calls + made, lost + missing, ranks + 1
    if ranks == 0:
        return "there is no trace, because the program did not start MPI"
    not_recorded = f", {lost} of them not recorded because there was no room" if lost else ""
    spawned = sum(1 for _ in folder.glob("spawned-*"))
    jobs = f" (and {spawned} spawned job{'s' * (spawned > 1)}: {folder}/spawned-*)" if spawned else ""
    return (
        f"{calls} collective calls on {ranks} ranks{not_recorded}, traced in {folder}{jobs}; "
        f"next: offbeat report {shlex.quote(str(folder))}"
    )
