#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare what offbeat tune chooses with the built-in rules and with an exhaustive search of the same cells.

    build/venv/bin/python benchmarks/tuned.py --mpi embedded -n 2,4 --bytes 8..8MiB --budget 600 --json

For each number of ranks this tunes, measures all candidates that rules may have in all cells for
--exhaustive seconds, and then measures native, the built-in choice and both winners again for --fresh
seconds. All figures are from the last step, which chose nothing. A score is the mean over the arrival
patterns of the delay divided by the least delay of the four.

The exit code is 1 if a target is missed: the exhaustive winner is more than 5% better than the tuned one in
more than one race in twenty, a tuned choice takes more than 1 / 0.97 of native's time, or the tuned choices
take more than the built-in ones in the geometric mean.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import result_file
from offbeat.bench import runner
from offbeat.bench.plan import NATIVE
from offbeat.bench.results import MEASURED, Benchmark
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice, choose
from offbeat.tune import candidates, course, race
from offbeat.tune.course import Course, Goal
from offbeat.tune.decisions import decide, mean_ratio

LOST = 1.05  # a race is lost if the exhaustive winner is better than the tuned one by more than this
MOST_LOST = 1 / 20
OF_NATIVE = 1 / 0.97


@dataclass(frozen=True)
class Compared:
    """One race: the choices, and their last delays, divided by those of others."""

    ranks: int
    collective: str
    size_bytes: int
    tuned: str
    built_in: str
    exhaustive: str
    of_native: float  # tuned, by the geometric mean over the patterns
    of_built_in: float
    score_of_exhaustive: float  # the score of the tuned choice, divided by that of the exhaustive winner


def tune(arguments: argparse.Namespace, folder: Path) -> list[Course]:
    """Run the command, as a user does."""
    path = folder / "tuned.json"
    command = [sys.executable, "-m", "offbeat", "tune", *arguments.collectives.split(",")]
    command += ["-n", arguments.ranks, "--bytes", arguments.bytes, "--budget", f"{arguments.budget}s"]
    command += ["--patterns", arguments.patterns, "--no-store", "--rules", str(folder / "my.rules")]
    command += ["-o", str(path), *(["--mpi", arguments.mpi] if arguments.mpi else [])]
    began = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, "OFFBEAT_RULES": ""})
    passed = time.monotonic() - began
    print(f"tuned in {passed:.0f} s of {arguments.budget} s\n", flush=True)
    return [course.read(each) for each in course.files_of(path)]


def measured(tuned: Course, choice: Choice, names: Sequence[str], budget_s: float, path: Path) -> Course:
    """Measure algorithms in all cells of a tuning, in one job. Returns its races, with these times."""
    plan = replace(tuned.benchmark.plan, algorithms=list(names), max_iterations=1000)
    benchmark = Benchmark(plan, runner.describe_run(plan, choice))
    runner.run(benchmark, choice, path=path, budget_s=budget_s)
    cells = [
        [*result.cell, result.algorithm, delay.median, delay.ci95_low, delay.ci95_high, result.iterations]
        for result in benchmark.results
        if result.status == MEASURED
        for delay in [result.last_delay]
    ]
    goal = Goal("robust", [tuned.ranks], list(names))
    benchmark.about["tune"] = course.new_field(goal, [{"round": 0, "seconds": 0.0, "cells": cells}])
    found = Course(goal, benchmark, path)
    found.set_place(place_of(tuned, choice), None)
    return found


def place_of(tuned: Course, choice: Choice) -> candidates.Place:
    return candidates.Place(choice.install.vendor, tuned.ranks, int(tuned.benchmark.about["hosts"] or 1))


