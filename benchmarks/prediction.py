#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Predict how long programs run under each allreduce algorithm, then run them, and compare the orders.

    build/venv/bin/python benchmarks/prediction.py [--programs examl,petsc] [--libraries FOLDER] [--json]

The programs are those of tests/clients (`./test --clients` installs them). This benchmarks the algorithms at
the sizes of the program, traces the program under each algorithm in turn, and predicts from the first native
trace. *Communicating* is the sum of the last delays of all allreduces. For short collectives it shows the
order better than the run, most of which is computation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offbeat import trace
from offbeat.predict import confirmation, delays, prediction
from offbeat.trace import COLLECTIVES, metrics

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tools")]

import examl  # noqa: E402
import harness  # noqa: E402
import result_file  # noqa: E402

COLLECTIVE = "allreduce"
ALGORITHMS = ("native", "arrival_tree", "recursive_doubling", "ring")
PATTERNS = "balanced,first_delayed,last_delayed,random"


@dataclass(frozen=True)
class Program:
    """A program, and the MPI of tests/mpi/harness.py that it is linked to."""

    mpi: str
    command: Sequence[str]
    sizes: str  # those of its allreduces, for the benchmark
    python_path: str = ""


@dataclass(frozen=True)
class Line:
    """One algorithm. Measured times are medians over the runs."""

    algorithm: str
    predicted_run_s: float
    predicted_communicating_s: float
    runs_s: list[float]
    communicating_s: list[float]


def program_named(name: str) -> Program:
    if name == "examl":
        command = examl.build("openmpi", harness.MPIS["openmpi"].cc).command("run", "e")
        return Program("openmpi", command, "8,16,64,256,1KiB")
    if name == "petsc":
        (path,) = Path("/usr/lib/petscdir").glob("petsc3*/*-real/lib/python3/dist-packages")
        solver = ROOT / "tests" / "clients" / "petsc_cg.py"
        return Program("debian-openmpi", ["/usr/bin/python3", str(solver), "200"], "8,16,24", str(path))
    if name == "lammps":
        melt = ROOT / "tests" / "clients" / "in.melt"
        return Program("debian-openmpi", ["lmp", "-in", str(melt), "-log", "none"], "4,8,48,1KiB")
    raise SystemExit(f"unknown program {name}; there are examl, petsc and lammps")


class Laboratory:
    """Runs jobs of one program in one folder."""

    def __init__(self, program: Program, ranks: int, libraries: Path, folder: Path) -> None:
        self._program = program
        self._ranks = ranks
        self._libraries = libraries
        self._folder = folder

    def traced(self, algorithm: str, name: str) -> Path:
        """A trace of the program under an algorithm; `native` is without offbeat's collectives."""
        saved = self._folder / name
        cwd = self._folder / f"{name}.files"
        cwd.mkdir()
        mpi = harness.MPIS[self._program.mpi]
        libraries = [str(self._libraries / f"liboffbeat-trace-{mpi.preload}.so")]
        environment = {"OFFBEAT_TRACE": str(saved)}
        if algorithm != "native":
            libraries.append(str(self._libraries / f"liboffbeat-{mpi.preload}.so"))
            environment[f"OFFBEAT_{COLLECTIVE.upper()}"] = algorithm
        environment["LD_PRELOAD"] = ":".join(libraries)
        if self._program.python_path:
            environment["PYTHONPATH"] = self._program.python_path
        harness.run(
            mpi, self._ranks, [*self._program.command], preload=False, environment=environment, cwd=cwd,
            timeout=600,
        ).succeeded()  # fmt: skip
        return saved

    def benchmark(self, budget_s: float) -> Path:
        """The last delays of the algorithms at the sizes of the program."""
        mpi = harness.MPIS[self._program.mpi]
        file = self._folder / "bench.json"
        ours = ",".join(name for name in ALGORITHMS if name != "native")
        command = [
            sys.executable, "-m", "offbeat", "bench", "-n", str(self._ranks), "--sizes", self._program.sizes,
            "--algorithms", ours, "--patterns", PATTERNS, "--budget", str(budget_s), "--json", str(file),
            "--mpi", str(mpi.prefix or "openmpi-4"), "--mpirun-args", " ".join(mpi.options),
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, **mpi.environment}, stdout=sys.stderr)
        return file


