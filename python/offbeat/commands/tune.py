# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune: find the best algorithms for this machine and MPI, and write rules."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from rich.console import Console

from offbeat.bench import arrival_patterns, runner
from offbeat.bench import plan as plans
from offbeat.bench.plan import Plan
from offbeat.bench.ranking import BALANCED
from offbeat.bench.results import Benchmark
from offbeat.commands.command_line import Argument, Command, Context, Option
from offbeat.commands.measuring import (
    PART_OF_PLAN,
    ended_by_signals,
    refuse_others,
    stop_interrupted,
)
from offbeat.commands.options import (
    AsJson,
    Budget,
    HostFile,
    HostNames,
    Launcher,
    MpiOfNoProgram,
    MpirunArgs,
    Skews,
    Verbose,
    checked_ranks,
    start_options,
)
from offbeat.commands.output import (
    checked_output,
    hold,
    new_console,
    print_json,
    today,
    warn,
    warn_of_load,
    write_text,
)
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice, choose
from offbeat.mpi.install import MpiInstall
from offbeat.reports import tune_json, tune_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files, spelling, stored
from offbeat.tune import course as courses_
from offbeat.tune import objectives
from offbeat.tune.course import Course, Goal
from offbeat.tune.decisions import Row, decide, rules_of
from offbeat.tune.tuning import Tuning
from offbeat.units import format_count, format_duration, parse_duration_s, parse_skew

_PATTERNS = "balanced,ascending,descending,last_delayed,random"
_WITH_RESUME = {"resume", "budget", "output", "rules", "store", "as_json", "verbose"}


