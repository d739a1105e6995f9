# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune: find the best algorithms for this machine and MPI, and write rules."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from offbeat import _core, files
from offbeat.bench import arrival_patterns, runner
from offbeat.bench import plan as plans
from offbeat.bench.plan import Plan
from offbeat.bench.results import Benchmark
from offbeat.commands import tune_simulated
from offbeat.commands.bench import ended_by_signals, is_given, refuse_others
from offbeat.commands.options import (
    AsJson,
    HostFile,
    HostNames,
    Launcher,
    MpiOfNoProgram,
    MpirunArgs,
    Verbose,
    checked_output,
    checked_ranks,
    print_json,
    start_options,
    warn_of_load,
    write_text,
)
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import FAILED, INTERRUPTED, CommandError
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice, choose
from offbeat.reports import tune_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files, spelling, stored
from offbeat.simulate.simulation import MOST_RANKS
from offbeat.tune import course as courses_
from offbeat.tune import race, recorded, tuning
from offbeat.tune.course import FINAL, Course, Goal
from offbeat.tune.decisions import Decision, Row, decide, rows_of
from offbeat.tune.tuning import Progress, Tuning
from offbeat.units import format_duration, format_size, parse_duration_s, parse_skew

_PLAIN_WIDTH = 140  # columns of output that goes to a file or a pipe
_PATTERNS = "balanced,ascending,descending,last_delayed,random"
_MOST_RECORDED_CELLS = 64
_WITH_RESUME = {"resume", "budget", "output", "rules", "store", "as_json", "verbose"}
_TRACE = "trace:"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(tune)


