#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare offbeat between virtual hosts of this machine with Open MPI, MPICH and Intel MPI.

    build/venv/bin/python benchmarks/nodes.py --shapes 8x1,4x2 --sizes 8,64,1KiB,64KiB,1MiB
    build/venv/bin/python benchmarks/nodes.py --shapes 8x1 --late one,random --skews 1.5 --sizes 64KiB,1MiB
    build/venv/bin/python benchmarks/nodes.py --shapes 4x2 --collectives bcast,alltoall --algorithms \
        "hierarchy(arrival_direct, binomial),hierarchy(arrival_direct, pairwise)"

This needs root. Each job (benchmarks/nodes.c) runs one MPI with one algorithm: the MPI's default, each of its
other algorithms, offbeat's choice, or an expression. Sizes are those of `offbeat bench`.

Whole passes over the jobs are repeated, so that a busy machine hits all jobs alike. The first pass only
chooses the best native algorithm for each size. The other passes measure it again, beside the default and
offbeat, and only they count: the least of ten times of one pass would be the luckiest. A skew is a multiple
of the time of the MPI's default when no rank is late.

On more than 8 hosts only sizes from 64 KiB are measured: the cores of one machine decide how long shorter
messages take.

The output ends with the ratios to the best native algorithm, and for each collective with those of offbeat's
choice to the MPI's default over all cells. It also lists results that differ between ranks or runs and, for
collectives that do not combine, between jobs. With --cost each time is followed by the
packets of all hosts and the processor time of all ranks for one call, including the barriers between batches.
"""

# ruff: noqa: E402 -- the folders of the tests come first
from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tests" / "cluster")]

import result_file
from harness import compile_program, library, use_libraries
from hosts import Cluster, HostsError, parse_shape
from launch import ON_HOSTS, on_hosts, patient, run_job
from offbeat import expressions
from offbeat.expressions import split_list
from offbeat.mpi import host_algorithms
from offbeat.units import format_size, format_us, parse_sizes
from rich.console import Console
from rich.table import Table

VENDORS = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI"}
NATIVE = "native"
MOST_HOSTS_FOR_SHORT = 8  # on more of them the network decides how long a message takes from here only:
LONG_BYTES = 64 << 10
COMBINING = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")


@dataclass(frozen=True)
class Job:
    collective: str
    shape: str
    mpi: str
    late: str  # which nodes or rank; "": none
    skew: float
    algorithm: str


@dataclass
class Found:
    """The results of one job by size: the median of each pass, the hashes of the data, and the costs."""

    passes_us: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    hashes: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    costs: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def first(self, size: int) -> float:
        return self.passes_us[size][0] if self.passes_us.get(size) else math.inf

    def counted(self, size: int) -> list[float]:
        """The passes that count: all but the first, if there are several."""
        passes = self.passes_us.get(size, [])
        return passes[1:] or passes

    def median(self, size: int) -> float | None:
        return statistics.median(self.counted(size)) if self.counted(size) else None

    def read(self, output: str) -> None:
        size = 0
        for line in output.splitlines():
            if line.startswith("cost "):
                packets, processor_us = map(float, line.split()[1:])
                self.costs[size].append((packets, processor_us))
                continue
            length, before, *samples, after = line.split()
            size = int(length)
            self.passes_us[size].append(statistics.median(map(float, samples)))
            self.hashes[size] |= {before, after}

    def cost(self, size: int) -> str:
        if not self.costs[size]:
            return ""
        packets, processor_us = (statistics.median(values) for values in zip(*self.costs[size], strict=True))
        return f" ({packets:.0f} packets, {format_us(processor_us)})"


def native(job: Job) -> Job:
    return replace(job, algorithm=NATIVE)


def is_forced(job: Job) -> bool:
    return job.algorithm.startswith("native(")


def sizes_of(options: argparse.Namespace, collective: str, shape: str) -> list[int]:
    sizes: list[int] = [0] if collective == "barrier" else options.sizes
    least = LONG_BYTES if len(parse_shape(shape)) > MOST_HOSTS_FOR_SHORT else 0
    return [size for size in sizes if size >= least]


def settings(job: Job) -> dict[str, str]:
    name = host_algorithms.name_in(job.algorithm)
    if name and host_algorithms.is_native(job.algorithm):
        return host_algorithms.variables(VENDORS[ON_HOSTS[job.mpi].kind], job.collective, name)
    if job.algorithm in (NATIVE, "default"):
        return {}
    return {f"OFFBEAT_{job.collective.upper()}": job.algorithm}


class Measurement:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[Job, Found] = defaultdict(Found)
        self.failed: list[str] = []

    def passes(self, jobs: list[Job]) -> None:
        for number in range(self.options.repeats):
            for job in jobs:
                self.measure(job)
            print(f"pass {number + 1} of {self.options.repeats}: {len(jobs)} jobs", file=sys.stderr)

    def measure(self, job: Job) -> None:
        shape = parse_shape(job.shape)
        sizes = [
            size for size in sizes_of(self.options, job.collective, job.shape) if self.is_wanted(job, size)
        ]
        if not sizes:
            return
        with Cluster(len(shape)) as cluster:
            mpi = on_hosts(job.mpi, cluster, shape)
            program = compile_program(mpi, ROOT / "benchmarks" / "nodes.c")
            cluster.shape(self.options.rate, self.options.delay)
            patience = {} if self.options.polling else patient(mpi)
            for some in [[size] for size in sizes] if job.late else [sizes]:
                arguments = [job.collective, ",".join(map(str, some)), str(self.options.seconds)]
                if job.late:
                    on_time = self.found[native(replace(job, late="", skew=0))].median(some[0])
                    if on_time is None:
                        continue
                    arguments += [job.late, f"{job.skew * on_time:.0f}"]
                libraries = [patience.get("LD_PRELOAD")]
                if not host_algorithms.is_native(job.algorithm):
                    libraries.append(str(library(mpi.preload)))
                preloads = {"LD_PRELOAD": ":".join(filter(None, libraries))} if any(libraries) else {}
                if self.options.cost:
                    preloads["NODES_COST"] = "1"
                try:
                    result = run_job(
                        mpi,
                        [program, *arguments],
                        preload=False,
                        environment=settings(job) | patience | preloads,
                        timeout=60 + 4 * self.options.seconds * len(some),
                    ).succeeded()
                    self.found[job].read(result.stdout)
                except AssertionError as error:
                    self.failed.append(f"failed: {job}: {str(error).splitlines()[0]}")
                    cluster.empty()

    def is_wanted(self, job: Job, size: int) -> bool:
        """Whether to measure a job in this pass. After the first, only the best forced algorithm counts."""
        is_new = not self.found[job].passes_us.get(size)
        return is_new or not is_forced(job) or job == self.best_native(job, size)

    def best_native(self, job: Job, size: int) -> Job:
        natives = [
            other
            for other in self.found
            if host_algorithms.is_native(other.algorithm) and replace(other, algorithm=job.algorithm) == job
        ]
        return min(natives, key=lambda other: self.found[other].first(size))


def jobs_of(options: argparse.Namespace, late: str, skew: float) -> list[Job]:
    made = []
    for collective, shape, mpi in itertools.product(options.collectives, options.shapes, options.mpi):
        names = host_algorithms.known_names(VENDORS[ON_HOSTS[mpi].kind], collective) if options.forced else []
        # Algorithms for one node fail between nodes, or fall back to another algorithm.
        forced = [f"native({name})" for name in names if not name.startswith("shm")]
        served = [text for text in options.algorithms if serves(text, collective)]
        for algorithm in [NATIVE, *forced, *served]:
            made.append(Job(collective, shape, mpi, late, skew, algorithm))
    return made


def serves(algorithm: str, collective: str) -> bool:
    return algorithm == "default" or expressions.serves(algorithm, collective)


def tables(console: Console, options: argparse.Namespace, measured: Measurement) -> None:
    for _, jobs in itertools.groupby(measured.found, key=lambda job: replace(job, algorithm="")):
        console.print(table(options, measured, list(jobs)))
    for line in [*against_defaults(measured), *different_bits(measured), *measured.failed]:
        console.print(line)


def against_defaults(measured: Measurement) -> list[str]:
    """One line for each collective: offbeat's choice against the MPI's default, over all cells."""
    ratios: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for job, found in measured.found.items():
        if job.algorithm != "default":
            continue
        for size in found.passes_us:
            mine, theirs = found.median(size), measured.found[native(job)].median(size)
            if mine and theirs:
                where = f"{job.mpi}, {job.shape}, {format_size(size)}" + (", late" if job.late else "")
                ratios[job.collective].append((mine / theirs, where))
    return [
        f"{collective}: {len(cells)} cells; offbeat takes {math.exp(mean_log(cells)):.2f} of the default's "
        f"time (geometric mean), at most {max(cells)[0]:.2f} ({max(cells)[1]})"
        for collective, cells in ratios.items()
    ]


def mean_log(cells: list[tuple[float, str]]) -> float:
    return statistics.fmean(math.log(ratio) for ratio, _ in cells)


def table(options: argparse.Namespace, measured: Measurement, jobs: list[Job]) -> Table:
    """The table of one collective under one MPI on one shape."""
    first = jobs[0]
    title = f"{first.collective}, {first.mpi}, {first.shape}"
    title += f", {first.late} late by {first.skew:g} x native" if first.late else ""
    made = Table("size", "native", "best native", title=title, title_justify="left", box=None)
    offbeats = [job for job in jobs if not host_algorithms.is_native(job.algorithm)]
    for job in offbeats:
        made.add_column(job.algorithm, justify="right")
    for size in sizes_of(options, first.collective, first.shape):
        found = {job: measured.found[job].median(size) for job in jobs}
        best = measured.best_native(first, size)
        best_us = found[best]
        if best_us is None:
            continue
        default_us = found.get(native(first))
        row = [format_us(default_us) if default_us else "-"]
        name = host_algorithms.name_in(best.algorithm) or "default"
        row.append(f"{format_us(best_us)} {name}{measured.found[best].cost(size)}")
        for job in offbeats:
            us = found[job]
            passes = measured.found[job].counted(size)
            spread = f" ±{50 * (max(passes) - min(passes)) / us:.0f}%" if us else ""
            cost = measured.found[job].cost(size)
            row.append(f"{format_us(us)}{spread} {us / best_us:.2f}{cost}" if us else "-")
        made.add_row(format_size(size), *row)
    return made


def different_bits(measured: Measurement) -> list[str]:
    """One line for each of offbeat's jobs whose results differ."""
    lines = []
    whatever_moves: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for job, found in measured.found.items():
        for size, hashes in found.hashes.items():
            same = hashes
            if job.collective not in COMBINING:
                same = whatever_moves[job.collective, job.shape, size]
                same |= hashes
            wrong = len(same) > 1 or any(text.startswith("DIFFERENT") for text in hashes)
            if wrong and not host_algorithms.is_native(job.algorithm):
                lines.append(f"DIFFERENT BITS: {job}, {size} bytes: {', '.join(sorted(same))}")
    return lines


