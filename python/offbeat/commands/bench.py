# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench: native against offbeat's algorithms, under arrival patterns."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from offbeat import __version__, arrival, machine
from offbeat import bench as benchmark
from offbeat.choice import Choice, choose
from offbeat.commands.options import Mpi, MpirunArgs, Ranks, Verbose, checked_ranks, split_arguments
from offbeat.errors import FAILED, CommandError
from offbeat.records import Records
from offbeat.reports import table
from offbeat.units import parse_sizes, parse_skew

_FLOAT_BYTES = 4
_PLAIN_WIDTH = 120  # of output that goes to a file or pipe


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(bench)


def bench(
    ranks: Ranks = 2,
    mpi: Mpi = None,
    sizes: Annotated[
        str, typer.Option(metavar="4,1KiB|4..1MiB", help="Bytes per rank of MPI_FLOAT.")
    ] = "4..1MiB",
    algorithms: Annotated[
        str, typer.Option(metavar="EXPR,...", help="What to compare; native always takes part.")
    ] = "native,arrival_tree,recursive_doubling,rabenseifner",
    patterns: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Arrival patterns: {', '.join(arrival.PATTERNS)}.")
    ] = "balanced,last_delayed,random",
    skew: Annotated[
        str,
        typer.Option(
            metavar="FACTOR|TIME", help="Lateness of the latest rank: times native's median, or as 100us."
        ),
    ] = "1.0",
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for all measurements together.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Of the random arrival pattern.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything to FILE.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    mpirun_args: MpirunArgs = "",
    verbose: Verbose = 0,
) -> None:
    """Compare native with offbeat under arrival patterns.

    Every result is compared with the host MPI's before anything is timed; a wrong one
    ends in exit code 1. All algorithms take turns in one job, so that noise hits all alike.
    """
    plan = benchmark.Plan(
        ranks=checked_ranks(ranks),
        sizes_bytes=_checked_sizes(sizes),
        algorithms=benchmark.parse_algorithms(algorithms),
        patterns=arrival.parse_names(patterns),
        skews=[parse_skew(skew)],
        budget_s=_checked_budget(budget),
        seed=seed,
        mpirun_arguments=split_arguments(mpirun_args),
    )
    _refuse_overwrite(json_file, force=force)
    choice = choose(mpi, None, [], os.environ)
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
    console.print(f"{plan.ranks} ranks, {choice.install}: {choice.why}", soft_wrap=True)
    records = _measure(plan, choice, verbose=verbose > 0)
    console.print(table.render(records, plan.algorithms, str(plan.skews[0]), console.width))
    if json_file is not None:
        _write(json_file, plan, choice, records)
    wrong = records.wrong_results()
    if wrong:
        raise CommandError(f"wrong results in {len(wrong)} cases, the first: {wrong[0]}", FAILED)


def _measure(plan: benchmark.Plan, choice: Choice, *, verbose: bool) -> Records:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=len(plan.cells))

        def on_change(records: Records) -> None:
            done = len({result.cell for result in records.results})
            progress.update(task, completed=done, description=records.doing)

        return benchmark.run(plan, choice, on_change, show_output=verbose)


def _checked_sizes(text: str) -> list[int]:
    sizes = parse_sizes(text)
    for size in sizes:
        if size == 0 or size % _FLOAT_BYTES != 0:
            raise CommandError(
                f"--sizes {text}: {size} bytes is not a whole number of floats (multiples of 4)"
            )
    return list(dict.fromkeys(sizes))


def _checked_budget(seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise CommandError(f"--budget {seconds:g}: seconds must be above 0")
    return seconds


def _refuse_overwrite(path: Path | None, *, force: bool) -> None:
    if path is None:
        return
    if path.exists() and not force:
        raise CommandError(f"{path} exists; add --force to overwrite it")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"--json {path}: there is no folder {path.absolute().parent}")


def _write(path: Path, plan: benchmark.Plan, choice: Choice, records: Records) -> None:
    install = choice.install
    document = {
        "schema": 1,
        "tool": f"offbeat bench {__version__}",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine.description(),
        "mpi": {
            "vendor": install.vendor,
            "version": install.version,
            "family": install.family,
            "libmpi": str(install.libmpi),
            "mpirun": str(install.mpirun),
        },
        "plan": {
            "ranks": plan.ranks,
            "sizes_bytes": list(plan.sizes_bytes),
            "algorithms": list(plan.algorithms),
            "patterns": list(plan.patterns),
            "skew_factor": plan.skews[0].factor,
            "skew_us": plan.skews[0].microseconds,
            "budget_s": plan.budget_s,
            "seed": plan.seed,
            "mpirun_arguments": list(plan.mpirun_arguments),
        },
        "records": records.lines,
    }
    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", FAILED) from None
