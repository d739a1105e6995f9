# SPDX-License-Identifier: BSD-3-Clause
"""Build the mpirun command of the verbs that start a program."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from offbeat import machine
from offbeat.commands.options import StartOptions
from offbeat.commands.output import warn
from offbeat.mpi import launch, launcher
from offbeat.mpi.choice import Choice, choose
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.libraries import preload_library, trace_library
from offbeat.mpi.program import find_program
from offbeat.rules import stored


class StartedCommand(NamedTuple):
    """A command that starts a program, and the MPI that it uses."""

    job: launch.Launch
    choice: Choice

    def to_json(self) -> dict[str, Any]:
        """The command as ``--json`` prints it, with the variables that it adds or changes."""
        install = self.choice.install
        changed = {
            name: value for name, value in self.job.environment.items() if os.environ.get(name) != value
        }
        return {
            "mpi": {"vendor": install.vendor, "version": install.version, "libmpi": str(install.libmpi)},
            "why": self.choice.why,
            "command": self.job.command,
            "environment": changed,
        }


def build_command(
    verb: str,
    program: Sequence[str],
    mpi: str | None,
    where: StartOptions,
    settings: launch.Settings,
    *,
    algorithms: bool = True,
) -> StartedCommand:
    """Build the mpirun command. Without ``algorithms`` the host MPI runs the collectives."""
    base = dict(os.environ)
    ranks = where.number(base)
    path = find_program(program[0], base)
    if path.name in launcher.NAMES:
        from offbeat.commands import launchers  # few programs need it

        launchers.refuse(verb, program, path, base)
    choice = choose(mpi, path, program[1:], base)
    if algorithms:
        settings = with_stored_rules(settings, choice.install, base)
    request = launch.Request(
        install=choice.install,
        ranks=ranks,
        program=[program[0] if os.sep in program[0] else str(path), *program[1:]],
        libraries=libraries(choice.install, traced=settings.trace is not None, algorithms=algorithms),
        settings=settings,
        mpirun_arguments=where.arguments(choice.install),
        variables=choice.variables,
        launcher=where.launcher,
    )
    slots = None if machine.in_batch_job(base) else machine.cores()
    result = launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)
    if settings.verbose:
        print(f"offbeat: {choice.install}: {choice.why}", file=sys.stderr)
        print(f"offbeat: {shlex.join(result.command)}", file=sys.stderr)
    return StartedCommand(result, choice)


def with_stored_rules(
    settings: launch.Settings, install: MpiInstall, base: Mapping[str, str]
) -> launch.Settings:
    """The settings with the rules that ``offbeat tune`` stored for this machine and MPI, if there are any.

    One line says why stored rules do not count.
    """
    found = stored.find(install.vendor, install.version, base)
    if found.warning is not None:
        warn(found.warning)
    if found.path is not None and settings.verbose:
        print(f"offbeat: rules that offbeat tune stored for this machine: {found.path}", file=sys.stderr)
    return settings._replace(rules=found.path)


def libraries(install: MpiInstall, *, traced: bool, algorithms: bool = True) -> list[Path]:
    """The libraries to preload. The tracer comes first, because it hands its calls to the other one."""
    tracer = [trace_library(install.preload)] if traced else []
    return [*tracer, *([preload_library(install.preload)] if algorithms else [])]