def compare(tuned: Course, choice: Choice, arguments: argparse.Namespace, folder: Path) -> list[Compared]:
    """Search exhaustively, measure the winners again, and compare them."""
    tuned.set_place(place_of(tuned, choice), None)
    chosen = {(d.collective, d.size_bytes): d.algorithm for d in decide(tuned)}
    names = [
        name
        for name in dict.fromkeys(result.algorithm for result in tuned.benchmark.results)
        if host_algorithms.name_in(name) is None
    ]
    print(
        f"{tuned.ranks} ranks: {len(names)} algorithms in {len(tuned.benchmark.plan.cells)} cells", flush=True
    )
    every = measured(tuned, choice, names, arguments.exhaustive, folder / f"every-{tuned.ranks}.json")
    best = {}
    for contest in every.contests:
        scores = every.scores(contest, names)
        if scores:
            best[contest.collective, contest.size_bytes] = min(scores, key=lambda n: scores[n].value)
    built_in = {(c.collective, c.size_bytes): c.in_force[0] for c in every.contests}
    finalists = dict.fromkeys([NATIVE, *chosen.values(), *best.values(), *built_in.values()])
    fresh = measured(tuned, choice, list(finalists), arguments.fresh, folder / f"fresh-{tuned.ranks}.json")
    found = []
    for contest in fresh.contests:
        key = (contest.collective, contest.size_bytes)
        rows = fresh.rows(contest)
        if key not in chosen or key not in best:
            print(f"{key}: not measured in time")
            continue
        four = {chosen[key], best[key], built_in[key], NATIVE}
        scores = race.scores(rows, four)
        if scores.keys() != four:
            print(f"{key}: not measured again in time")
            continue

        def ratio(name: str, other: str, rows: race.Rows = rows) -> float:
            return mean_ratio([row[name].us / row[other].us for row in rows]) or 1.0

        found.append(
            Compared(
                tuned.ranks,
                *key,
                chosen[key],
                built_in[key],
                best[key],
                ratio(chosen[key], NATIVE),
                ratio(chosen[key], built_in[key]),
                scores[chosen[key]].value / scores[best[key]].value,
            )
        )
    return found


def missed(found: Sequence[Compared]) -> list[str]:
    """One line for each target that is missed."""
    lost = [each for each in found if each.score_of_exhaustive > LOST]
    slow = [each for each in found if each.of_native > OF_NATIVE]
    lines = [
        f"{each.of_native:.2f} of native's time: {each.collective} {each.size_bytes} B on {each.ranks} ranks"
        for each in slow
    ]
    if len(lost) > MOST_LOST * len(found):
        lines.append(f"exhaustive search is better by more than 5% in {len(lost)} of {len(found)} races")
    if (mean_ratio(each.of_built_in for each in found) or 1.0) > 1.0:
        lines.append("slower than the built-in rules in the geometric mean")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", help="as in offbeat tune")
    parser.add_argument("--collectives", default="allreduce", help="default: allreduce")
    parser.add_argument("-n", "--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--bytes", default="8,16,64,256,1KiB,2KiB,4KiB,8KiB,16KiB,32KiB,64KiB,128KiB,"
                        "256KiB,512KiB,1MiB,4MiB", help="default: 16 sizes")  # fmt: skip
    parser.add_argument("--patterns", default="balanced,ascending,descending,last_delayed,random")
    parser.add_argument("--budget", type=int, default=600, help="seconds to tune (default: 600)")
    parser.add_argument("--exhaustive", type=float, default=900, help="seconds for each number of ranks")
    parser.add_argument("--fresh", type=float, default=300, help="seconds for each number of ranks")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    choice = choose(arguments.mpi, None, [], os.environ)
    with tempfile.TemporaryDirectory(prefix="offbeat-tuned-") as name:
        folder = Path(name)
        tunings = tune(arguments, folder)
        found = [one for tuned in tunings for one in compare(tuned, choice, arguments, folder)]
    print(f"\n{'ranks':>5} {'bytes':>9}  of native  of built-in  score/exhaustive's  tuned; exhaustive")
    for each in found:
        print(
            f"{each.ranks:>5} {each.size_bytes:>9}  {each.of_native:>9.2f}  {each.of_built_in:>11.2f}"
            f"  {each.score_of_exhaustive:>18.2f}  {each.tuned}; {each.exhaustive}"
        )
    for label, of in (("native", [e.of_native for e in found]), ("built-in", [e.of_built_in for e in found])):
        print(f"tuned / {label}, geometric mean: {mean_ratio(of) or 1.0:.3f}")
    lines = missed(found)
    used = result_file.mpi(choice.install.name, choice.install.prefix)
    results.write([{"mpi": used["name"], **asdict(each)} for each in found], [used], missed=lines)
    print("\n".join(lines) or "all targets are met")
    sys.exit(bool(lines) or not found)


if __name__ == "__main__":
    main()
