# SPDX-License-Identifier: BSD-3-Clause
"""offbeat run: start an MPI program with the preload."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from offbeat.commands.options import (
    Algorithm,
    Allreduce,
    Mpi,
    MpirunArgs,
    Ranks,
    Trace,
    Verbose,
    checked_trace,
    chosen_algorithms,
)
from offbeat.commands.start import built
from offbeat.errors import CommandError
from offbeat.mpi import launch


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(context_settings={"allow_interspersed_args": False})(run)


def run(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM", help="The program and its arguments.")],
    ranks: Ranks = 1,
    mpi: Mpi = None,
    allreduce: Allreduce = None,
    algorithm: Algorithm = None,
    trace: Trace = None,
    mpirun_args: MpirunArgs = "",
    verbose: Verbose = 0,
) -> None:
    """Run an unchanged MPI program under offbeat.

    offbeat run -n 4 --allreduce 'pipeline(4, ring)' -- ./program arguments

    offbeat finds the MPI that the program uses and becomes the mpirun of that MPI, so
    exit code and signals are those of mpirun. There may be more ranks than cores.
    """
    settings = launch.Settings(chosen_algorithms(allreduce, algorithm), verbose, trace=checked_trace(trace))
    job = built(program, ranks, mpi, mpirun_args, settings)
    sys.stdout.flush()
    try:
        os.execvpe(job.command[0], job.command, job.environment)
    except OSError as error:
        raise CommandError(f"cannot execute {job.command[0]}: {error.strerror}") from None
