#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare offbeat bench with IMB-MPI1. Both measure MPI_Allreduce of Intel MPI, in turn.

    build/venv/bin/python benchmarks/against_imb.py

There are two ranks, each on its own core, that arrive together and use the same buffers in every call, as in
IMB. For each size this prints the medians over the repeats, and the median of the ratios of neighbouring
runs: the time of offbeat bench divided by that of IMB. There are many short runs, because a mean over a long
run includes every moment in which a rank lost its core.

Then against_imb.c measures the same calls both ways, in turn, in one process.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import result_file
from offbeat.bench import runner
from offbeat.bench.plan import Plan
from offbeat.errors import CommandError
from offbeat.mpi import discovery, libraries
from offbeat.mpi.choice import Choice
from offbeat.mpi.install import MpiInstall
from offbeat.units import format_size

SOURCE = Path(__file__).resolve().parent / "against_imb.c"
PREFIX = SOURCE.parent.parent / "build" / "mpi" / "impi"
SIZES = [4, 64, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
ROW = re.compile(r"^ +(\d+) +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)  # bytes, ..., t_avg
PLACED = {"I_MPI_FABRICS": "shm", "I_MPI_PIN_DOMAIN": "core"}
LIMIT_S = 120


def by_imb(install: MpiInstall, sizes: list[int], seconds: float) -> dict[int, float]:
    """IMB's t_avg: the mean over all calls and ranks, in microseconds."""
    environment = {**os.environ, **PLACED}
    environment.update(install.environment(environment))
    with tempfile.NamedTemporaryFile("w", suffix=".sizes") as lengths:
        lengths.write("".join(f"{size}\n" for size in sizes))
        lengths.flush()
        command = [str(install.mpirun), "-n", "2", str(install.prefix / "bin" / "IMB-MPI1"), "Allreduce"]
        command += ["-npmin", "2", "-msglen", lengths.name, "-time", f"{seconds / len(sizes):.2f}"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    found = {int(size): float(average) for size, average in ROW.findall(done.stdout)}
    if done.returncode != 0 or any(size not in found for size in sizes):
        sys.exit(f"IMB-MPI1 ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return found


def by_offbeat(install: MpiInstall, sizes: list[int], seconds: float) -> dict[int, float]:
    """The median of the last delay of ``native``, in microseconds."""
    plan = Plan(2, sizes, ["native"], budget_s=seconds, same_buffers=True)
    found = runner.measure(plan, Choice(install, "", PLACED))
    if found.missing():
        sys.exit(f"not measured within {seconds} s: {found.missing()}")
    return {result.cell.size_bytes: result.last_delay.median for result in found.results}


def by_all_ways(install: MpiInstall, sizes: list[int], rounds: int) -> dict[int, list[float]]:
    """Microseconds by size: IMB's way, IMB's way with a pause before each call, and offbeat bench's way."""
    environment = {**os.environ, **PLACED}
    environment.update(install.environment(environment))
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "against_imb"
        compiler = str(install.prefix / "bin" / "mpicc")
        subprocess.run([compiler, "-O2", str(SOURCE), "-o", str(binary)], env=environment, check=True)
        command = [str(install.mpirun), "-n", "2", str(binary), str(rounds), *map(str, sizes)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
    rows = [line.split() for line in done.stdout.splitlines()]
    return {int(size): list(map(float, times)) for size, *times in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--impi", default=str(PREFIX), help="prefix with Intel MPI and IMB-MPI1")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=2, help="longest time of one run (2)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each way in one process (15)")
    parser.add_argument("--libraries", type=Path, help="take offbeat's compiled files from this build folder")
    result_file.add_option(parser)
    options = parser.parse_args()
    results = result_file.ResultFile(options.json)
    if options.libraries is not None:
        libraries.prefer_folder(options.libraries)
    install = discovery.select(options.impi, {})
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    runs = [("imb", by_imb), ("offbeat", by_offbeat)]
    for repeat in range(options.repeats):
        for name, measure in runs if repeat % 2 == 0 else reversed(runs):
            for size, microseconds in measure(install, SIZES, options.seconds).items():
                times[name, size].append(microseconds)
    print(f"{install}\n{'size':>10} {'IMB, µs':>10} {'offbeat, µs':>12} {'ratio':>6}  range")
    for size in SIZES:
        imb, ours = times["imb", size], times["offbeat", size]
        ratios = sorted(mine / theirs for mine, theirs in zip(ours, imb, strict=True))
        print(
            f"{format_size(size):>10} {statistics.median(imb):>10.2f} {statistics.median(ours):>12.2f} "
            f"{statistics.median(ratios):>6.2f}  {ratios[0]:.2f} .. {ratios[-1]:.2f}"
        )
    print(f"\nin one process, µs\n{'size':>10} {'barrier':>10} {'pause':>10} {'instant':>10}")
    in_one_process = by_all_ways(install, SIZES, options.rounds)
    for size, waited in in_one_process.items():
        print(f"{format_size(size):>10}", *(f"{time:>10.2f}" for time in waited))
    cells = [
        {"size_bytes": size, "imb_us": times["imb", size], "offbeat_us": times["offbeat", size],
         **dict(zip(("barrier_us", "pause_us", "instant_us"), in_one_process[size], strict=True))}
        for size in SIZES
    ]  # fmt: skip
    results.write(cells, [result_file.mpi(install.name, install.prefix)])


if __name__ == "__main__":
    try:
        main()
    except CommandError as error:
        sys.exit(f"against_imb.py: {error}")
