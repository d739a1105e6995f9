# SPDX-License-Identifier: BSD-3-Clause
"""Build the mpirun command of the verbs that start a program."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from offbeat import machine
from offbeat.commands.options import checked_ranks, split_arguments
from offbeat.errors import printable
from offbeat.mpi import launch
from offbeat.mpi.choice import choose
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.libraries import preload_library, trace_library
from offbeat.mpi.program import find_program
from offbeat.rules import stored


def built(
    program: Sequence[str],
    ranks: int,
    mpi: str | None,
    mpirun_args: str,
    settings: launch.Settings,
    *,
    algorithms: bool = True,
) -> launch.Launch:
    """Build the mpirun command. Without ``algorithms`` the host MPI runs the collectives."""
    base = dict(os.environ)
    checked_ranks(ranks)
    path = find_program(program[0], base)
    choice = choose(mpi, path, program[1:], base)
    family = choice.install.family
    if algorithms:
        settings = with_stored_rules(settings, choice.install, base)
    request = launch.Request(
        install=choice.install,
        ranks=ranks,
        program=[program[0] if os.sep in program[0] else str(path), *program[1:]],
        libraries=libraries(family, traced=settings.trace is not None, algorithms=algorithms),
        settings=settings,
        mpirun_arguments=split_arguments(mpirun_args),
        variables=choice.variables,
    )
    slots = None if machine.in_batch_job(base) else machine.cores()
    result = launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)
    if settings.verbose:
        print(f"offbeat: {choice.install}: {choice.why}", file=sys.stderr)
        print(f"offbeat: {shlex.join(result.command)}", file=sys.stderr)
    return result


def with_stored_rules(
    settings: launch.Settings, install: MpiInstall, base: Mapping[str, str]
) -> launch.Settings:
    """The settings with the rules that ``offbeat tune`` stored for this machine and MPI, if there are any.

    One line says why stored rules do not count.
    """
    found = stored.find(install.vendor, install.version, base)
    if found.warning is not None:
        print(f"offbeat: {printable(found.warning)}", file=sys.stderr)
    if found.path is not None and settings.verbose:
        print(f"offbeat: rules that offbeat tune stored for this machine: {found.path}", file=sys.stderr)
    return replace(settings, rules=found.path)


def libraries(family: str, *, traced: bool, algorithms: bool = True) -> list[Path]:
    """The libraries to preload. The tracer comes first, because it hands its calls to the other one."""
    tracer = [trace_library(family)] if traced else []
    return [*tracer, *([preload_library(family)] if algorithms else [])]