def communicating_s(calls: metrics.Calls) -> float:
    """The sum of the last delays of all complete calls of the collective."""
    table = calls.whole
    mine = table[table["collective"] == COLLECTIVES.index(COLLECTIVE)]
    return float((mine["end"] - mine["last"]).sum()) / 1e9


def compare(laboratory: Laboratory, ranks: int, repeats: int, budget_s: float) -> list[Line]:
    file = laboratory.benchmark(budget_s)
    runs: dict[str, list[float]] = defaultdict(list)
    communicating: dict[str, list[float]] = defaultdict(list)
    first: metrics.Calls | None = None
    for repeat in range(repeats):
        for algorithm in ALGORITHMS:
            folder = laboratory.traced(algorithm, f"{algorithm}-{repeat}.trace")
            calls = metrics.collect(trace.read(folder))
            first = first or calls
            runs[algorithm].append(confirmation.MeasuredRun.of(calls).run_s)
            communicating[algorithm].append(communicating_s(calls))
    assert first is not None
    hosts = len(set(first.trace.hosts.values()))
    predicted = prediction.predict(first, delays.read(file, ranks, hosts))
    (of_collective,) = [each for each in predicted.collectives if each.collective == COLLECTIVE]
    return [
        Line(each.name, each.run_s, each.communicating_s, runs[each.name], communicating[each.name])
        for each in of_collective.algorithms
        if each.name in runs
    ]


def show(name: str, lines: Sequence[Line]) -> None:
    columns: dict[str, list[float]] = {
        "run, predicted (s)": [line.predicted_run_s for line in lines],
        "run, measured (s)": [statistics.median(line.runs_s) for line in lines],
        "communicating, predicted (ms)": [1e3 * line.predicted_communicating_s for line in lines],
        "communicating, measured (ms)": [1e3 * statistics.median(line.communicating_s) for line in lines],
    }
    print(f"\n{name}\n\n| algorithm | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for line, *numbers in zip(lines, *columns.values(), strict=True):
        print(f"| `{line.algorithm}` | " + " | ".join(f"{number:.4g}" for number in numbers) + " |")
    for title, numbers in columns.items():
        order = sorted(range(len(lines)), key=numbers.__getitem__)
        print(f"\n{title}: " + " < ".join(lines[k].algorithm for k in order), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", default="examl,petsc", help="of examl, petsc, lammps; default: %(default)s"
    )
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs under each algorithm; default: %(default)s"
    )
    parser.add_argument("--budget", type=float, default=60, help="seconds of each benchmark; default: 60")
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "dev", help="default: build/dev")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    cells: list[dict[str, Any]] = []
    mpis: dict[str, dict[str, str]] = {}
    for name in arguments.programs.split(","):
        program = program_named(name)
        before = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="offbeat-prediction-") as folder:
            laboratory = Laboratory(program, arguments.ranks, arguments.libraries.resolve(), Path(folder))
            lines = compare(laboratory, arguments.ranks, arguments.repeats, arguments.budget)
        load = [before, os.getloadavg()[0]]
        show(f"{name}, {arguments.ranks} ranks, load {load[0]:.1f} before and {load[1]:.1f} after", lines)
        about = {"program": name, "mpi": program.mpi, "ranks": arguments.ranks}
        cells += [about | asdict(line) for line in lines]
        mpis[program.mpi] = result_file.mpi_of_launcher(program.mpi, harness.MPIS[program.mpi].mpirun)
        results.write_part(cells, list(mpis.values()))  # a run takes minutes
    results.write(cells, list(mpis.values()))


if __name__ == "__main__":
    main()
