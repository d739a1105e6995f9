# SPDX-License-Identifier: BSD-3-Clause
"""offbeat trace: record when each rank arrives at each collective of a program."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

from offbeat import _core
from offbeat.commands import completion
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.options import (
    Algorithm,
    Allreduce,
    HostFile,
    HostNames,
    Launcher,
    Mpi,
    MpirunArgs,
    RanksOfProgram,
    Verbose,
    chosen_algorithms,
    new_trace_folder,
    start_options,
)
from offbeat.commands.output import print_json, warn
from offbeat.commands.start import build_command
from offbeat.commands.traced import TraceSummary
from offbeat.errors import CommandError
from offbeat.mpi import launch


def trace(
    program: Annotated[list[str], Argument(metavar="PROGRAM", help="The program and its arguments.")],
    ranks: RanksOfProgram = None,
    output: Annotated[
        Path, Option("-o", "--output", metavar="FOLDER", help="The folder to write the trace to.")
    ] = Path("run.trace"),
    every: Annotated[
        int, Option("--every", metavar="K", help="Record one in K calls of each communicator.")
    ] = 1,
    ranks_every: Annotated[int, Option("--ranks-every", metavar="R", help="Record on every R-th rank.")] = 1,
    collectives: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            complete=completion.all_collectives,
            help="Record only these collectives, such as allreduce,barrier.",
        ),
    ] = None,
    communicators: Annotated[
        str | None,
        Option(
            metavar="WHICH,...",
            help="Record only calls on these communicators: `world` for those with all ranks, numbers of "
            "ranks such as 8 or 8..64, and names that the program gave by MPI_Comm_set_name.",
        ),
    ] = None,
    paused: Annotated[
        bool, Option("--paused", help="Record nothing before the program calls MPI_Pcontrol(1).")
    ] = False,
    allreduce: Allreduce = None,
    algorithm: Algorithm = None,
    mpi: Mpi = None,
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    force: Annotated[bool, Option("--force", help="Replace the trace that FOLDER has.")] = False,
    as_json: Annotated[
        bool, Option("--json", help="Print what was traced as JSON, after what the program prints.")
    ] = False,
    verbose: Verbose = 0,
) -> int:
    """Record when each rank arrives at each collective.

    The program is unchanged. The host MPI runs the collectives, unless you give --allreduce or --algorithm.
    Then offbeat serves every collective that it has algorithms for, and chooses those that you do not name.
    MPI_Pcontrol(0) in the program pauses the trace of a rank, and MPI_Pcontrol(1) goes on with it. The exit
    code is that of mpirun, or 125 if offbeat itself cannot start it.

    offbeat trace -n 4 -o run.trace -- ./program arguments
    offbeat trace -n 64 --every 10 --launcher srun -- ./program arguments
    offbeat trace -n 4 --collectives allreduce --communicators 2.. -- ./program arguments
    """
    for option, value in (("--every", every), ("--ranks-every", ranks_every)):
        if value < 1:
            raise CommandError(f"{option} {value}: it must be at least 1")
    algorithms = chosen_algorithms(allreduce, algorithm)
    settings = launch.Settings(
        algorithms,
        verbose,
        trace=new_trace_folder(output, force=force),
        trace_every=every,
        trace_ranks_every=ranks_every,
        trace_collectives=_checked_collectives(collectives),
        trace_communicators=communicators,
        trace_paused=paused,
    )
    place = start_options(ranks, launcher, hosts, hostfile, mpirun_args)
    started = build_command("trace", program, mpi, place, settings, algorithms=bool(algorithms))
    try:
        remove_earlier_trace(output)
    except OSError as error:
        warn(f"not traced: cannot remove the earlier trace in {output}: {error.strerror}")
        settings = settings._replace(trace=None)
        started = build_command("trace", program, mpi, place, settings, algorithms=bool(algorithms))
    status = run(started.job)
    found = TraceSummary.of(output, is_traced=settings.trace is not None)
    if as_json:
        print_json({**found.to_json(), "exit_code": status})
    elif settings.trace is not None:
        warn(str(found))
    return status


def remove_earlier_trace(folder: Path) -> None:
    """Remove the trace that a folder has, and nothing else in it. Raises OSError."""
    for path in [*folder.glob("rank-*.trace"), *folder.glob("spawned-*")]:
        if path.is_dir() and not path.is_symlink():
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


def _checked_collectives(text: str | None) -> str | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    known = [each["name"] for each in _core.collectives()]
    for name in names:
        if name not in known:
            raise CommandError(
                f"--collectives {text}: unknown collective '{name}'; there are {', '.join(known)}"
            )
    return ",".join(names)


COMMAND = Command(trace, interspersed=False)
