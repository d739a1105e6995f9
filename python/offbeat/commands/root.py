# SPDX-License-Identifier: BSD-3-Clause
"""The command ``offbeat`` itself. The module of a verb is imported when the verb is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

from offbeat.commands.command_line import Command, Group, Option

# The verbs by what they are for, in the order of the help.
VERBS = {
    "Run a program": ("run", "env", "trace", "top", "doctor"),
    "Understand a trace": ("report", "predict", "export"),
    "Measure and choose": ("bench", "compare", "tune", "calibrate", "rules", "explain"),
    "Look without running": ("simulate", "pattern", "info"),
}


def offbeat(
    version: Annotated[bool, Option(help="Print the version and exit.")] = False,
    show_completion: Annotated[
        str | None,
        Option(metavar="bash|zsh|fish", help="Print what teaches this shell to complete command lines."),
    ] = None,
) -> None:
    """Make MPI collectives fast when ranks do not arrive together, without changing the program.

    `offbeat COMMAND --help` explains a command. --show-completion prints what teaches your shell the options.

    offbeat run -n 4 -- ./program arguments
    offbeat trace -n 4 -o run.trace -- ./program arguments
    offbeat report run.trace
    """
    if version:
        from offbeat import __version__

        print(f"offbeat {__version__}")
    elif show_completion is not None:
        from offbeat.commands import shell_completion

        print(shell_completion.script(show_completion))


def _verb(name: str) -> Command:
    command: Command = import_module(f"offbeat.commands.{name}").COMMAND
    return command


ROOT = Group(offbeat, VERBS, _verb)
