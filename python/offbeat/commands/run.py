# SPDX-License-Identifier: BSD-3-Clause
"""offbeat run: start an MPI program with the preload."""

from __future__ import annotations

import os
import sys
from typing import Annotated

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
    Trace,
    Verbose,
    chosen_algorithms,
    new_trace_folder,
    start_options,
)
from offbeat.commands.output import print_json
from offbeat.commands.start import build_command
from offbeat.errors import CommandError
from offbeat.mpi import launch


def run(
    program: Annotated[list[str], Argument(metavar="PROGRAM", help="The program and its arguments.")],
    ranks: RanksOfProgram = None,
    mpi: Mpi = None,
    allreduce: Allreduce = None,
    algorithm: Algorithm = None,
    trace: Trace = None,
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    as_json: Annotated[
        bool, Option("--json", help="Start nothing. Print the command and its environment as JSON.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Run an unchanged MPI program under offbeat.

    offbeat finds the MPI that the program uses and becomes the mpirun of that MPI, or the launcher, so
    exit code and signals are those of mpirun. The exit code is 125 if offbeat itself cannot start it.
    There may be more ranks than cores. --trace records the run under offbeat's algorithms; `offbeat trace`
    records it under those of the MPI.

    offbeat run -n 4 -- ./program arguments
    offbeat run -n 4 --allreduce 'pipeline(4, ring)' -- ./program arguments
    offbeat run -n 64 --launcher 'srun --mpi=pmix' -- ./program arguments
    offbeat run -n 8 --hosts node1:4,node2:4 -- python simulation.py
    """
    settings = launch.Settings(
        chosen_algorithms(allreduce, algorithm), verbose, trace=new_trace_folder(trace)
    )
    place = start_options(ranks, launcher, hosts, hostfile, mpirun_args)
    started = build_command("run", program, mpi, place, settings)
    if as_json:
        print_json(started.to_json())
        return
    job = started.job
    sys.stdout.flush()
    try:
        os.execvpe(job.command[0], job.command, job.environment)
    except OSError as error:
        raise CommandError(f"cannot execute {job.command[0]}: {error.strerror}") from None


COMMAND = Command(run, interspersed=False)
