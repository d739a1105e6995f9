#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run IMB-MPI1 and IMB-NBC under three MPIs, natively and with offbeat in turn.

    build/venv/bin/python benchmarks/imb.py FOLDER

FOLDER holds Intel's sources, https://github.com/intel/mpi-benchmarks. They are compiled for each MPI into
build/imb. The default is all collectives of offbeat but scan and exscan. A run is one collective of one of
the two programs. Runs without and with the preload take turns, and whole passes are repeated. The report of
offbeat shows that it served the calls.

This prints native time / time with offbeat (t_avg of IMB-MPI1, t_pure and t_ovrl of IMB-NBC), and the overlap
that IMB-NBC finds, in percent, as native → offbeat.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import result_file
from board import PREFIXES, placed
from offbeat.errors import CommandError
from offbeat.mpi import discovery, libraries
from offbeat.mpi.install import MpiInstall
from offbeat.units import format_size, format_us, parse_sizes

BUILD = Path(__file__).resolve().parent.parent / "build" / "imb"
COLLECTIVES = [
    "Allreduce", "Reduce", "Bcast", "Barrier", "Allgather", "Allgatherv", "Reduce_scatter",
    "Reduce_scatter_block", "Alltoall", "Alltoallv", "Gather", "Scatter",
]  # fmt: skip
BLOCKING, NON_BLOCKING = "IMB-MPI1", "IMB-NBC"
NOT_IN_NBC = {"Reduce_scatter_block"}
# The last columns of a row. IMB-MPI1 has t_min, t_max, t_avg; IMB-NBC has t_ovrl, t_pure, t_CPU, overlap.
COLUMNS = {BLOCKING: ["t_avg"], NON_BLOCKING: ["t_ovrl", "t_pure", "t_CPU", "overlap"]}
SERVED = re.compile(r"offbeat: (\w+): \d+ calls intercepted, (\d+) served")
LIMIT_S = 300


@dataclass(frozen=True)
class Job:
    """One run of a program. With a size and a column, one number in its output."""

    program: str
    collective: str
    mpi: str
    preloaded: bool
    size_bytes: int = 0
    column: str = ""


