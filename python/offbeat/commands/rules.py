# SPDX-License-Identifier: BSD-3-Clause
"""offbeat rules: check, show, compare and export the rules that say which algorithm runs."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.console import Console

from offbeat import _core
from offbeat.commands.command_line import Argument, Command, Group, Option
from offbeat.commands.options import AsJson, MpiOfExport
from offbeat.commands.output import new_console, print_json
from offbeat.commands.rule_options import (
    CollectiveOfRules,
    HostOfRules,
    UsersRules,
    checked_host,
    checked_served,
    stored_rules,
)
from offbeat.errors import ANSWER_NO, BAD_INPUT, CommandError, printable
from offbeat.reports import rule_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import export_run, rule_files, stored
from offbeat.rules.difference import differences
from offbeat.rules.export_choices import OBJECTIVES, ROBUST, VENDORS
from offbeat.units import format_count

_BUILT_IN = "built-in rules"


def check(
    file: Annotated[Path, Argument(metavar="FILE", help="A file of rules.")], as_json: AsJson = False
) -> int:
    """Print all errors in a file of rules.

    The exit code is 2 if there are any. Alternatives that no call tries, and names of
    algorithms that no MPI has, are shown, too.

    offbeat rules check my.rules
    """
    found = rule_files.read(str(file))
    warnings = [
        *rule_files.lines_on_unknown_names(str(file), found),
        *rule_files.lines_on_untried(str(file), found, os.environ),
    ]
    if as_json:
        document = {"file": str(file), "errors": found.errors, "warnings": warnings, "rules": found.rules}
        print_json(document)
        return BAD_INPUT if found.errors else 0
    for line in [*found.errors, *warnings]:
        print(printable(line), file=sys.stderr)
    if found.errors:
        return BAD_INPUT
    count = len({rule["line"] for rule in found.rules})
    print(f"{file}: {format_count(count, 'rule')}, no error")
    return 0


def show(
    mpi: HostOfRules = None,
    collective: CollectiveOfRules = None,
    rules: UsersRules = None,
    as_json: AsJson = False,
) -> None:
    """Print the rules in force, as a file of rules.

    First come yours: the FILE of --rules or OFFBEAT_RULES, otherwise those that offbeat tune stored for this
    machine and MPI. Then come the built-in ones.

    offbeat rules show --mpi mpich --collective bcast
    """
    checked_host(mpi)
    checked_served(collective)
    parts, by = [], ""
    in_force = stored.in_force(mpi, os.environ)
    if rules is None and (path := stored_rules(in_force)) is not None:
        rules, by = path, f" (offbeat tune stored them for {in_force.mpi})"
    if rules is not None:
        parts.append((str(rules), rule_files.without_errors(str(rules))))
    parts.append((_BUILT_IN, _core.built_in_rules()))
    shown = []
    for name, part in parts:
        wanted = [
            rule
            for rule in part.rules
            if (mpi is None or rule["host"] in ("*", mpi))
            and (collective is None or rule["collective"] == collective)
        ]
        if as_json:
            shown += [{"file": name, **rule} for rule in wanted]
            continue
        print(f"# {name}{by if name != _BUILT_IN else ''}")
        print(*rule_sheets.rule_lines(wanted), sep="\n", end="\n\n" if name != parts[-1][0] else "\n")
    if as_json:
        print_json({"rules": shown})


def diff(
    first: Annotated[str, Argument(metavar="A", help="A file of rules, or `built-in`.")],
    second: Annotated[str, Argument(metavar="B", help="Another file of rules, or `built-in`.")],
    as_json: AsJson = False,
) -> int:
    """List the calls for which two files choose differently.

    The exit code is 1 if there are any. The built-in rules follow each file, as they do with OFFBEAT_RULES.

    offbeat rules diff built-in my.rules
    """
    files = [
        None if name == rule_files.BUILT_IN else rule_files.without_errors(name) for name in (first, second)
    ]
    found = differences(files[0], files[1])
    if as_json:
        print_json({"files": [first, second], "differences": [asdict(each) for each in found]})
        return ANSWER_NO if found else 0
    if not found:
        print(f"{first} and {second} choose the same everywhere")
        return 0
    console = new_console(width=160)
    console.print(to_terminal(rule_sheets.difference_sheet("Different choices", (first, second), found)))
    return ANSWER_NO


def export(
    measured: Annotated[
        list[Path],
        Argument(metavar="RESULTS...", help="Files of `offbeat bench`, one per number of ranks."),
    ],
    to: Annotated[str, Option("--to", metavar="MPI", help="openmpi, mpich or intel.")],
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FOLDER", help="Where to write. Default: offbeat-MPI."),
    ] = None,
    mpi: MpiOfExport = None,
    objective: Annotated[
        str,
        Option(
            metavar="robust|balanced",
            help="robust: the best mean over all arrival patterns. balanced: only without late ranks.",
        ),
    ] = ROBUST,
    force: Annotated[bool, Option("--force", help="Overwrite files in FOLDER.")] = False,
    as_json: AsJson = False,
) -> int:
    """Tell an MPI which of its own algorithms are best.

    This is for programs that run without offbeat. The MPI's default wins unless a named algorithm is better
    by more than 3%. Before anything is written, the MPI runs alone with the new files: its results must be
    right, and each algorithm must take effect. The exit code is 1 if the MPI's defaults are best.

    offbeat rules export results.json --to mpich -o tuned
    """
    if to not in VENDORS:
        raise CommandError(f"--to {to}: offbeat exports only to {', '.join(VENDORS)}")
    if objective not in OBJECTIVES:
        raise CommandError(f"--objective {objective}: write {' or '.join(OBJECTIVES)}")
    folder = output if output is not None else Path(f"offbeat-{to}")
    export_run.refuse_folder(folder, force=force)
    request = export_run.read_request(measured, to, objective, mpi)
    vendor = request.choice.install.vendor
    with Console(stderr=True).status("starting") as status:
        made = export_run.make_and_check(request, folder, status.update)
    if as_json and made.files:
        export_run.write(folder, made.files)
    if as_json:
        files = [str(folder / name) for name in made.files]
        document = {"mpi": vendor, "files": files, "settings": list(made.settings), "notes": made.notes}
        print_json({**document, "algorithms": [asdict(each) for each in made.seen]})
        return 0 if made.files else ANSWER_NO
    for note in made.notes:
        print(note)
    if not made.files:
        raise CommandError(f"nothing to export: {vendor} is best left to its default here", ANSWER_NO)
    console = new_console(width=160)
    console.print(to_terminal(rule_sheets.seen_sheet(vendor, made.seen)))
    export_run.write(folder, made.files)
    for name in made.settings:
        print(f"To use it, run before mpirun: . {shlex.quote(str(folder / name))}")
    return 0


def rules() -> None:
    """Check, show, compare and export rules that choose algorithms."""


_COMMANDS = {each.__name__: Command(each, f"rules {each.__name__}") for each in (check, show, diff, export)}
COMMAND = Group(rules, {"Commands": tuple(_COMMANDS)}, _COMMANDS.__getitem__)
