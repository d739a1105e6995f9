# SPDX-License-Identifier: BSD-3-Clause
"""offbeat run: start an MPI program under the preload."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from offbeat import launch, machine
from offbeat.choice import choose
from offbeat.commands.options import (
    Allreduce,
    Mpi,
    MpirunArgs,
    Ranks,
    Verbose,
    checked_ranks,
    split_arguments,
)
from offbeat.errors import CommandError
from offbeat.expressions import canonical
from offbeat.libraries import preload_library
from offbeat.program import find_program


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(context_settings={"allow_interspersed_args": False})(run)


def run(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM", help="The program and its arguments.")],
    ranks: Ranks = 1,
    mpi: Mpi = None,
    allreduce: Allreduce = None,
    mpirun_args: MpirunArgs = "",
    verbose: Verbose = 0,
) -> None:
    """Run an unchanged MPI program under offbeat.

    offbeat run -n 4 --allreduce 'pipeline(4, ring)' -- ./program arguments

    Finds the MPI that the program uses and starts it with the mpirun of that MPI;
    exit code and signals are those of mpirun. More ranks than cores are allowed.
    """
    base = dict(os.environ)
    checked_ranks(ranks)
    settings = launch.Settings(canonical(allreduce) if allreduce is not None else None, verbose)
    path = find_program(program[0], base)
    choice = choose(mpi, path, program[1:], base)
    request = launch.Request(
        install=choice.install,
        ranks=ranks,
        program=[program[0] if os.sep in program[0] else str(path), *program[1:]],
        library=preload_library(choice.install.family),
        settings=settings,
        mpirun_arguments=split_arguments(mpirun_args),
        variables=choice.variables,
    )
    slots = None if machine.in_batch_job(base) else machine.cores()
    built = launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)
    if verbose:
        print(f"offbeat: {choice.install}: {choice.why}", file=sys.stderr)
        print(f"offbeat: {shlex.join(built.command)}", file=sys.stderr)
    sys.stdout.flush()
    try:
        os.execvpe(built.command[0], built.command, built.environment)
    except OSError as error:
        raise CommandError(f"cannot execute {built.command[0]}: {error.strerror}") from None
