#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare offbeat on one node with Open MPI, MPICH and Intel MPI.

    build/venv/bin/python benchmarks/board.py --ranks 2,4 --patterns balanced --repeats 5
    build/venv/bin/python benchmarks/board.py --collectives bcast,reduce --ranks 2 --skews 1
    build/venv/bin/python benchmarks/board.py --mpi 'xhc=/opt/openmpi-6.0+OMPI_MCA_coll_xhc_priority=100'

Each job runs one MPI, natively and with offbeat's algorithms in turn. Whole passes over the MPIs are
repeated, so that a busy machine hits all of them alike. A skew is a multiple of the balanced time of the
fastest native MPI, so it is equal under every MPI. The output ends with the missed targets.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import result_file
from offbeat import machine
from offbeat.bench import arrival_patterns, runner
from offbeat.bench.plan import Call, Cell, Plan, parse_algorithms, parse_collectives
from offbeat.bench.results import FEW_SAMPLES, MEASURED, Benchmark
from offbeat.errors import CommandError
from offbeat.expressions import split_list
from offbeat.mpi import discovery, libraries
from offbeat.mpi.choice import Choice
from offbeat.mpi.install import MpiInstall
from offbeat.units import Skew, format_size, format_us, parse_sizes, parse_skew
from rich.console import Console
from rich.table import Table

BUILD = Path(__file__).resolve().parent.parent / "build"
PREFIXES = (BUILD / "venv", BUILD / "mpi" / "mpich", BUILD / "mpi" / "impi")
SIZES = "4..64MiB"
LEGEND = """\
Medians of last delays. native X: MPI X alone. offbeat X: offbeat under X. best/X: the time of the fastest
native MPI divided by that of offbeat under X. own X: the native time of X divided by that of offbeat under X.
±: half the range of the passes. !: fewer than 5 samples in some pass, because the budget was spent."""
PUBLISHED = ("arrival_leader", "arrival_chain")


@dataclass(frozen=True)
class Key:
    """One cell of a table."""

    collective: str
    ranks: int
    pattern: str
    skew: float  # times the best native's balanced time
    size_bytes: int
    algorithm: str
    mpi: str


@dataclass(frozen=True)
class Host:
    """An MPI, and the settings with which it runs."""

    name: str
    install: MpiInstall
    settings: Mapping[str, str]

    @staticmethod
    def parse(text: str) -> Host:
        """Read PREFIX, a name of an MPI, or NAME=PREFIX; then any number of +VARIABLE=VALUE."""
        where, *settings = text.split("+")
        name, _, prefix = where.rpartition("=")
        install = discovery.select(prefix, {})
        pairs = [each.partition("=") for each in settings]
        return Host(name or install.name, install, {variable: value for variable, _, value in pairs})


class Board:
    """All medians, one for each pass, and the cells that were not measured or wrong."""

    def __init__(self) -> None:
        self.delays_us: dict[Key, list[float]] = defaultdict(list)
        self.cut: set[Key] = set()
        self.wrong: list[str] = []

    def add(self, found: Benchmark, mpi: str) -> None:
        ranks = found.plan.ranks
        for result in found.results:
            if result.status == MEASURED:
                key = self._key(ranks, result.cell, result.algorithm, mpi)
                self.delays_us[key].append(result.last_delay.median)
                if result.iterations < FEW_SAMPLES:
                    self.cut.add(key)
        self.cut |= {self._key(ranks, cell, algorithm, mpi) for cell, algorithm in found.missing()}
        self.wrong += [f"{mpi}, {ranks} ranks: {line}" for line in found.wrong_results()]

    @staticmethod
    def _key(ranks: int, cell: Cell, algorithm: str, mpi: str) -> Key:
        skew = parse_skew(cell.skew).factor or 0.0
        return Key(cell.collective, ranks, cell.pattern, skew, cell.size_bytes, algorithm, mpi)

    def median(self, key: Key) -> float | None:
        delays = self.delays_us.get(key)
        return statistics.median(delays) if delays else None

    def best_native(self, key: Key, mpis: Iterable[str]) -> float | None:
        natives = [self.median(replace(key, algorithm="native", mpi=mpi)) for mpi in mpis]
        return min((delay for delay in natives if delay is not None), default=None)

    def text(self, key: Key) -> str:
        delay = self.median(key)
        if delay is None:
            return "-"
        passes = self.delays_us[key]
        spread = 50 * (max(passes) - min(passes)) / delay
        cut = "!" if key in self.cut else ""
        return f"{format_us(delay)}{cut}" + (f" ±{spread:.0f}%" if len(passes) > 1 else "")


