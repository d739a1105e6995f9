# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench: compare native with offbeat's algorithms under arrival patterns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from offbeat.bench import arrival_patterns, runner
from offbeat.bench import plan as plans
from offbeat.bench.records import Records
from offbeat.bench.results import Benchmark, read
from offbeat.commands import completion
from offbeat.commands.command_line import Command, Context, Option
from offbeat.commands.measuring import (
    PART_OF_PLAN,
    ended_by_signals,
    refuse_others,
    stop_interrupted,
)
from offbeat.commands.options import (
    HostFile,
    HostNames,
    Launcher,
    MpiOfNoProgram,
    MpirunArgs,
    Ranks,
    Skews,
    Verbose,
    checked_ranks,
    start_options,
)
from offbeat.commands.output import hold, new_console, warn_of_load
from offbeat.errors import ANSWER_NO, FAILED, CommandError
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice, choose
from offbeat.reports import bench_formats, table
from offbeat.units import format_count, parse_duration_s, parse_skew

_DEFAULT_ALGORITHMS = "arrival_tree,recursive_doubling,rabenseifner"
_MAX_CALLS = 1_000_000_000  # the ranks count in an int
_OPTIONS_WITH_RESUME = {"resume", "budget", "verbose", "output_format"}


class Place(str, Enum):
    """Whether calls are in place."""

    no = "no"
    yes = "yes"
    both = "both"


_PLACES = {Place.no: [False], Place.yes: [True], Place.both: [False, True]}


class Format(str, Enum):
    """The output."""

    table = "table"
    csv = "csv"
    json = "json"
    osu = "osu"
    imb = "imb"
    nccl = "nccl"