def tune(
    context: Context,
    collectives: Annotated[
        list[str] | None,
        Argument(
            metavar="[COLLECTIVES]",
            help=f"Collectives, or `all`: {', '.join(plans.COLLECTIVES)}. Default: allreduce.",
        ),
    ] = None,
    sizes: Annotated[
        str,
        Option(
            "--bytes",
            metavar="8,1KiB|8..1MiB",
            help="Sizes as offbeat bench has them: a list, or a range in which each is 4 times the last.",
        ),
    ] = "8..1MiB",
    ranks: Annotated[
        list[str] | None,
        Option("-n", "-np", "--ranks", metavar="N,...", help="Numbers of ranks. Default: 2."),
    ] = None,
    mpi: MpiOfNoProgram = None,
    objective: Annotated[
        str,
        Option(
            metavar="robust|balanced|trace:FOLDER",
            help="The last delay that counts: the mean over arrival patterns, that of ranks that arrive "
            "together, or that under the calls and arrivals of a recorded program.",
        ),
    ] = "robust",
    budget: Budget = "5min",
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="The file of the results.")] = Path(
        "offbeat-tune.json"
    ),
    rules: Annotated[
        Path | None, Option("--rules", metavar="FILE", help="Also write the new rules to FILE.")
    ] = None,
    store: Annotated[
        bool, Option("--store/--no-store", help="Store the rules, so that offbeat run uses them.")
    ] = True,
    resume: Annotated[
        bool, Option("--resume", help="Go on with the tuning of FILE, with a new budget.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Overwrite the files.")] = False,
    patterns: Annotated[
        str, Option(metavar="NAME,...", help="Arrival patterns of the objective robust.")
    ] = _PATTERNS,
    skew: Skews = "1.0",
    algorithms: Annotated[
        str,
        Option(
            metavar="EXPR,...",
            help="Only these compete, with native and the rule in force. Default: all that offbeat and the "
            "MPI have.",
        ),
    ] = "",
    host_names: Annotated[
        bool,
        Option(
            "--host-algorithms/--no-host-algorithms", help="Whether the MPI's own algorithms compete by name."
        ),
    ] = True,
    seed: Annotated[int, Option(metavar="N", help="Seed of the random arrival patterns.")] = 1,
    simulated: Annotated[
        str,
        Option(
            "--simulate",
            metavar="MACHINE,...",
            help="Measure nothing: simulate these machines, and write rules that pay on all of them. --mpi "
            "is then openmpi, mpich or intel, whose decisions are known. The rules for a machine file of "
            "offbeat calibrate are stored.",
        ),
    ] = "",
    nodes: Annotated[
        str, Option(metavar="N,...|N..M", help="With --simulate: numbers of nodes.")
    ] = "9..1024",
    ppn: Annotated[str, Option(metavar="N,...", help="With --simulate: ranks on each node.")] = "1",
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Find the best algorithms here, and write rules.

    Algorithms race: one that is certainly behind stops. `offbeat run` uses the rules from then on. What is
    measured is never lost: --resume goes on after an interruption, or measures more.

    offbeat tune allreduce,bcast --bytes 8..1MiB -n 2,4 --budget 10min
    offbeat tune --objective trace:run.trace --budget 5min
    offbeat tune --resume --budget 5min
    """
    if "simulated" in context.given:
        from offbeat.commands import tune_simulated  # a tuning that measures needs no simulation

        refuse_others(context, tune_simulated.OPTIONS, "does not go with --simulate, which measures nothing")
        if objective not in (objectives.ROBUST, BALANCED):
            raise CommandError(f"--objective {objective}: with --simulate write robust or balanced")
        names = _collectives(collectives)
        tune_simulated.run(
            simulated,
            names,
            plans.parse_sizes(sizes),
            nodes,
            ppn,
            host=mpi,
            patterns=[BALANCED] if objective == BALANCED else arrival_patterns.parse_names(patterns),
            skew=skew,
            algorithms=plans.parse_algorithms(algorithms, names) if algorithms else None,
            seed=seed,
            rules_file=rules,
            force=force,
            budget_s=parse_duration_s(budget) if "budget" in context.given else None,
            store=store if "store" in context.given else None,
        )
        return
    for name in ("nodes", "ppn"):
        if name in context.given:
            raise CommandError(f"--{name} belongs to --simulate MACHINE; the ranks of a job are -n")
    budget_s = parse_duration_s(budget)
    if output.is_dir():
        raise CommandError(f"-o {output}: it is a folder")
    output = output if output.suffix else output.with_suffix(".json")
    hold(context, output, "-o")
    if resume:
        refuse_others(context, _WITH_RESUME, PART_OF_PLAN)
        courses, choice, left = _resumed(output)
    else:
        left = 0
        choice = choose(mpi, None, [], os.environ)
        place = start_options(None, launcher, hosts, hostfile, mpirun_args)
        names = _collectives(collectives)
        common = Plan(
            ranks=2,
            collectives=names,
            sizes_bytes=plans.parse_sizes(sizes),
            algorithms=[plans.NATIVE],
            patterns=arrival_patterns.parse_names(patterns),
            skews=list(dict.fromkeys(parse_skew(text) for text in skew.split(","))),
            budget_s=budget_s,
            seed=seed,
            mpirun_arguments=place.arguments(choice.install),
            launcher=launcher,
        )
        goal = Goal(
            objective,
            _ranks(ranks),
            _algorithms(algorithms, names, choice),
            host_names,
            _rules_in_force(choice),
        )
        courses = _new_courses(goal, common, choice, output, context.given, force=force)
    checked_output(rules, force=force or resume)
    warn_of_load()
    # With --json, standard output has nothing but the JSON.
    console = new_console(stderr=as_json)
    console.print(f"{choice.install}: {choice.why}", soft_wrap=True)
    if left:
        console.print(f"A tuning that was killed left {format_count(left, 'result')}, which count too")
    work = _measure(courses, choice, budget_s, output, show_output=verbose > 0)
    sheets = [rows for course in courses for rows in rules_of(course)]
    _show(console, work, sheets, budget_s)
    all_rows = [row for rows in sheets for row in rows]
    _write_rules(console, choice.install, all_rows, rules, store=store)
    if as_json:
        print_json(tune_json.document(work, all_rows, budget_s, today()))


# -- what to tune


def _collectives(words: Sequence[str] | None) -> list[str]:
    if not words:
        return [plans.DEFAULT_COLLECTIVE]
    text = ",".join(words)
    return list(plans.COLLECTIVES) if text == "all" else plans.parse_collectives(text)


def _ranks(words: Sequence[str] | None) -> list[int]:
    numbers = []
    for word in ",".join(words or ["2"]).split(","):
        if not re.fullmatch(r"\s*\d{1,18}\s*", word):
            raise CommandError(f"-n {word}: not a number of ranks")
        if checked_ranks(int(word), most=plans.MOST_RANKS) == 1:
            raise CommandError("-n 1: a rank that is alone has nothing to tune")
        numbers.append(int(word))
    return sorted(set(numbers))


def _algorithms(text: str, collectives: Sequence[str], choice: Choice) -> list[str] | None:
    if not text:
        return None
    names = plans.parse_algorithms(text, collectives)
    for name in names:
        host_algorithms.refuse_unknown_names(choice.install.vendor, collectives, name)
    return names


def _rules_in_force(choice: Choice) -> str | None:
    """The file of rules that comes before the built-in ones: the user's, or one that was stored."""
    users = os.environ.get(stored.VARIABLE)
    if users is not None:
        return os.path.abspath(users) if users else None
    found = stored.find(choice.install.vendor, choice.install.version, os.environ).path
    return str(found) if found is not None else None