def placed(install: MpiInstall, ranks: int) -> tuple[list[str], dict[str, str]]:
    """The arguments of mpirun and the variables that give each rank its own core, if there are enough."""
    pinned = ranks <= machine.cores()
    if install.vendor == "Open MPI":
        return (["--bind-to", "core"] if pinned else ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]), {}
    if install.vendor == "Intel MPI":
        return [], {"I_MPI_FABRICS": "shm", **({"I_MPI_PIN_DOMAIN": "core"} if pinned else {})}
    return (["-bind-to", "core"] if pinned else []), {}


def job(plan: Plan, host: Host) -> tuple[Benchmark, Choice]:
    """What runner.run measures: a plan under an MPI, with a core for each rank if there are enough."""
    arguments, variables = placed(host.install, plan.ranks)
    choice = Choice(host.install, "", {**variables, **host.settings})
    placed_plan = replace(plan, mpirun_arguments=arguments)
    return Benchmark(placed_plan, runner.describe_run(placed_plan, choice)), choice


def measure(
    board: Board,
    plans: Sequence[Plan],
    natives: Mapping[int, runner.NativeUs],
    hosts: Sequence[Host],
    repeats: int,
) -> None:
    """Measure in whole passes over the MPIs, so that slow changes of the machine hit all of them alike."""
    jobs = [(plan, host) for _ in range(repeats) for plan in plans for host in hosts]
    for number, (plan, host) in enumerate(jobs, 1):
        started = time.monotonic()
        try:
            found, choice = job(plan, host)
            runner.run(found, choice, native_us=natives.get(plan.ranks))
        except CommandError as error:
            sys.exit(f"{host.name}, {plan.ranks} ranks: {error}")
        board.add(found, host.name)
        print(
            f"{number}/{len(jobs)} {host.name}, {plan.ranks} ranks, {', '.join(plan.patterns)}: "
            f"{time.monotonic() - started:.0f} s",
            file=sys.stderr,
        )


# -- tables and targets


@dataclass(frozen=True)
class Target:
    """How many times faster than the fastest native MPI offbeat has to be."""

    every_size: float
    from_1_kib: float
    mean: float | None


def target(ranks: int, pattern: str) -> Target:
    if pattern != "balanced":
        return Target(1.0, 1 / 0.6, None)
    return Target(1.0, 1.0, 1.5 if ranks <= machine.cores() else 2.0)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


