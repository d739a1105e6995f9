# SPDX-License-Identifier: BSD-3-Clause
"""Read a result file of ``offbeat bench`` as rows to rank, with facts and warnings about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from offbeat.bench import results
from offbeat.bench.ranking import Row
from offbeat.bench.results import Benchmark
from offbeat.bench.samples import Delay
from offbeat.errors import CommandError
from offbeat.units import format_count


@dataclass(frozen=True)
class BenchFile:
    """The contents of a result file, ready to be reported."""

    path: Path
    rows: list[Row]
    facts: list[tuple[str, str]]
    warnings: list[str]  # one line for each thing that is missing or doubtful


def looks_like_bench_file(path: Path) -> bool:
    """Whether a file is JSON rather than a trace."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def read(path: Path) -> BenchFile:
    """Read a result file. Raises CommandError if it is anything else."""
    try:
        benchmark = results.read(path)
        return BenchFile(path, _rows(benchmark), _facts(benchmark), _warnings(benchmark))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise CommandError(f"{path} is damaged: it is not what offbeat bench writes") from None


def _facts(benchmark: Benchmark) -> list[tuple[str, str]]:
    about, plan = benchmark.about, benchmark.plan
    machine, mpi = about["machine"], about["mpi"]
    return [
        ("benchmark", f"offbeat {about['offbeat']['version']}, {about['started']}"),
        ("machine", f"{machine['processor']}, {format_count(machine['cores'], 'core')}, {machine['host']}"),
        ("MPI", f"{mpi['vendor']} {mpi['version']}"),
        ("ranks", f"{plan.ranks}"),
        ("skew", ", ".join(map(str, plan.skews))),
        ("seed", f"{plan.seed}"),
    ]


def _warnings(benchmark: Benchmark) -> list[str]:
    found = []
    if _cells_missing(benchmark):
        results = format_count(_cells_missing(benchmark), "result")
        found.append(f"{results} of the plan; offbeat bench --resume measures more")
    late = sum(not result.on_time for result in benchmark.results)
    if late:
        results = format_count(len(benchmark.results), "result")
        found.append(f"in {late} of {results} ranks rarely arrived as the pattern says")
    return found + [f"WRONG result, not used: {line}" for line in benchmark.wrong_results()]


def _cells_missing(benchmark: Benchmark) -> int:
    try:
        return len(benchmark.missing())
    except CommandError:
        return 0  # the plan names a pattern file that no longer exists, so its cells are unknown


def _rows(benchmark: Benchmark) -> list[Row]:
    measured = [result for result in benchmark.results if result.status == results.MEASURED]
    skews: dict[str, set[str]] = {}
    for result in measured:
        skews.setdefault(result.cell.pattern, set()).add(result.cell.skew)
    found: dict[tuple[str, int, str], dict[str, Delay]] = {}
    for result in measured:
        collective, size, pattern, skew = result.cell[:4]
        label = f"{pattern}, {skew}" if len(skews[pattern]) > 1 else pattern
        label += f" ({result.cell.variant})" if result.cell.variant else ""
        delay = result.last_delay
        if not all(map(math.isfinite, (delay.median, delay.ci95_low, delay.ci95_high))):
            raise ValueError("not a number")
        found.setdefault((str(collective), int(size), label), {})[str(result.algorithm)] = delay
    return [Row(collective, size, pattern, delays) for (collective, size, pattern), delays in found.items()]
