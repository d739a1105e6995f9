#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what `offbeat rules export` brings to a program that runs without offbeat.

    build/venv/bin/python benchmarks/exported.py [--mpi openmpi,mpich,impi] [--ranks 2] [--json]

For each collective this measures the MPI's default and all of its own algorithms with `offbeat bench` under
balanced arrival, and exports the best. Then untuned.c, a plain loop over collectives, runs on the MPI alone,
with and without the exported settings in turn. For each exported cell it prints the default's time divided by
the algorithm's, in the benchmark and in each pass of the loop. The exit code is 1 if a cell's ratio is below
0.95 in every pass.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
import result_file  # noqa: E402
from offbeat.bench import results  # noqa: E402
from offbeat.bench.plan import NATIVE  # noqa: E402
from offbeat.mpi import discovery, host_algorithms  # noqa: E402

EXPORT_NAMES = {"openmpi": "openmpi", "mpich": "mpich", "impi": "intel"}
SLOWER = 0.95
Cell = tuple[str, int]  # the collective, bytes


def bench(mpi: harness.Mpi, collective: str, arguments: argparse.Namespace, file: Path) -> None:
    """Measure the MPI's default and its own algorithms."""
    vendor = discovery.select(str(mpi.prefix), os.environ).vendor
    names = [f"native({name})" for name in host_algorithms.known_names(vendor, collective)]
    command = ["bench", "-n", str(arguments.ranks), "--mpi", str(mpi.prefix), "--collectives", collective]
    command += ["--sizes", arguments.bytes, "--patterns", "balanced", "--algorithms", ",".join(names)]
    offbeat(mpi, *command, "--budget", f"{arguments.budget}s", "--json", str(file))


def export(mpi: harness.Mpi, file: Path, folder: Path) -> tuple[dict[str, str], dict[Cell, str]]:
    """Returns the variables that the export sets, and the algorithm of each cell."""
    command = ["rules", "export", str(file), "--to", EXPORT_NAMES[mpi.name], "--objective", "balanced"]
    document = json.loads(offbeat(mpi, *command, "-o", str(folder), "--json", may_find_nothing=True))
    print(*(f"  {note}" for note in document["notes"]), sep="\n", end="\n" if document["notes"] else "")
    named = {(each["collective"], each["size_bytes"]): each["name"] for each in document["algorithms"]}
    if not named:
        return {}, {}
    (settings,) = document["settings"]
    script = f". {folder / settings}; exec env -0"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env={})
    lines = (line.split("=", 1) for line in done.stdout.split("\0") if line)
    return {name: value for name, value in lines if name not in ("PWD", "_", "SHLVL", "OLDPWD")}, named


def offbeat(mpi: harness.Mpi, *command: str, may_find_nothing: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "offbeat", *command],
        env=harness.clean_environment(mpi),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0 and not (may_find_nothing and done.returncode == 1):
        sys.exit(f"offbeat {' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def measure(
    mpi: harness.Mpi, cells: Sequence[Cell], settings: dict[str, str], arguments: argparse.Namespace
) -> dict[Cell, float]:
    """Returns the times of the MPI alone in a plain loop."""
    program = harness.compile_program(mpi, ROOT / "benchmarks" / "untuned.c", "-O2")
    sizes = ",".join(str(size) for _, size in cells)
    command = [program, cells[0][0], sizes, str(arguments.warm_up), str(arguments.calls)]
    done = harness.run(mpi, arguments.ranks, command, preload=False, environment=settings, timeout=600)
    lines = (line.split() for line in done.succeeded().stdout.splitlines())
    return {
        (name, int(size)): float(time)
        for name, size, pattern, time in lines
        if pattern == "balanced" and name == cells[0][0]
    }


def one_pass(
    mpi: harness.Mpi, cells: Sequence[Cell], settings: dict[str, str], arguments: argparse.Namespace
) -> dict[Cell, float]:
    """Returns the default's time divided by that with the export, for each cell."""
    default: dict[Cell, list[float]] = defaultdict(list)
    exported: dict[Cell, list[float]] = defaultdict(list)
    for _ in range(arguments.turns):
        for variables, times in (({}, default), (settings, exported)):
            for cell, time in measure(mpi, cells, variables, arguments).items():
                times[cell].append(time)
    return {cell: statistics.median(default[cell]) / statistics.median(exported[cell]) for cell in cells}


def predicted(file: Path, cell: Cell, name: str) -> float:
    """Returns the default's median divided by that of an algorithm, as the benchmark measured them."""
    medians = {
        result.algorithm: result.last_delay.median
        for result in results.read(file).results
        if result.status == results.MEASURED and result.cell.size_bytes == cell[1]
    }
    return medians[NATIVE] / medians[f"native({name})"]


def compare(mpi: harness.Mpi, collective: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Export the best algorithms of one collective, and measure them again in the loop."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="offbeat-exported-") as folder:
        file = Path(folder) / "native.json"
        bench(mpi, collective, arguments, file)
        settings, named = export(mpi, file, Path(folder) / "export")
        print(f"{mpi.name}, {collective}, {arguments.ranks} ranks: {len(named)} cells", flush=True)
        passes = [
            one_pass(mpi, list(named), settings, arguments) for _ in range(arguments.passes if named else 0)
        ]
        for cell, algorithm in named.items():
            expected, ratios = predicted(file, cell, algorithm), [each[cell] for each in passes]
            seen = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"  {cell[1]:>8} B {algorithm}: {expected:.2f} expected; {seen}", flush=True)
            found.append(
                {"mpi": mpi.name, "ranks": arguments.ranks, "collective": collective, "size_bytes": cell[1],
                 "algorithm": algorithm, "default_by_exported_in_bench": expected,
                 "default_by_exported": ratios}
            )  # fmt: skip
    return found


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.mean(math.log(value) for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi,mpich,impi", help="MPIs of tests/mpi/harness.py")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--collectives", default="allreduce,bcast,reduce,allgather,alltoall")
    parser.add_argument("--bytes", default="8,1KiB,16KiB,64KiB,256KiB,1MiB")
    parser.add_argument("--budget", type=int, default=40, help="seconds for each collective (default: 40)")
    parser.add_argument("--warm-up", type=int, default=50, help="calls that do not count (default: 50)")
    parser.add_argument("--calls", type=int, default=60, help="calls that count, at least (default: 60)")
    parser.add_argument("--turns", type=int, default=3, help="turns of a pass (default: 3)")
    parser.add_argument("--passes", type=int, default=2)
    result_file.add_option(parser)
    arguments = parser.parse_args()
    written = result_file.ResultFile(arguments.json)
    mpis = [result_file.mpi_of_launcher(name, harness.MPIS[name].mpirun) for name in arguments.mpi.split(",")]

    found = []
    for name in arguments.mpi.split(","):
        for collective in arguments.collectives.split(","):
            found += compare(harness.MPIS[name], collective, arguments)
    if found:
        expected = geometric_mean(each["default_by_exported_in_bench"] for each in found)
        seen = geometric_mean(ratio for each in found for ratio in each["default_by_exported"])
        print(
            f"default / exported, geometric mean of {len(found)} cells: {expected:.2f} expected; {seen:.2f}"
        )
    written.write(found, mpis)
    sys.exit(any(max(each["default_by_exported"]) < SLOWER for each in found))


if __name__ == "__main__":
    main()
