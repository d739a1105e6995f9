#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Repeat the study of FT in paper 4 (figures 1, 7, 8 and 9) with a Fourier transform of our own, ft.c.

    build/venv/bin/python benchmarks/papers/paper_4_ft.py [--ranks 4] [--json FILE]

A trace of the program gives the pattern in which its ranks arrive. A benchmark measures each alltoall under
this pattern and under artificial ones. A run should take the time that the program computes plus, for each
call, the last delay, if nobody is late or on average over the artificial patterns. Then the program runs
under each algorithm. Its times are lower quartiles, because noise only adds. Each rank needs a core, and the
machine must be quiet otherwise: a rank that loses its core for a moment is later than any pattern.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offbeat.bench import arrival_patterns, ranking, results
from offbeat.bench.samples import Delay

sys.path.append(str(Path(__file__).resolve().parents[1]))

import paper_tables
import result_file
from paper_tables import digits, print_table

SOURCE = Path(__file__).resolve().with_name("ft.c")
POINTS = 32  # with 4 ranks the blocks have 32 KiB, as in the paper
STEPS = 500
ALGORITHMS = ("native", "arrival_direct", "linear", "pairwise", "bruck")
PATTERNS = ("balanced", "ascending", "descending", "first_delayed", "last_delayed", "random_once")
LINE = re.compile(r"run (\S+) s, computing (\S+) s, checksum (\S+)")
HEADINGS = (
    "algorithm", "last delay in µs: nobody late", "as FT arrives", "over the least, mean of patterns",
    "run in s, predicted: nobody late", "mean of patterns", "measured",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One algorithm."""

    algorithm: str
    delays_us: dict[str, float]  # by pattern
    score: float  # the mean over the patterns of its delay divided by the least
    computing_s: float
    runs_s: list[float]

    def predicted_s(self, delay_us: float) -> float:
        return self.computing_s + 1e-6 * STEPS * delay_us

    @property
    def mean_us(self) -> float:
        """The mean over the artificial patterns."""
        return statistics.fmean(self.delays_us[name] for name in PATTERNS)


def lines_of(cells: Sequence[Mapping[str, Any]]) -> list[Line]:
    return [Line(**cell) for cell in cells]


def lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def rows(lines: Sequence[Line]) -> list[list[str]]:
    return [
        [f"`{line.algorithm}`", digits(line.delays_us["balanced"]), digits(line.delays_us["FT"]),
         f"{line.score:.2f}", digits(line.predicted_s(line.delays_us["balanced"])),
         digits(line.predicted_s(line.mean_us)), digits(lower_quartile(line.runs_s))]
        for line in lines
    ]  # fmt: skip


def predicted_over_measured(lines: Sequence[Line]) -> dict[str, dict[str, float]]:
    """The bars of figure 9, by algorithm: the predicted run times, divided by the measured one."""
    return {
        line.algorithm: {
            name: line.predicted_s(delay_us) / lower_quartile(line.runs_s)
            for name, delay_us in (
                ("nobody late", line.delays_us["balanced"]),
                ("mean of patterns", line.mean_us),
                ("as FT arrives", line.delays_us["FT"]),
            )
        }
        for line in lines
    }


def verdict(lines: Sequence[Line]) -> str:
    """Which algorithm the paper's rule chooses, and how the choices fared."""
    runs = {line.algorithm: lower_quartile(line.runs_s) for line in lines}
    by_score = min(lines, key=lambda line: line.score).algorithm
    balanced = min(lines, key=lambda line: line.delays_us["balanced"]).algorithm
    fastest = min(runs, key=runs.__getitem__)
    return (
        f"The run is fastest by `{fastest}`. The mean over the patterns chooses `{by_score}`, whose run "
        f"takes {runs[by_score] / runs[fastest]:.2f} times as long, and the benchmark if nobody is late "
        f"`{balanced}` ({runs[balanced] / runs[fastest]:.2f})."
    )


class Laboratory:
    """Runs the program in one folder."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self._folder = folder
        self._ranks = str(ranks)
        self._program = folder / "ft"
        compiler = Path(sys.executable).with_name("mpicc")
        subprocess.run([compiler, "-O2", SOURCE, "-o", self._program, "-lm"], check=True)

    def _offbeat(self, *words: str, algorithm: str = "native") -> str:
        environment = {**os.environ, "OFFBEAT_ALLTOALL": algorithm, "OFFBEAT_REPORT": "0"}
        command = [sys.executable, "-m", "offbeat", words[0], "-n", self._ranks, *words[1:]]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, algorithm: str) -> tuple[float, float, str]:
        """The seconds of a run and of its computing, and the checksum."""
        text = self._offbeat("run", "--", str(self._program), str(POINTS), str(STEPS), algorithm=algorithm)
        found = LINE.search(text)
        if found is None:
            sys.exit(text)
        return float(found[1]), float(found[2]), found[3]

    def mean_skews_us(self) -> list[float]:
        """How late each rank is, on average over the calls of a native run."""
        self._offbeat("trace", "-o", "ft.trace", "--", str(self._program), str(POINTS), str(STEPS))
        return list(arrival_patterns.read_delays(self._folder / "ft.trace"))

    def benchmark(self, block: int, skews_us: Sequence[float], budget: str) -> list[ranking.Row]:
        pattern = self._folder / "FT"
        pattern.write_text(arrival_patterns.file_text(skews_us, "FT"))
        self._offbeat(
            "bench", "--collectives", "alltoall", "--sizes", str(block), "--algorithms",
            ",".join(ALGORITHMS[1:]), "--patterns", ",".join([*PATTERNS, str(pattern)]),
            "--skew", f"{max(skews_us):.1f}us", "--budget", budget, "--json", "bench.json",
        )  # fmt: skip
        delays: dict[str, dict[str, Delay]] = {}
        for result in results.read(self._folder / "bench.json").results:
            delays.setdefault(Path(result.cell.pattern).name, {})[result.algorithm] = result.last_delay
        return [ranking.Row("alltoall", block, pattern, each) for pattern, each in delays.items()]


def main() -> None:
    made = paper_tables.parser(__doc__)
    made.add_argument("--ranks", type=int, default=4, help="default: %(default)s")
    made.add_argument("--repeats", type=int, default=9, help="runs of each algorithm; default: %(default)s")
    made.add_argument("--budget", default="60s", help="of the benchmark; default: %(default)s")
    arguments = made.parse_args()
    file = result_file.ResultFile(arguments.json)
    with tempfile.TemporaryDirectory(prefix="offbeat-ft-") as name:
        laboratory = Laboratory(Path(name), arguments.ranks)
        skews_us = laboratory.mean_skews_us()
        block = 16 * POINTS**3 // arguments.ranks**2
        found = laboratory.benchmark(block, skews_us, arguments.budget)
        runs = {each: [laboratory.run(each)] for each in ALGORITHMS}
        for _ in range(arguments.repeats - 1):
            for each in ALGORITHMS:
                runs[each].append(laboratory.run(each))
    if len({checksum for each in runs.values() for _, _, checksum in each}) != 1:
        sys.exit("the checksums differ")
    by_pattern = {row.pattern: row.times for row in found}
    scores = ranking.scores([row for row in found if row.pattern != "FT"])
    lines = [
        Line(
            each,
            {pattern: times[each] for pattern, times in by_pattern.items()},
            scores[each],
            lower_quartile([computing for _, computing, _ in runs["native"]]),
            [run for run, _, _ in runs[each]],
        )
        for each in ALGORITHMS
    ]
    print_table(f"FT on {arguments.ranks} ranks, blocks of {block} bytes", HEADINGS, rows(lines))
    mpi = result_file.mpi("embedded")
    file.write([asdict(line) for line in lines], [mpi], ranks=arguments.ranks, mean_skews_us=skews_us)


if __name__ == "__main__":
    main()