class Report:
    """Makes the tables of a board, and collects the missed targets."""

    def __init__(self, board: Board, mpis: Sequence[str], sizes: Sequence[int], algorithms: Sequence[str]):
        self.board, self.mpis, self.sizes, self.algorithms = board, mpis, sizes, algorithms
        self.missed: list[str] = []

    def table(self, collective: str, ranks: int, pattern: str, skew: float, algorithm: str) -> Table:
        lateness = f", skew {skew:g} x best native" if skew else ""
        title = f"{collective}, {ranks} ranks, {pattern}{lateness}: {algorithm}"
        table = Table(title=title, title_justify="left", box=None)
        table.add_column("size", justify="right", no_wrap=True)
        columns = [f"native {m}" for m in self.mpis] + [f"offbeat {m}" for m in self.mpis]
        columns += ["best/best"] + [f"best/{m}" for m in self.mpis] + [f"own {m}" for m in self.mpis]
        for column in columns:
            table.add_column(column, justify="right")
        ratios: dict[str, list[float]] = defaultdict(list)
        for size in self.sizes if collective != "barrier" else [0]:
            keys = [Key(collective, ranks, pattern, skew, size, algorithm, mpi) for mpi in self.mpis]
            table.add_row(format_size(size), *self._row(keys, ratios))
        means = {name: geometric_mean(values) for name, values in ratios.items() if values}
        names = columns[2 * len(self.mpis) :]
        table.add_section()
        blanks = [""] * 2 * len(self.mpis)
        table.add_row("mean", *blanks, *(f"{means[n]:.2f}" if n in means else "-" for n in names))
        if algorithm == self.algorithms[0]:
            self._check_means(f"{collective}, {ranks} ranks, {pattern}", target(ranks, pattern), means)
        return table

    def _row(self, keys: Sequence[Key], ratios: dict[str, list[float]]) -> list[str]:
        board = self.board
        natives = [replace(key, algorithm="native") for key in keys]
        best = board.best_native(keys[0], self.mpis)
        delays = [board.median(key) for key in keys]
        row = {"best/best": _ratio(best, min((d for d in delays if d is not None), default=None))}
        row |= {f"best/{key.mpi}": _ratio(best, delay) for key, delay in zip(keys, delays, strict=True)}
        row |= {
            f"own {key.mpi}": _ratio(board.median(native), delay)
            for key, native, delay in zip(keys, natives, delays, strict=True)
        }
        for name, ratio in row.items():
            if ratio is not None:
                ratios[name].append(ratio)
        if keys[0].algorithm == self.algorithms[0]:
            for key in keys:
                self._check_cell(key, row[f"best/{key.mpi}"])
        texts = [board.text(key) for key in (*natives, *keys)]
        return texts + ["-" if ratio is None else f"{ratio:.2f}" for ratio in row.values()]

    def _check_cell(self, key: Key, ratio: float | None) -> None:
        goal = target(key.ranks, key.pattern)
        meets = key.collective == "allreduce"  # here only the data of the last rank remain to be combined
        wanted = goal.from_1_kib if meets and key.size_bytes >= 1024 else goal.every_size
        where = (
            f"{key.collective}, {key.ranks} ranks, {key.pattern} {key.skew:g}, "
            f"{format_size(key.size_bytes)}, {key.mpi}"
        )
        if ratio is None:
            self.missed.append(f"{where}: not measured")
        elif ratio < wanted:
            self.missed.append(f"{where}: {ratio:.2f} x best native, target {wanted:.2f}")
        mine = self.board.median(key)
        for name in PUBLISHED:
            other = self.board.median(replace(key, algorithm=name))
            if key.pattern != "balanced" and mine and other and name != key.algorithm and other < mine:
                self.missed.append(f"{where}: {name} takes {other / mine:.2f} of the time of {key.algorithm}")

    def _check_means(self, where: str, goal: Target, means: dict[str, float]) -> None:
        if goal.mean is None:
            return
        for mpi in self.mpis:
            for name, wanted in ((f"best/{mpi}", goal.mean), (f"own {mpi}", 2.5)):
                # The target of 2.5 times the MPI's own time is for pinned ranks under Open MPI and MPICH.
                if name.startswith("own") and (goal.mean != 1.5 or mpi == "intel"):
                    continue
                if name in means and means[name] < wanted:
                    self.missed.append(f"{where}, mean of {name}: {means[name]:.2f}, target {wanted:g}")


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over and under else None


# -- the command line