def bench(
    context: Context,
    ranks: Ranks = 2,
    mpi: MpiOfNoProgram = None,
    collectives: Annotated[
        str,
        Option(
            metavar="NAME,...",
            complete=completion.collectives,
            help=f"Collectives: {', '.join(plans.COLLECTIVES)}.",
        ),
    ] = plans.DEFAULT_COLLECTIVE,
    sizes: Annotated[
        str,
        Option(
            metavar="4,1KiB|4..1MiB",
            help="Sizes in bytes of MPI_FLOAT: a list, or a range in which each size is 4 times the last. "
            "For allreduce, reduce, bcast, reduce_scatter, scan and exscan this is the whole vector, for the "
            "others one block.",
        ),
    ] = "4..1MiB",
    algorithms: Annotated[
        str,
        Option(
            metavar="EXPR,...",
            help="Algorithms to compare: expressions, `default` (the preload's own choice), and native(NAME) "
            "(the MPI's algorithm NAME, also inside a pipeline). native always takes part. "
            f"Default: {_DEFAULT_ALGORITHMS} if allreduce is the only collective, otherwise `default`.",
        ),
    ] = "",
    patterns: Annotated[
        str,
        Option(
            metavar="NAME,...",
            complete=completion.patterns,
            help=f"Arrival patterns: {', '.join(arrival_patterns.PATTERNS)}.",
        ),
    ] = "balanced,last_delayed,random",
    skew: Skews = "1.0",
    same_buffers: Annotated[
        bool,
        Option("--same-buffers", help="Use the same buffers in each call, instead of several in turn."),
    ] = False,
    computing: Annotated[
        str | None,
        Option(
            metavar="FACTOR|TIME",
            help="Measure non-blocking calls: each rank computes for this long before it waits. This is a "
            "multiple of native's balanced median, or a time like 100us.",
        ),
    ] = None,
    asleep: Annotated[
        bool,
        Option("--asleep", help="With --computing: sleep instead, like a rank that waits for a GPU."),
    ] = False,
    budget: Annotated[
        str, Option(metavar="TIME", help="Time for the whole benchmark, such as 90s, 5min or 1h.")
    ] = "1min",
    seed: Annotated[int, Option(metavar="N", help="Seed of the random arrival patterns.")] = 1,
    types: Annotated[
        str,
        Option(
            "-d",
            "--type",
            metavar="TYPE,...",
            complete=completion.types,
            help=f"Types of element: {', '.join(plans.TYPES)}.",
        ),
    ] = plans.FLOAT,
    operations: Annotated[
        str,
        Option(
            "-o",
            "--op",
            metavar="OP,...",
            complete=completion.operations,
            help=f"Operations: {', '.join(plans.OPERATIONS)} (bit by bit: integers).",
        ),
    ] = plans.SUM,
    roots: Annotated[
        str, Option("--root", metavar="RANK,...", help="Roots of collectives that have one, or `all`.")
    ] = "0",
    in_place: Annotated[
        Place,
        Option(
            metavar="no|yes|both",
            help="Whether calls are made with MPI_IN_PLACE. A barrier and a bcast have no such form.",
        ),
    ] = Place.no,
    iterations: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Count exactly N calls of each algorithm in a cell. Default: until the median is known to "
            f"2.5%, at most {plans.MAX_ITERATIONS}.",
        ),
    ] = None,
    warm_up: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Calls that are not counted when an algorithm has its turn. Default: 4 of short calls, none "
            "of those that take longer than 100us.",
        ),
    ] = None,
    output_format: Annotated[
        Format,
        Option(
            "--format",
            metavar="table|csv|json|osu|imb|nccl",
            help="The output: tables, tidy rows, the JSON of --json, or as the benchmarks of OSU, Intel or "
            "NVIDIA print it.",
        ),
    ] = Format.table,
    json_file: Annotated[
        Path | None,
        Option(
            "--json",
            metavar="FILE",
            help="Write all results to FILE as JSON; - prints them, as --format json.",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite FILE.")] = False,
    resume: Annotated[
        Path | None,
        Option(metavar="FILE", help="Continue the run of FILE, which was interrupted or cut short."),
    ] = None,
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    verbose: Verbose = 0,
) -> None:
    """Compare native with offbeat under arrival patterns.

    Before it measures, offbeat compares every result with the exact one; if one is wrong, the exit
    code is 1. All algorithms take turns in one job, so that noise hits them alike.

    offbeat bench -n 4 --sizes 8,64KiB,1MiB --algorithms 'arrival_tree, ring, pipeline(4, ring)'
    offbeat bench -n 8 --patterns balanced,random --skew 1,100us --budget 600 --json before.json
    offbeat bench -n 4 --collectives reduce,bcast -d float,int32 -o sum,max --root 0,3 --format csv
    offbeat bench -n 64 --launcher srun --patterns balanced --format osu
    """
    if json_file is not None and str(json_file) == "-":
        json_file, output_format = None, Format.json
    budget_s = parse_duration_s(budget)
    if (written := resume or json_file) is not None:
        hold(context, written, "--resume" if resume is not None else "--json")
    if resume is not None:
        refuse_others(context, _OPTIONS_WITH_RESUME, PART_OF_PLAN)
        found, choice = _resumed(resume)
        path: Path | None = resume
        seconds = budget_s if "budget" in context.given else found.plan.budget_s
    else:
        names = plans.parse_collectives(collectives)
        type_names = plans.parse_types(types)
        place = start_options(ranks, launcher, hosts, hostfile, mpirun_args)
        for option, number in (("--iterations", iterations), ("--warm-up", warm_up)):
            least = 1 if option == "--iterations" else 0
            if number is not None and not least <= number <= _MAX_CALLS:
                raise CommandError(f"{option} {number}: it must be from {least} to {_MAX_CALLS:,}")
        plan = plans.Plan(
            ranks=checked_ranks(ranks, most=plans.MOST_RANKS),
            collectives=names,
            sizes_bytes=plans.parse_sizes(sizes, type_names),
            types=type_names,
            operations=_operations(operations),
            roots=plans.parse_roots(roots, ranks),
            in_place_forms=_PLACES[in_place],
            max_iterations=iterations or plans.MAX_ITERATIONS,
            all_iterations=iterations is not None,
            warm_up=warm_up,
            algorithms=plans.parse_algorithms(algorithms or _usual_algorithms(names), names),
            patterns=arrival_patterns.parse_names(patterns),
            skews=list(dict.fromkeys(parse_skew(text) for text in skew.split(","))),
            same_buffers=same_buffers,
            computing=parse_skew(computing) if computing is not None else None,
            asleep=asleep,
            budget_s=budget_s,
            seed=seed,
            launcher=launcher,
        )
        if not plan.cells:
            raise CommandError(f"-d {types} -o {operations}: no operation is defined for any type")
        if asleep and computing is None:
            raise CommandError("--asleep changes how ranks spend the time of --computing; give both")
        _refuse_overwrite(json_file, force=force)
        choice = choose(mpi, None, [], os.environ)
        plan = replace(plan, mpirun_arguments=place.arguments(choice.install))
        for algorithm in plan.algorithms:
            host_algorithms.refuse_unknown_names(
                choice.install.vendor, names, algorithm, nonblocking=plan.computing is not None
            )
        found = Benchmark(plan, runner.describe_run(plan, choice))
        path, seconds = json_file, budget_s
    warn_of_load()
    _measure(found, choice, path, seconds, output_format, verbose=verbose > 0)


def _usual_algorithms(collectives: list[str]) -> str:
    return _DEFAULT_ALGORITHMS if collectives == [plans.DEFAULT_COLLECTIVE] else plans.BUILT_IN_CHOICE


def _measure(
    found: Benchmark, choice: Choice, path: Path | None, budget_s: float, form: Format, *, verbose: bool
) -> None:
    is_table = form is Format.table
    # With another format, standard output has nothing but that.
    console = new_console(width=120, stderr=not is_table)
    console.print(f"{format_count(found.plan.ranks, 'rank')}, {choice.install}: {choice.why}", soft_wrap=True)
    if path is not None:
        found.write(path)
    failure: CommandError | None = None
    try:
        with ended_by_signals(), _progress(found) as on_change:
            runner.run(found, choice, path=path, budget_s=budget_s, on_change=on_change, show_output=verbose)
    except KeyboardInterrupt:
        stop_interrupted(_kept(found, path))
    except CommandError as error:
        if not found.results:
            raise
        failure = error  # what was measured before is shown all the same
    if is_table:
        console.print(table.render(found, console.width))
    else:
        print(bench_formats.FORMATS[form.value](found))
    missing = found.missing()
    if missing:
        cells = len({cell for cell, _ in missing})
        hint = f"; to continue: offbeat bench --resume {path}" if path is not None else ""
        of_all = f"{cells} of {format_count(len(found.plan.cells), 'cell')}"
        verb = "is" if cells == 1 else "are"
        why = "the budget was spent" if failure is None else "the job did not end in order"
        console.print(f"{of_all} {verb} missing: {why}{hint}", soft_wrap=True)
    wrong = found.wrong_results()
    if wrong:
        cases = format_count(len(wrong), "case")
        raise CommandError(f"wrong results in {cases}, the first: {wrong[0]}", ANSWER_NO)
    if failure is not None:
        raise failure
    if not found.results:
        raise CommandError(f"nothing was measured within {budget_s:g} s; give a longer --budget", FAILED)


def _kept(found: Benchmark, path: Path | None) -> str:
    """The end of a line that says what an interruption leaves."""
    if path is None:
        return "; nothing is kept without --json FILE"
    done = len({result.cell for result in found.results})
    return (
        f" with {done} of {format_count(len(found.plan.cells), 'cell')} in {path}; "
        f"to continue: offbeat bench --resume {path}"
    )


@contextmanager
def _progress(found: Benchmark) -> Iterator[Callable[[Records, float], None]]:
    """Show on a terminal what the ranks are doing, how many cells are done, and how much time is left."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # Each refresh takes time from the ranks, so there are few.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        total = sum(len(job.cells) for job in found.jobs())
        task = progress.add_task("starting", total=total)
        shown = [""]

        def on_change(records: Records, deadline: float) -> None:
            left = max(deadline - time.time(), 0)
            description = f"{records.doing}, at most {left:.0f} s left"
            if description != shown[0] and not progress.disable:
                shown[0] = description
                done = len({r.cell for r in found.results}) + max(records.begun - 1, 0)
                progress.update(task, completed=done, description=description, refresh=True)

        yield on_change


# -- checks of the options


def _resumed(path: Path) -> tuple[Benchmark, Choice]:
    found = read(path)
    libmpi = found.about["mpi"].get("libmpi")
    choice = choose(str(libmpi), None, [], os.environ)
    runner.refuse_other(found.about, runner.describe_run(found.plan, choice), path)
    joined = runner.add_results_of_killed_run(found, path)
    left = f" ({joined} of them left by a run that was killed)" if joined else ""
    wanted = len(found.results) + len(found.missing())
    why = f"continues {path}, which has {len(found.results)} of {wanted} results{left}"
    return found, choice._replace(why=why)


def _operations(text: str) -> list[str]:
    try:
        return plans.parse_operations(text)
    except CommandError as error:
        # The -o of other commands is a file.
        hint = " (-o is --op here; the file is --json)" if "." in text or os.sep in text else ""
        raise CommandError(f"{error}{hint}") from None


def _refuse_overwrite(path: Path | None, *, force: bool) -> None:
    if path is None:
        return
    if path.exists() and not force:
        raise CommandError(f"{path} exists; add --force to overwrite it, or --resume {path} to continue it")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"--json {path}: there is no folder {path.absolute().parent}")
    runner.path_of_partial_records(path).unlink(missing_ok=True)


COMMAND = Command(bench)
