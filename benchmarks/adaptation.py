#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what rules `A | B` cost against the best fixed choice.

    build/venv/bin/python benchmarks/adaptation.py [--mpi mpich] [--libraries build/dev] [--json]

This compiles adaptation.c and runs its programs under three rules, in turn: each alternative alone, and both.
The best fixed choice takes the faster alternative of each kind of calls, by the medians over the runs. The
table has the medians of the sums of the last delays in milliseconds, and what `A | B` takes more than the
best in the same round of runs: the median, the least and the most. The JSON file has the sums of each run.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
import result_file  # noqa: E402

SOURCE = Path(__file__).resolve().with_suffix(".c")
LINE = re.compile(r"^(.+): (\d+) (\d+\.\d+)$", re.M)
PROGRAMS = {"mixed": 1.0, "short": 2.0, "change": 0.8}  # name: its calls, as a multiple of --calls
COLLECTIVES = ("bcast", "allgather", "alltoall")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="mpich", help="MPIs of tests/mpi/harness.py (default: mpich)")
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "dev", help="default: build/dev")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument("--calls", type=int, default=10_000, help="calls of a program (default: 10000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each program (default: 5)")
    parser.add_argument("--alternatives", default="arrival_direct | native", help="default: %(default)s")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    harness.use_libraries(arguments.libraries)
    each = [alternative.strip() for alternative in arguments.alternatives.split("|")]
    ways = [*each, " | ".join(each)]

    cells = []
    for name in arguments.mpi.split(","):
        for program, share in PROGRAMS.items():
            calls = int(arguments.calls * share)
            found = measure(harness.MPIS[name], arguments.ranks, program, calls, ways, arguments.repeats)
            about = {"mpi": name, "ranks": arguments.ranks, "program": program, "calls": calls}
            cells += [
                about | {"kind": kind, "rule": way, "runs_s": seconds}
                for kind, of_kind in found.items()
                for way, seconds in of_kind.items()
            ]
            show(f"{name}, {program}, {calls} calls, {arguments.ranks} ranks", found, ways)
    mpis = [result_file.mpi(name, harness.MPIS[name].prefix) for name in arguments.mpi.split(",")]
    results.write(cells, mpis)


def measure(
    mpi: harness.Mpi, ranks: int, program: str, calls: int, ways: list[str], repeats: int
) -> dict[str, dict[str, list[float]]]:
    """The sums of each run, by kind of calls and rule."""
    compiled = harness.compile_program(mpi, SOURCE, "-O2")
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules"
        for _ in range(repeats):
            for way in ways:
                rules.write_text("".join(f"{each} * * * * {way}\n" for each in COLLECTIVES))
                command = [compiled, program, str(calls)]
                environment = {"OFFBEAT_RULES": str(rules)}
                done = harness.run(mpi, ranks, command, environment=environment, timeout=600).succeeded()
                for kind, _, seconds in LINE.findall(done.stdout):
                    found[kind][way].append(float(seconds))
    return found


def show(title: str, found: dict[str, dict[str, list[float]]], ways: list[str]) -> None:
    print(f"\n{title}\n{'':<18}" + "".join(f"{way:>26}" for way in ways) + f"{'more than the best':>30}")
    best = {kind: fastest({way: of_kind[way] for way in ways[:-1]}) for kind, of_kind in found.items()}
    for kind, of_kind in found.items():
        print(row(kind, [of_kind[way] for way in ways], of_kind[best[kind]]))
    print(row("all", [add(found, dict.fromkeys(found, way)) for way in ways], add(found, best)))


def fastest(times: dict[str, list[float]]) -> str:
    return min(times, key=lambda way: statistics.median(times[way]))


def add(found: dict[str, dict[str, list[float]]], ways: dict[str, str]) -> list[float]:
    """The sums over all kinds, run by run. Each kind of calls takes its way."""
    return [sum(run) for run in zip(*(found[kind][way] for kind, way in ways.items()), strict=True)]


def row(name: str, times: list[list[float]], best: list[float]) -> str:
    """Runs are compared with their neighbours: the machine may be slower a minute later."""
    ratios = sorted(both / fixed - 1 for both, fixed in zip(times[-1], best, strict=True))
    medians = "".join(f"{1e3 * statistics.median(each):>26.3f}" for each in times)
    more = f"{statistics.median(ratios):.1%} ({ratios[0]:.0%} to {ratios[-1]:.0%})"
    return f"{name:<18}{medians}{more:>30}"


if __name__ == "__main__":
    main()