def _new_courses(
    goal: Goal, common: Plan, choice: Choice, output: Path, given: Collection[str], *, force: bool
) -> list[Course]:
    """The courses of a new tuning. ``given`` names the parameters that the user wrote."""
    folder = objectives.trace_of(goal.objective)
    cells = None
    if folder is not None:
        if "sizes" in given:
            raise CommandError("--bytes: the sizes of the objective trace are those of the program")
        found = objectives.recorded_cells(
            folder,
            common.collectives if "collectives" in given else None,
            goal.ranks if "ranks" in given else None,
        )
        cells = found[: objectives.MOST_RECORDED_CELLS]
        if len(cells) < len(found):
            warn(f"{folder} has {len(found)} cells: the {len(cells)} that take most time are tuned")
        goal = replace(goal, ranks=sorted({cell.ranks for cell in cells}))
    _make_room(output, goal, force=force)
    return [
        Course(
            goal,
            Benchmark(plan, runner.describe_run(plan, choice)),
            courses_.path_for(output, plan.ranks, goal.ranks),
        )
        for plan in objectives.plans(goal, common, cells, output.with_suffix(".arrivals"))
    ]


def _make_room(output: Path, goal: Goal, *, force: bool) -> None:
    """Refuse to overwrite files unless ``force`` is set. Remove what killed ranks left beside them."""
    for ranks in goal.ranks:
        path = courses_.path_for(output, ranks, goal.ranks)
        if path.exists() and not force:
            raise CommandError(f"{path} exists; add --force to overwrite it, or --resume to go on with it")
        checked_output(path, force=True)
        runner.path_of_partial_records(path).unlink(missing_ok=True)


def _resumed(output: Path) -> tuple[list[Course], Choice, int]:
    """The courses of a file, the MPI, and how many results a killed tuning left beside the file."""
    courses = [courses_.read(path) for path in courses_.files_of(output)]
    choice = choose(str(courses[0].benchmark.about["mpi"].get("libmpi")), None, [], os.environ)
    joined = 0
    for course in courses:
        found = course.benchmark
        runner.refuse_other(found.about, runner.describe_run(found.plan, choice), course.path)
        joined += course.take_part()
    return courses, choice._replace(why=f"continues {output}"), joined


# -- measuring, and what comes out


def _measure(
    courses: list[Course], choice: Choice, budget_s: float, output: Path, *, show_output: bool
) -> Tuning:
    """Run the races. Ends the command if it is interrupted, or if nothing was decided within the budget."""
    in_force = courses[0].goal.rules_in_force
    line = ProgressLine()
    work = Tuning(
        courses,
        choice,
        budget_s,
        rule_files.without_errors(in_force) if in_force is not None and Path(in_force).exists() else None,
        on_progress=lambda progress: line.show(tune_sheets.progress(progress)),
        say=line.say,
        show_output=show_output,
    )
    try:
        with ended_by_signals():
            for course in courses:
                course.benchmark.write(course.path)
            work.run()
    except KeyboardInterrupt:
        line.clear()
        stop_interrupted(f"; all results are kept. To resume: offbeat tune --resume -o {output}")
    finally:
        line.clear()
    if not any(decide(course) for course in courses):
        raise CommandError(
            f"{tune_sheets.too_short(courses, budget_s, work.start_s)}; to resume: offbeat tune --resume "
            f"-o {output} --budget {2 * budget_s:g}s",
            FAILED,
        )
    return work


def _show(console: Console, work: Tuning, sheets: Sequence[Sequence[Row]], budget_s: float) -> None:
    courses = work.courses
    console.print()
    console.print(tune_sheets.objective(courses[0]), soft_wrap=True)
    for rows in sheets:
        console.print(to_terminal(tune_sheets.sheet(rows)))
    decisions = [decision for course in courses for decision in decide(course)]
    for line in (
        tune_sheets.NOTE,
        tune_sheets.verdict(decisions),
        *tune_sheets.missing(courses),
        *tune_sheets.dropped(courses),
        *tune_sheets.better_names(courses),
        f"Measured for {format_duration(work.seconds)} of {format_duration(budget_s)}; "
        f"cost in all: {work.core_seconds():.0f} core-seconds. "
        f"Results: {', '.join(str(course.path) for course in courses)}",
    ):
        console.print(line, soft_wrap=True)


def _write_rules(
    console: Console, install: MpiInstall, rows: Sequence[Row], rules_file: Path | None, *, store: bool
) -> None:
    """Write the rules to ``rules_file``, and store them. Print them if they go to no file."""
    date = today()
    fields, reasons = [row.fields() for row in rows], [row.reason(date) for row in rows]
    title = f"Rules of offbeat tune, {date}, for {install.vendor} {install.version}"
    text = spelling.file_text(title, fields, reasons)
    if rules_file is not None:
        write_text(rules_file, text)
        console.print(f"Rules: {rules_file}", soft_wrap=True)
    path, why = None, ""
    if store:
        try:
            path = stored.store(install.vendor, install.version, fields, reasons, os.environ)
        except CommandError as error:
            where = f"they are in {rules_file}" if rules_file is not None else "they are printed above"
            why = f"{error}; {where}"
    if path is not None:
        console.print(f"Stored: {path}; offbeat run uses these rules from now on", soft_wrap=True)
    elif rules_file is None:
        print(text, end="", file=console.file)
    if why:
        warn(why)


COMMAND = Command(tune)