def parse() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return text.split(",") if text else []

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collectives", type=words, default=["allreduce"])
    parser.add_argument("--shapes", type=words, default=["8x1", "4x2", "5x2", "10x1", "12x1", "16x1"])
    parser.add_argument("--mpi", type=words, default=list(VENDORS))
    parser.add_argument(
        "--sizes", type=parse_sizes, default=parse_sizes("8,64,1KiB,8KiB,64KiB,256KiB,1MiB,16MiB")
    )
    parser.add_argument("--algorithms", type=split_list, default=["default"], help="offbeat's algorithms")
    parser.add_argument(
        "--no-forced", dest="forced", action="store_false", help="measure only the MPI's default algorithm"
    )
    parser.add_argument("--late", type=words, default=[], help="of one, two, half, random, ascending, rank")
    parser.add_argument(
        "--skews", type=lambda text: [float(word) for word in words(text)], default=[0.5, 1.5, 10]
    )
    parser.add_argument("--rate", type=float, default=200, help="Mbit/s of each host (200)")
    parser.add_argument("--delay", type=float, default=100, help="microseconds of each message (100)")
    parser.add_argument("--seconds", type=float, default=1, help="time for each size of a job (1)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--polling", action="store_true", help="let MPIs poll, as if each rank had a core")
    parser.add_argument("--cost", action="store_true", help="also show packets and processor time of a call")
    parser.add_argument("--libraries", type=Path, help="take the preload libraries from this build folder")
    result_file.add_option(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    results = result_file.ResultFile(options.json)
    if options.libraries:
        use_libraries(options.libraries)
    measured = Measurement(options)
    is_complete = True
    try:
        measured.passes(jobs_of(options, "", 0))
        for late in options.late:
            for skew in options.skews:
                measured.passes(jobs_of(options, late, skew))
    except KeyboardInterrupt:
        print("interrupted: results so far", file=sys.stderr)
        is_complete = False
    tables(Console(width=200, highlight=False), options, measured)
    cells = [
        {**vars(job), "size_bytes": size, "first_pass_us": passes[0], "passes_us": found.counted(size)}
        | ({"packets_and_processor_us": found.costs[size]} if found.costs[size] else {})
        for job, found in measured.found.items()
        for size, passes in found.passes_us.items()
    ]
    mpis = [result_file.mpi(name, ON_HOSTS[name].prefix) for name in options.mpi]
    wrong = different_bits(measured)
    hosts = {"rate_mbit_per_s": options.rate, "delay_us": options.delay}
    about = {"hosts": hosts, "wrong": wrong, "failed": measured.failed}
    if is_complete:
        results.write(cells, mpis, **about)
    else:
        results.write_part(cells, mpis, **about)


if __name__ == "__main__":
    try:
        main()
    except HostsError as error:
        sys.exit(f"nodes.py: {error}")