def parse() -> argparse.Namespace:
    def numbers(kind: type) -> Callable[[str], list[Any]]:
        return lambda text: [kind(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collectives", type=parse_collectives, default=["allreduce"])
    parser.add_argument("--ranks", type=numbers(int), default=[2, 4, 8, 16])
    parser.add_argument("--sizes", type=parse_sizes, default=parse_sizes(SIZES))
    parser.add_argument(
        "--patterns",
        type=arrival_patterns.parse_names,
        default=["balanced", "last_delayed", "random", "ascending"],
    )
    parser.add_argument("--skews", type=numbers(float), default=[0.5, 1.0, 1.5, 10.0])
    parser.add_argument(
        "--algorithms",
        default="default",
        help="offbeat's algorithms; the targets are for the first (default: the preload's own choice)",
    )
    parser.add_argument(
        "--mpi",
        default=",".join(map(str, PREFIXES)),
        help="MPIs: prefixes or names, with commas; NAME=PREFIX+VARIABLE=VALUE+... also sets variables",
    )
    parser.add_argument("--repeats", type=int, default=3, help="passes over all MPIs (3)")
    parser.add_argument("--budget", type=float, default=600, help="seconds for the whole benchmark (600)")
    parser.add_argument("--libraries", type=Path, help="take the compiled files from this build folder")
    result_file.add_option(parser)
    return parser.parse_args()


def plans_for(options: argparse.Namespace, patterns: Sequence[str]) -> list[Plan]:
    """One plan for each number of ranks. Every cell of every pass gets the same share of the budget."""
    factors = [Skew(factor=skew) for skew in options.skews]
    per_rank_count = sum(len(factors) if p != "balanced" else 1 for p in options.patterns)
    share = sum(len(factors) if p != "balanced" else 1 for p in patterns) / per_rank_count
    seconds = options.budget * share / (len(options.ranks) * options.repeats * len(options.hosts))
    return [
        Plan(ranks, options.sizes, options.names, patterns, factors, options.collectives, budget_s=seconds)
        for ranks in options.ranks
    ]


def main() -> None:
    options = parse()
    results = result_file.ResultFile(options.json)
    if options.libraries is not None:
        libraries.prefer_folder(options.libraries)
    options.hosts = [Host.parse(mpi) for mpi in options.mpi.split(",")]
    options.names = parse_algorithms(options.algorithms, options.collectives)
    algorithms = [name for name in options.names if name != "native"]
    mpis = [host.name for host in options.hosts]
    if len(set(mpis)) < len(mpis):
        raise CommandError(f"--mpi {options.mpi}: give each MPI a name of its own, as in NAME=PREFIX")
    if not algorithms or len(split_list(options.algorithms)) != len(algorithms):
        raise CommandError(f"--algorithms {options.algorithms}: name offbeat's algorithms, each once")

    board = Board()
    measure(board, plans_for(options, ["balanced"]), {}, options.hosts, options.repeats)
    natives: dict[int, dict[Call, float]] = defaultdict(dict)
    for ranks, collective in itertools.product(options.ranks, options.collectives):
        for size in options.sizes if collective != "barrier" else [0]:
            best = board.best_native(Key(collective, ranks, "balanced", 0.0, size, "native", ""), mpis)
            if best is not None:
                natives[ranks][Call(collective, size)] = best
    skewed = [pattern for pattern in options.patterns if pattern != "balanced"]
    if skewed:
        measure(board, plans_for(options, skewed), natives, options.hosts, options.repeats)

    report = Report(board, mpis, options.sizes, algorithms)
    console = Console(width=200, highlight=False)
    console.print(f"{machine.description()['processor']}, {machine.cores()} cores")
    for host in options.hosts:
        settings = "".join(f" {variable}={value}" for variable, value in host.settings.items())
        console.print(f"{host.name}: {host.install}{settings}")
    for collective, ranks in itertools.product(options.collectives, options.ranks):
        for pattern in ["balanced", *skewed]:
            for skew in options.skews if pattern != "balanced" else [0.0]:
                for algorithm in algorithms:
                    console.print(report.table(collective, ranks, pattern, skew, algorithm))
    finish(console, board, report, options.hosts, results)


def finish(
    console: Console,
    board: Board,
    report: Report,
    hosts: Sequence[Host],
    results: result_file.ResultFile,
) -> None:
    console.print(LEGEND)
    for key in sorted(board.cut, key=str):
        console.print(
            f"cut: {key.collective}, {key.ranks} ranks, {key.pattern} {key.skew:g}, "
            f"{format_size(key.size_bytes)}, {key.algorithm} under {key.mpi}"
        )
    for line in board.wrong:
        console.print(f"WRONG: {line}")
    console.print(f"{len(report.missed)} targets missed")
    for line in report.missed:
        console.print(f"missed: {line}")
    cells = [
        {**asdict(key), "few_samples": key in board.cut, "passes_us": delays}
        for key, delays in board.delays_us.items()
    ]
    mpis = [result_file.mpi(host.name, host.install.prefix) for host in hosts]
    results.write(cells, mpis, missed=report.missed, wrong=board.wrong)
    if board.wrong:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except CommandError as error:
        sys.exit(f"board.py: {error}")
