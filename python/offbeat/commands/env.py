# SPDX-License-Identifier: BSD-3-Clause
"""offbeat env: print the variables for launchers that offbeat does not call itself."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from enum import Enum
from typing import Annotated

from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.options import (
    Algorithm,
    Allreduce,
    AsJson,
    Mpi,
    Trace,
    Verbose,
    chosen_algorithms,
    new_trace_folder,
)
from offbeat.commands.start import libraries, with_stored_rules
from offbeat.errors import CommandError
from offbeat.mpi import launch
from offbeat.mpi.choice import choose
from offbeat.mpi.program import find_program


class Shell(str, Enum):
    """The syntax of the output."""

    sh = "sh"
    csh = "csh"
    fish = "fish"
    json = "json"


def env(
    program: Annotated[
        list[str] | None, Argument(metavar="PROGRAM", help="The program that will be started.")
    ] = None,
    mpi: Mpi = None,
    allreduce: Allreduce = None,
    algorithm: Algorithm = None,
    trace: Trace = None,
    native: Annotated[
        bool,
        Option(
            "--native",
            help="With --trace: preload only the tracer, so that the MPI's own algorithms run.",
        ),
    ] = False,
    shell: Annotated[
        Shell, Option("--shell", metavar="sh|csh|fish|json", help="Syntax of the lines.")
    ] = Shell.sh,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Print the variables for srun and other launchers.

    The preload does nothing in programs that make no MPI call, so you can export it safely. --trace records
    the run under offbeat's algorithms; with --native, under those of the MPI, as offbeat trace does.

    eval "$(offbeat env -- ./program)"; srun -n 64 ./program
    eval "$(offbeat env --native --trace run.trace -- ./program)"; srun -n 64 ./program
    offbeat env --shell fish --allreduce ring -- ./program
    """
    base = dict(os.environ)
    if native and trace is None:
        raise CommandError("--native preloads only the tracer: add --trace FOLDER")
    if native and (allreduce is not None or algorithm):
        raise CommandError(
            "--native leaves the algorithms to the MPI: it does not go with --allreduce or --algorithm"
        )
    settings = launch.Settings(
        chosen_algorithms(allreduce, algorithm), verbose, trace=new_trace_folder(trace)
    )
    path = find_program(program[0], base) if program else None
    choice = choose(mpi, path, (program or [])[1:], base)
    variables = dict(choice.variables)
    variables |= choice.install.environment({**base, **variables})
    if not native:
        settings = with_stored_rules(settings, choice.install, base)
    preloaded = libraries(choice.install, traced=trace is not None, algorithms=not native)
    variables |= launch.rank_variables(preloaded, settings, base)
    print(render(variables, Shell.json if as_json else shell))


def render(variables: dict[str, str], shell: Shell) -> str:
    """The variables as text that the shell can evaluate."""
    if shell is Shell.json:
        return json.dumps(variables, indent=2)
    return "\n".join(_LINE_OF_SHELL[shell](name, value) for name, value in variables.items())


def _sh_line(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _csh_line(name: str, value: str) -> str:
    # csh expands ! even inside quotes.
    return f"setenv {name} {shlex.quote(value)}".replace("!", "\\!") + ";"


def _fish_line(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{escaped}';"


_LINE_OF_SHELL: dict[Shell, Callable[[str, str], str]] = {
    Shell.sh: _sh_line,
    Shell.csh: _csh_line,
    Shell.fish: _fish_line,
}


COMMAND = Command(env, interspersed=False)