def compile_for(install: MpiInstall, sources: Path) -> Path:
    """Compile both programs for an MPI. Returns their folder."""
    folder = BUILD / re.sub(r"\W+", "-", install.name)
    if not all((folder / program).is_file() for program in COLUMNS):
        shutil.copytree(sources, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.o", ".git"))
        environment = dict(os.environ)
        environment.update(install.environment(environment))
        compilers = {f"{name}={install.prefix / 'bin' / script}" for name, script in
                     (("CC", "mpicc"), ("CXX", "mpicxx"))}  # fmt: skip
        for program in COLUMNS:
            done = subprocess.run(
                ["make", "-C", str(folder), program, *compilers],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise CommandError(f"{program} does not compile for {install}:\n{done.stderr[-2000:]}")
    return folder


def rows(output: str, program: str) -> dict[int, dict[str, float]]:
    """The last columns of each row of the output, by size in bytes (0: barrier)."""
    columns = COLUMNS[program]
    found = {}
    for line in output.splitlines():
        if re.fullmatch(r"[\s\d.]+", line) and len(fields := line.split()) > len(columns):
            has_bytes = len(fields) == {BLOCKING: 5, NON_BLOCKING: 6}[program]
            size = int(fields[0]) if has_bytes else 0
            found[size] = dict(zip(columns, map(float, fields[-len(columns) :]), strict=True))
    return found


class Measurement:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[Job, list[float]] = defaultdict(list)
        self.failed: list[str] = []

    def run(self, job: Job, install: MpiInstall, folder: Path) -> None:
        arguments, variables = placed(install, self.options.ranks)
        environment = {**os.environ, **variables, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
        environment.update(install.environment(environment))
        name = job.collective if job.program == BLOCKING else f"I{job.collective.lower()}"
        with tempfile.NamedTemporaryFile("w", suffix=".sizes") as lengths:
            lengths.write("".join(f"{size}\n" for size in self.options.sizes))
            lengths.flush()
            preload = ["env", f"LD_PRELOAD={libraries.preload_library(install.preload)}", "OFFBEAT_REPORT=1"]
            command = [
                str(install.mpirun), *arguments, "-n", str(self.options.ranks), *(preload * job.preloaded),
                str(folder / job.program), name, "-npmin", str(self.options.ranks),
                "-msglen", lengths.name, "-time", str(self.options.seconds),
            ]  # fmt: skip
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
                )
            except subprocess.TimeoutExpired:
                self.failed.append(f"not over within {LIMIT_S} s: {job}")
                return
        by_size = rows(done.stdout, job.program)
        if done.returncode != 0 or not by_size:
            self.failed.append(
                f"exit code {done.returncode}: {job}\n{done.stdout[-500:]}{done.stderr[-500:]}"
            )
            return
        served = {found[1]: int(found[2]) for found in SERVED.finditer(done.stdout + done.stderr)}
        if job.preloaded and not served.get(job.collective.lower()):
            self.failed.append(f"not served: {job}")
        for size, columns in by_size.items():
            for column, value in columns.items():
                self.found[Job(job.program, job.collective, job.mpi, job.preloaded, size, column)].append(
                    value
                )

    def median(self, job: Job, size: int, column: str, *, preloaded: bool) -> float | None:
        values = self.found.get(Job(job.program, job.collective, job.mpi, preloaded, size, column))
        return statistics.median(values) if values else None

    def ratio(self, job: Job, size: int, column: str) -> float | None:
        native = self.median(job, size, column, preloaded=False)
        ours = self.median(job, size, column, preloaded=True)
        return native / ours if native and ours else None

    def print_column(self, program: str, collective: str, column: str, mpis: list[str]) -> None:
        sizes = [0] if collective == "Barrier" else self.options.sizes
        cells = []
        for mpi in mpis:
            job = Job(program, collective, mpi, preloaded=True)
            ratios = [ratio for size in sizes if (ratio := self.ratio(job, size, column))]
            mean = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
            cells.append(f"{mean} ({' '.join(f'{ratio:.2f}' for ratio in ratios)})")
        print(f"{program} {collective:<21} {column:<7} {' | '.join(cells)}")

    def print_overlap(self, collective: str, mpis: list[str]) -> None:
        sizes = [0] if collective == "Barrier" else self.options.sizes
        cells = []
        for mpi in mpis:
            job = Job(NON_BLOCKING, collective, mpi, preloaded=True)
            for size in sizes:
                pair = [self.median(job, size, "overlap", preloaded=ours) for ours in (False, True)]
                cells.append("-" if None in pair else "→".join(f"{value:.0f}" for value in pair))
            cells.append("|")
        print(f"{NON_BLOCKING} {collective:<21} overlap {' '.join(cells[:-1])}")

    def print_times(self, program: str, collective: str, column: str, mpis: list[str]) -> None:
        for size in [0] if collective == "Barrier" else self.options.sizes:
            cells = []
            for mpi in mpis:
                job = Job(program, collective, mpi, preloaded=True)
                pair = [self.median(job, size, column, preloaded=ours) for ours in (False, True)]
                medians = [value for value in pair if value is not None]
                cells.append("→".join(map(format_us, medians)) if len(medians) == 2 else "-")
            print(f"{program} {collective:<21} {format_size(size):>8} {column} {' | '.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, help="folder with Intel's sources")
    parser.add_argument("--mpi", default=",".join(map(str, PREFIXES)), help="prefixes of MPIs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=parse_sizes, default=parse_sizes("8,1KiB,16KiB,64KiB,1MiB,4MiB"))
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--programs", default=",".join(COLUMNS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=0.1, help="longest time for each size of a run (0.1)"
    )
    parser.add_argument("--times", action="store_true", help="also print times")
    parser.add_argument("--libraries", type=Path, help="take offbeat's compiled files from this build folder")
    result_file.add_option(parser)
    options = parser.parse_args()
    results = result_file.ResultFile(options.json)
    if options.libraries is not None:
        libraries.prefer_folder(options.libraries)
    installs = [discovery.select(mpi, {}) for mpi in options.mpi.split(",")]
    folders = [compile_for(install, options.sources) for install in installs]
    mpis = [install.name for install in installs]
    jobs = [
        (program, collective)
        for program in options.programs.split(",")
        for collective in options.collectives.split(",")
        if program == BLOCKING or collective not in NOT_IN_NBC
    ]
    measurement = Measurement(options)
    for number in range(options.repeats):
        for program, collective in jobs:
            for install, folder in zip(installs, folders, strict=True):
                for preloaded in (False, True):
                    measurement.run(Job(program, collective, install.name, preloaded), install, folder)
        print(f"pass {number + 1} of {options.repeats}", file=sys.stderr)

    print(f"{' | '.join(mpis)}; {options.ranks} ranks; {', '.join(map(format_size, options.sizes))}")
    print("native time / time under offbeat: geometric mean (each size)")
    for program, collective in jobs:
        columns = ["t_avg"] if program == BLOCKING else ["t_pure", "t_ovrl"]
        for column in columns:
            measurement.print_column(program, collective, column, mpis)
        if options.times:
            measurement.print_times(program, collective, columns[0], mpis)
    print("overlap, %: native→offbeat")
    for program, collective in jobs:
        if program == NON_BLOCKING:
            measurement.print_overlap(collective, mpis)
    print("\n".join(measurement.failed))
    cells = [
        {**asdict(job), "ranks": options.ranks, "passes": values} for job, values in measurement.found.items()
    ]
    used = [result_file.mpi(install.name, install.prefix) for install in installs]
    results.write(cells, used, failed=measurement.failed)


if __name__ == "__main__":
    try:
        main()
    except CommandError as error:
        sys.exit(f"imb.py: {error}")