def tune(
    context: typer.Context,
    collectives: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COLLECTIVES]",
            help=f"Collectives, or `all`: {', '.join(plans.COLLECTIVES)}. Default: allreduce.",
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            "--bytes",
            metavar="8,1KiB|8..1MiB",
            help="Sizes as offbeat bench has them: a list, or a range in which each is 4 times the last.",
        ),
    ] = "8..1MiB",
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            "-n", "-np", "--ranks", metavar="N,...", help="Numbers of ranks. Default: 2.", show_default=False
        ),
    ] = None,
    mpi: MpiOfNoProgram = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="robust|balanced|trace:FOLDER",
            help="The last delay that counts: the mean over arrival patterns, that of ranks that arrive "
            "together, or that under the calls and arrivals of a recorded program.",
        ),
    ] = "robust",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit of the whole command, such as 90s, 5min or 1h.")
    ] = "5min",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file of the results.")
    ] = Path("offbeat-tune.json"),
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE", help="Also write the new rules to FILE.")
    ] = None,
    store: Annotated[
        bool, typer.Option("--store/--no-store", help="Store the rules, so that offbeat run uses them.")
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the tuning of FILE, with a new budget.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files.")] = False,
    patterns: Annotated[
        str, typer.Option(metavar="NAME,...", help="Arrival patterns of the objective robust.")
    ] = _PATTERNS,
    skew: Annotated[
        str,
        typer.Option(
            metavar="FACTOR|TIME,...",
            help="Lateness of the latest rank: a multiple of native's balanced median, or a time like 100us.",
        ),
    ] = "1.0",
    algorithms: Annotated[
        str,
        typer.Option(
            metavar="EXPR,...",
            help="Only these compete, with native and the rule in force. Default: all that offbeat and the "
            "MPI have.",
        ),
    ] = "",
    host_names: Annotated[
        bool,
        typer.Option(
            "--host-algorithms/--no-host-algorithms", help="Whether the MPI's own algorithms compete by name."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random arrival patterns.")] = 1,
    simulated: Annotated[
        str,
        typer.Option(
            "--simulate",
            metavar="MACHINE,...",
            help="Measure nothing: simulate these machines, and write rules that pay on all of them. --mpi "
            "is then openmpi, mpich or intel, whose decisions are known.",
        ),
    ] = "",
    nodes: Annotated[
        str, typer.Option(metavar="N,...|N..M", help="With --simulate: numbers of nodes.")
    ] = "9..1024",
    ppn: Annotated[str, typer.Option(metavar="N,...", help="With --simulate: ranks on each node.")] = "1",
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
    if is_given(context, "simulated"):
        _refuse_measuring(context)
        if objective not in ("robust", "balanced"):
            raise CommandError(f"--objective {objective}: with --simulate write robust or balanced")
        names = _collectives(collectives)
        tune_simulated.run(
            simulated,
            names,
            plans.parse_sizes(sizes),
            nodes,
            ppn,
            host=mpi,
            patterns=["balanced"] if objective == "balanced" else arrival_patterns.parse_names(patterns),
            skew=skew,
            algorithms=plans.parse_algorithms(algorithms, names) if algorithms else None,
            seed=seed,
            rules_file=rules,
            force=force,
        )
        return
    for name in ("nodes", "ppn"):
        if is_given(context, name):
            raise CommandError(f"--{name} belongs to --simulate MACHINE; the ranks of a job are -n")
    budget_s = parse_duration_s(budget)
    if output.is_dir():
        raise CommandError(f"-o {output}: it is a folder")
    output = output if output.suffix else output.with_suffix(".json")
    context.with_resource(files.locked_for_writing(output))
    if resume:
        refuse_others(context, _WITH_RESUME)
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
            algorithms=["native"],
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
        given = {name for name in ("collectives", "sizes", "ranks") if is_given(context, name)}
        courses = _new_courses(goal, common, choice, output, given, force=force)
    checked_output(rules, force=force or resume)
    warn_of_load()
    _run(
        courses,
        choice,
        budget_s,
        output,
        left,
        rules_file=rules,
        store=store,
        as_json=as_json,
        verbose=verbose > 0,
    )


# -- what to tune


def _refuse_measuring(context: typer.Context) -> None:
    """With --simulate, refuse the options that say how to measure."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in tune_simulated.OPTIONS and is_given(context, name):
            raise CommandError(
                f"{max(parameter.opts, key=len)} does not go with --simulate, which measures nothing"
            )


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
        if checked_ranks(int(word), most=MOST_RANKS) == 1:
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
    goal: Goal, common: Plan, choice: Choice, output: Path, given: set[str], *, force: bool
) -> list[Course]:
    kind, colon, folder = goal.objective.partition(":")
    if goal.objective not in ("robust", "balanced") and not (kind + colon == _TRACE and folder):
        raise CommandError(f"--objective {goal.objective}: write robust, balanced or trace:FOLDER")
    if kind == "trace":
        if "sizes" in given:
            raise CommandError("--bytes: the sizes of the objective trace are those of the program")
        found = recorded.cells_of(Path(folder))
        found = [c for c in found if "collectives" not in given or c.collective in common.collectives]
        found = [c for c in found if "ranks" not in given or c.ranks in goal.ranks]
        if not found:
            raise CommandError(f"{folder} has no call of these collectives on communicators of that size")
        goal = replace(goal, ranks=sorted({cell.ranks for cell in found}))
        if len(found) > _MOST_RECORDED_CELLS:
            most = f"only the {_MOST_RECORDED_CELLS} that take most time are tuned"
            print(f"offbeat: of {len(found)} cells of {folder}, {most}", file=sys.stderr)
        _refuse_overwrite(output, goal, force=force)
        by_ranks = recorded.with_patterns(found[:_MOST_RECORDED_CELLS], output.with_suffix(".arrivals"))
        plans_ = [courses_.plan_of(ranks, cells, common) for ranks, cells in sorted(by_ranks.items())]
    else:
        _refuse_overwrite(output, goal, force=force)
        names = ["balanced"] if kind == "balanced" else common.patterns
        plans_ = [
            courses_.plan_of(ranks, None, replace(common, patterns=names_here))
            for ranks in goal.ranks
            for names_here in [tuning.distinct_patterns(names, ranks, common.seed)]
        ]
    return [
        Course(
            goal,
            Benchmark(plan, runner.describe_run(plan, choice)),
            courses_.path_for(output, plan.ranks, goal.ranks),
        )
        for plan in plans_
    ]


def _refuse_overwrite(output: Path, goal: Goal, *, force: bool) -> None:
    for ranks in goal.ranks:
        path = courses_.path_for(output, ranks, goal.ranks)
        if path.exists() and not force:
            raise CommandError(f"{path} exists; add --force to overwrite it, or --resume to go on with it")
        checked_output(path, force=True)
        runner.path_of_partial_records(path).unlink(missing_ok=True)


def _resumed(output: Path) -> tuple[list[Course], Choice, int]:
    courses = [courses_.read(path) for path in courses_.files_of(output)]
    choice = choose(str(courses[0].benchmark.about["mpi"].get("libmpi")), None, [], os.environ)
    joined = 0
    for course in courses:
        found = course.benchmark
        runner.refuse_other(found.about, runner.describe_run(found.plan, choice), course.path)
        joined += course.take_part()
    return courses, replace(choice, why=f"continues {output}"), joined


# -- measuring


def _run(
    courses: list[Course],
    choice: Choice,
    budget_s: float,
    output: Path,
    left: int,
    *,
    rules_file: Path | None,
    store: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    # With --json, standard output has nothing but the JSON.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, stderr=as_json)
    install = choice.install
    console.print(f"{install}: {choice.why}", soft_wrap=True)
    if left:
        console.print(f"{left} results were left by a tuning that was killed; they count")
    goal = courses[0].goal
    in_force = goal.rules_in_force
    users_rules = (
        rule_files.without_errors(in_force) if in_force is not None and Path(in_force).exists() else None
    )
    line = ProgressLine()
    work = Tuning(
        courses,
        choice,
        budget_s,
        users_rules,
        on_progress=lambda progress: line.show(_text(progress)),
        say=line.say,
        show_output=verbose,
    )
    try:
        with ended_by_signals():
            for course in courses:
                course.benchmark.write(course.path)
            work.run()
    except KeyboardInterrupt:
        line.clear()
        _stop_interrupted(output)
    finally:
        line.clear()
    decisions = [decision for course in courses for decision in decide(course)]
    if not decisions:
        raise CommandError(
            f"{_too_short(courses, work, budget_s)}; to resume: offbeat tune --resume -o {output} --budget "
            f"{2 * budget_s:g}s",
            FAILED,
        )
    rows = _all_rows(courses)
    _show(console, courses, rows, decisions)
    console.print(
        f"Measured for {format_duration(work.seconds)} of {format_duration(budget_s)}; "
        f"cost in all: {work.core_seconds():.0f} core-seconds. "
        f"Results: {', '.join(str(course.path) for course in courses)}",
        soft_wrap=True,
    )
    all_rows = [row for of in rows for row in of]
    _write_rules(console, choice, all_rows, rules_file, store=store)
    if as_json:
        print_json(_to_json(courses, all_rows, work, budget_s))


def _too_short(courses: Sequence[Course], work: Tuning, budget_s: float) -> str:
    """What is missing after a budget in which no race got all the times that a rule needs."""
    measured, wanted = zip(*(course.measured_of_wanted() for course in courses), strict=True)
    return (
        f"the budget of {budget_s:g} s was too short: {sum(measured)} of {sum(wanted)} times were measured, "
        f"so no algorithm has all of its own (to start a job takes {work.start_s:.1f} s here)"
    )


def _to_json(
    courses: Sequence[Course], rows: Sequence[Row], work: Tuning, budget_s: float
) -> dict[str, object]:
    date = datetime.now(timezone.utc).date().isoformat()
    names = ("collective", "host", "nodes", "ppn", "bytes", "algorithm")
    return {
        "objective": courses[0].goal.objective,
        "results": [str(course.path) for course in courses],
        "seconds": round(work.seconds, 1),
        "budget_s": budget_s,
        "core_seconds": round(work.core_seconds(), 1),
        "rules": [
            {**dict(zip(names, row.fields(), strict=True)), "reason": row.reason(date)} for row in rows
        ],
        "missing": _missing(courses),
        "not_used": _dropped(courses),
    }


def _all_rows(courses: Sequence[Course]) -> list[list[Row]]:
    """The rules, by number of ranks and collective."""
    found = []
    for course in courses:
        decided = decide(course)
        for collective in dict.fromkeys(decision.collective for decision in decided):
            sizes = {c.size_bytes for c in course.contests if c.collective == collective}
            of = [decision for decision in decided if decision.collective == collective]
            found.append(rows_of(of, sorted(sizes)))
    return found


def _stop_interrupted(output: Path) -> NoReturn:
    print(
        f"offbeat: interrupted; all results are kept. To resume: offbeat tune --resume -o {output}",
        file=sys.stderr,
    )
    raise typer.Exit(INTERRUPTED)


def _text(progress: Progress) -> str:
    what = "measuring the winners again" if progress.round == FINAL else f"round {progress.round + 1}"
    text = (
        f"{format_duration(progress.passed_s)} of {format_duration(progress.budget_s)}: {what}, "
        f"{progress.ranks} ranks: {progress.doing}"
    )
    if progress.candidates:
        text += f"; {progress.racing} of {progress.candidates} candidates are in the race"
    return text


# -- results


def _show(
    console: Console, courses: Sequence[Course], rows: Sequence[Sequence[Row]], decisions: Sequence[Decision]
) -> None:
    console.print()
    goal = courses[0].goal
    shown = ", ".join(courses[0].benchmark.plan.patterns) if goal.objective == "robust" else ""
    console.print(f"Objective: {goal.objective}{f' ({shown})' if shown else ''}", soft_wrap=True)
    for of in rows:
        console.print(to_terminal(tune_sheets.sheet(of)))
    console.print(tune_sheets.NOTE, soft_wrap=True)
    console.print(tune_sheets.verdict(decisions), soft_wrap=True)
    for line in [*_missing(courses), *_dropped(courses), *_better_names(courses)]:
        console.print(line, soft_wrap=True)


def _missing(courses: Sequence[Course]) -> list[str]:
    found = []
    for course in courses:
        decided = {(d.collective, d.size_bytes) for d in decide(course)}
        missing = [c for c in course.contests if (c.collective, c.size_bytes) not in decided]
        if missing:
            sizes = "; ".join(
                f"{collective} of {', '.join(format_size(c.size_bytes) for c in contests)}"
                for collective, contests in groupby(missing, key=lambda c: c.collective)
            )
            found.append(
                f"No rule on {course.ranks} ranks for {sizes}: the budget was spent, or native failed. "
                "--resume goes on."
            )
    return found


def _dropped(courses: Sequence[Course]) -> list[str]:
    reasons = {key: why for course in courses for key, why in course.dropped.items()}
    return [f"Not used: {collective} by {name}: {why}" for (collective, name), why in reasons.items()]


def _better_names(courses: Sequence[Course]) -> list[str]:
    """A line for each number of ranks on which a name of the host's wins that rules cannot have."""
    found = []
    for course in courses:
        better = []
        for contest in course.contests:
            scores = course.scores(contest, course.usable(contest))
            best = min(scores, key=lambda name: scores[name].value, default=None)
            allowed = [score for name, score in scores.items() if course.may_be_in_rules(contest, name)]
            if best is None or not allowed:
                continue
            rule = min(allowed, key=lambda score: score.value)
            if race.is_better(scores[best], rule):
                where = f"{contest.collective} {format_size(contest.size_bytes)}"
                better.append(f"{where}: {best} at {scores[best].value / rule.value:.2f} of the rule's time")
        if better:
            listed = "; ".join(better)
            found.append(
                f"On {course.ranks} ranks one of the MPI's own is better, but no rule can name it: {listed}"
            )
    return found


def _write_rules(
    console: Console, choice: Choice, rows: Sequence[Row], rules_file: Path | None, *, store: bool
) -> None:
    date = datetime.now(timezone.utc).date().isoformat()
    fields, reasons = [row.fields() for row in rows], [row.reason(date) for row in rows]
    install = choice.install
    lines = spelling.rule_lines(fields, reasons)
    text = (
        f"# Rules of offbeat tune, {date}, for {install.vendor} {install.version}\n" + "\n".join(lines) + "\n"
    )
    if rules_file is not None:
        write_text(rules_file, text)
        _check(rules_file)
        console.print(f"Rules: {rules_file}", soft_wrap=True)
    if not store:
        if rules_file is None:
            print(text, end="", file=console.file)
        return
    try:
        path = stored.store(install.vendor, install.version, fields, reasons, os.environ)
    except CommandError as error:
        if rules_file is None:
            print(text, end="", file=console.file)
        where = f"they are in {rules_file}" if rules_file is not None else "they are printed above"
        print(f"offbeat: {error}; {where}", file=sys.stderr)
        return
    console.print(f"Stored: {path}; offbeat run uses these rules from now on", soft_wrap=True)


def _check(path: Path) -> _core.Rules:
    return rule_files.without_errors(str(path))
