#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what rules `A | B` cost against the best fixed choice.

    build/venv/bin/python benchmarks/adaptation.py [--mpi openmpi,mpich,impi] [--libraries build/dev] [--json]

This compiles adaptation.c, which runs each of its programs with A, with B and with `A | B` in turn, in many
rounds of one job. The best fixed choice takes the faster alternative of each kind of calls, by the medians
over the rounds. The table has these columns:

- the medians over the rounds of the sums of the last delays, in milliseconds, of A, B and `A | B`
- more: how far the median of `A | B` is above that of the best, and a 90% interval (bootstrap over rounds)
- counted: what the slower alternative cost in `A | B`: its calls in the mean round, times how much longer
  each takes. A lost time slice changes this figure little.
- slower: the share of these calls
- pinned: in how many rounds the last call ran the slower alternative

The JSON file has the values of each round.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
import result_file  # noqa: E402

SOURCE = Path(__file__).resolve().with_suffix(".c")
LINE = re.compile(r"^\d+ (\d), (.+): (\d+) (\d+\.\d+) (\d+) (\d)$", re.M)
PROGRAMS = {"mixed": 1.0, "short": 2.0, "change": 0.8}  # name: its calls, as a multiple of --calls
COLLECTIVES = ("bcast", "allgather", "alltoall")
BOTH = 2  # index of `A | B`; 0 and 1 are the alternatives


@dataclass
class Kind:
    """The calls of one kind in a program: values of each round."""

    calls: int
    seconds: tuple[list[float], list[float], list[float]] = field(default_factory=lambda: ([], [], []))
    by_second: list[int] = field(default_factory=list)  # calls that B ran, of those with `A | B`
    last_by_second: list[int] = field(default_factory=list)

    def median(self, way: int, rounds: list[int]) -> float:
        return statistics.median(self.seconds[way][k] for k in rounds)

    def best(self, rounds: list[int]) -> int:
        return min((0, 1), key=lambda way: self.median(way, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="mpich", help="MPIs of tests/mpi/harness.py (default: mpich)")
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "dev", help="default: build/dev")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument("--calls", type=int, default=10_000, help="calls of a program (default: 10000)")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each program (default: 25)")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="default: %(default)s")
    parser.add_argument("--alternatives", default="arrival_direct | native", help="default: %(default)s")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpis = [result_file.mpi_of_launcher(name, harness.MPIS[name].mpirun) for name in arguments.mpi.split(",")]
    harness.use_libraries(arguments.libraries)
    first, second = (alternative.strip() for alternative in arguments.alternatives.split("|"))

    cells: list[dict[str, object]] = []
    for name in arguments.mpi.split(","):
        for program in arguments.programs.split(","):
            calls = int(arguments.calls * PROGRAMS[program])
            found = measure(
                harness.MPIS[name], arguments.ranks, [program, calls, arguments.rounds, first, second]
            )
            cells += [
                {"mpi": name, "ranks": arguments.ranks, "program": program, "calls": of_kind.calls,
                 "kind": kind, "rule": f"{first} | {second}", "first_s": of_kind.seconds[0],
                 "second_s": of_kind.seconds[1], "both_s": of_kind.seconds[BOTH],
                 "calls_by_second": of_kind.by_second, "last_by_second": of_kind.last_by_second}
                for kind, of_kind in found.items()
            ]  # fmt: skip
            show(f"{name}, {program}, {calls} calls, {arguments.ranks} ranks", found, first, second)
    results.write(cells, mpis)


def measure(mpi: harness.Mpi, ranks: int, arguments: list[object]) -> dict[str, Kind]:
    compiled = harness.compile_program(mpi, SOURCE, "-O2", libraries=("-ldl",))
    found: dict[str, Kind] = {}
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules"
        rules.write_text(
            "".join(f"{each} * * * * {arguments[-2]} | {arguments[-1]}\n" for each in COLLECTIVES)
        )
        environment = {"OFFBEAT_RULES": str(rules)}
        done = harness.run(mpi, ranks, [compiled, *arguments], environment=environment, timeout=600)
    for way, name, calls, seconds, by_second, last in LINE.findall(done.succeeded().stdout):
        kind = found.setdefault(name, Kind(int(calls)))
        kind.seconds[int(way)].append(float(seconds))
        if int(way) == BOTH:
            kind.by_second.append(int(by_second))
            kind.last_by_second.append(int(last))
    return found


def show(title: str, found: dict[str, Kind], first: str, second: str) -> None:
    ways = (first, second, f"{first} | {second}")
    print(
        f"\n{title}\n{'':<16}" + "".join(f"{way[:24]:>26}" for way in ways) + f"{'more':>24}"
        f"{'counted':>10}{'slower':>9}{'pinned':>8}"
    )
    for name, kind in found.items():
        print(row(name, [kind]))
    print(row("all", list(found.values())), flush=True)


def row(name: str, kinds: list[Kind]) -> str:
    rounds = list(range(len(kinds[0].by_second)))
    draw = random.Random(1)
    again = sorted(more(kinds, draw.choices(rounds, k=len(rounds))) for _ in range(200))
    counted, slower, pinned = 0.0, 0.0, 0
    for kind in kinds:
        best = kind.best(rounds)
        loss = (kind.median(1 - best, rounds) - kind.median(best, rounds)) / kind.calls
        calls = statistics.mean(kind.by_second)
        calls = kind.calls - calls if best == 1 else calls
        counted += calls * loss
        slower += calls
        pinned += sum(last == 1 - best for last in kind.last_by_second)
    total = sum(kind.median(kind.best(rounds), rounds) for kind in kinds)
    medians = "".join(
        f"{1e3 * sum(kind.median(way, rounds) for kind in kinds):>26.3f}" for way in (0, 1, BOTH)
    )
    measured = f"{more(kinds, rounds):.1%} ({again[10]:.1%} to {again[-11]:.1%})"
    share = slower / sum(kind.calls for kind in kinds)
    return (
        f"{name:<16}{medians}{measured:>24}{counted / total:>10.1%}{share:>9.1%}"
        f"{f'{pinned}/{len(rounds) * len(kinds)}':>8}"
    )


def more(kinds: list[Kind], rounds: list[int]) -> float:
    best = sum(kind.median(kind.best(rounds), rounds) for kind in kinds)
    return sum(kind.median(BOTH, rounds) for kind in kinds) / best - 1


if __name__ == "__main__":
    main()
