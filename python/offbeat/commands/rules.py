# SPDX-License-Identifier: BSD-3-Clause
"""offbeat rules: check, show and compare the rules that say which algorithm runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from offbeat import _core
from offbeat.commands.options import CollectiveOfRules, HostOfRules, UsersRules, checked_host, checked_served
from offbeat.errors import BAD_INPUT, FAILED
from offbeat.reports import rule_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files
from offbeat.rules.difference import differences

_PLAIN_WIDTH = 160  # columns of output that goes to a file or a pipe

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Add the verb."""
    parent.add_typer(app, name="rules", help="Check, show and compare the rules that choose algorithms.")


@app.command()
def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of rules.")]) -> None:
    """Print all errors in a file of rules. The exit code is 2 if there are any."""
    found = rule_files.read(str(file))
    for line in found.errors:
        print(line, file=sys.stderr)
    if found.errors:
        raise typer.Exit(BAD_INPUT)
    count = len({rule["line"] for rule in found.rules})
    print(f"{file}: {count} rule{'' if count == 1 else 's'}, no error")


@app.command()
def show(
    mpi: HostOfRules = None,
    collective: CollectiveOfRules = None,
    rules: UsersRules = None,
) -> None:
    """Print the rules in force, as a file of rules: first yours, if you have any, then the built-in ones."""
    checked_host(mpi)
    checked_served(collective)
    parts = [] if rules is None else [(str(rules), rule_files.without_errors(str(rules)))]
    parts.append(("built-in rules", _core.built_in_rules()))
    for name, part in parts:
        wanted = [
            rule
            for rule in part.rules
            if (mpi is None or rule["host"] in ("*", mpi))
            and (collective is None or rule["collective"] == collective)
        ]
        print(f"# {name}")
        print(*rule_sheets.rule_lines(wanted), sep="\n", end="\n\n" if name != parts[-1][0] else "\n")


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A file of rules, or `built-in`.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another file of rules, or `built-in`.")],
) -> None:
    """List the calls for which two files choose differently. The exit code is 1 if there are any.

    The built-in rules follow each file, as they do with OFFBEAT_RULES.
    """
    files = [
        None if name == rule_files.BUILT_IN else rule_files.without_errors(name) for name in (first, second)
    ]
    found = differences(files[0], files[1])
    if not found:
        print(f"{first} and {second} choose the same everywhere")
        return
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
    console.print(to_terminal(rule_sheets.difference_sheet("Different choices", (first, second), found)))
    raise typer.Exit(FAILED)
