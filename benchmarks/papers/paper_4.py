#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate figures 4, 5, 6 and 8 of paper 4 (Salimi Beni et al., Cluster 2024): algorithms and arrival.

    build/venv/bin/python benchmarks/papers/paper_4.py [--by smpi] [--nodes 32] [--ppn 32]
        [--collectives reduce,allreduce,alltoall] [--algorithms pair,bruck] [--figures 4,5,6,8] [--json FILE]

`--by smpi` runs SMPI's collectives, as the paper does; otherwise offbeat simulates its own. A linear alltoall
of 256 ranks takes SMPI minutes, because all messages share the links at once. All times are last delays.
Under a pattern the latest rank is late by 1.5 times the mean time of the algorithms if no rank is late; in
figure 6 by the algorithm's own time.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from offbeat.bench import arrival_patterns, ranking
from offbeat.bench.ranking import BALANCED, Row
from offbeat.bench.samples import Delay, summarize
from offbeat.simulate import machine
from offbeat.simulate.simulation import Shape
from offbeat.units import Skew, format_size, parse_sizes
from paper_tables import Verdict, digits, parser, print_table, simulate, write_json
from smpi import Call, Smpi

# Figure 3 of the paper: eight shapes, of which its text names five.
PATTERNS = (
    "ascending", "descending", "first_delayed", "last_delayed", "random_once", "half_step", "bell", "valley",
)  # fmt: skip
SKEW = 1.5
SEED = 1
LEAST_US = 1.0  # a shorter delay counts as one latency: a late root finds everything there, at no cost
FIGURE_8 = ("alltoall", 32768)  # what the application FT calls
SIZES = {"reduce": "8,256,1KiB,32KiB,1MiB", "allreduce": "8,1KiB,1MiB", "alltoall": "8,1KiB,32KiB,1MiB"}
ALGORITHMS = {
    "offbeat": {
        "reduce": ("linear", "chain", "pipeline(8, chain)", "binomial", "rabenseifner"),
        "allreduce": ("binomial", "recursive_doubling", "ring", "ring_segmented(8KiB)", "rabenseifner"),
        "alltoall": ("linear", "pairwise", "bruck"),
    },
    "smpi": {
        "reduce": ("ompi_basic_linear", "ompi_chain", "ompi_pipeline", "ompi_binary", "ompi_binomial",
                   "ompi_in_order_binary", "scatter_gather"),
        "allreduce": ("redbcast", "rdb", "lr", "ompi_ring_segmented", "rab_rdb"),
        "alltoall": ("basic_linear", "pair", "bruck"),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """The last delays of one collective, by size and pattern."""

    collective: str
    rows: Sequence[Row]  # all algorithms under the same skew
    own: Sequence[Row]  # each algorithm under a skew of its own time; only for figure 6

    @property
    def sizes(self) -> list[int]:
        return ranking.sizes_of(self.rows, self.collective)

    @property
    def algorithms(self) -> list[str]:
        return ranking.algorithms_of(self.rows, self.collective)


def counted(delay_us: float) -> Delay:
    return summarize([max(delay_us, LEAST_US)])


def by_offbeat(
    shape: Shape, collective: str, sizes: Sequence[int], algorithms: Sequence[str], *, with_own: bool
) -> Study:
    def rows(some: Sequence[str], factor: float) -> list[Row]:
        patterns = [BALANCED, *PATTERNS]
        found = simulate(
            machine.read("ethernet"), shape, collective, sizes, some, patterns, Skew(factor=factor)
        )
        return [
            replace(row, delays={name: counted(each.median) for name, each in row.delays.items()})
            for row in found.rows(shape)
        ]

    own = [row for each in algorithms if with_own for row in rows([each], 1.0)]
    return Study(collective, rows(algorithms, SKEW), merged(own))


def by_smpi(
    shape: Shape, collective: str, sizes: Sequence[int], algorithms: Sequence[str], *, with_own: bool
) -> Study:
    shapes = {name: arrival_patterns.rounds(name, shape.ranks, SEED)[0] for name in PATTERNS}

    def rows(algorithm: str, skews_us: dict[int, float]) -> list[Row]:
        """The delays of one algorithm under all patterns."""
        keys = [(size, name) for size in sizes for name in PATTERNS]
        calls: list[Call] = [(size, [skews_us[size] * late for late in shapes[name]]) for size, name in keys]
        return [
            Row(collective, size, name, {algorithm: counted(delay)})
            for (size, name), delay in zip(keys, run(algorithm, calls), strict=True)
        ]

    with tempfile.TemporaryDirectory(prefix="offbeat-smpi-") as folder:
        smpi = Smpi(Path(folder), shape)

        def run(algorithm: str, calls: Sequence[Call]) -> list[float]:
            return smpi.last_delays_us(collective, algorithm, calls)

        together: list[Call] = [(size, [0.0] * shape.ranks) for size in sizes]
        balanced = {each: dict(zip(sizes, run(each, together), strict=True)) for each in algorithms}
        means = {size: SKEW * statistics.fmean(times[size] for times in balanced.values()) for size in sizes}
        first = [
            Row(collective, size, BALANCED, {each: counted(time)})
            for each, times in balanced.items()
            for size, time in times.items()
        ]
        return Study(
            collective,
            merged([*first, *(row for each in algorithms for row in rows(each, means))]),
            merged([*first, *(row for each in algorithms for row in rows(each, balanced[each]))])
            if with_own
            else [],
        )


def merged(rows: Sequence[Row]) -> list[Row]:
    """One row for each size and pattern, from rows that have some of the algorithms."""
    found: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        key = (row.collective, row.size_bytes, row.pattern)
        found[key] = Row(*key, {**(found[key].delays if key in found else {}), **row.delays})
    return list(found.values())


# -- the figures


def figure_4(study: Study) -> None:
    """Under each pattern the best algorithm, and its delay divided by that of the balanced winner."""

    def cell(row: Row) -> str:
        best = ranking.winner(row, study.rows)
        if best is None or best.ratio is None:
            return ""
        return f"`{best.algorithm}`" + ("" if row.balanced else f" {best.ratio:.2f}")

    by_pattern: dict[str, list[str]] = {}
    for size in study.sizes:
        for row in ranking.rows_at(study.rows, study.collective, size):
            by_pattern.setdefault(row.pattern, []).append(cell(row))
    print_table(
        f"figure 4, {study.collective}: the best algorithm, and its delay over that of the balanced winner",
        ["arrival", *map(format_size, study.sizes)],
        [[pattern, *cells] for pattern, cells in by_pattern.items()],
    )


def figure_5(study: Study) -> None:
    """The delay of each algorithm under each pattern; bold: at most 5% slower than the fastest."""
    for size in study.sizes:
        rows = ranking.rows_at(study.rows, study.collective, size)
        print_table(
            f"figure 5, {study.collective}, {format_size(size)}: last delay in µs; bold: good",
            ["arrival", *(f"`{name}`" for name in study.algorithms)],
            [
                [row.pattern, *(
                    f"**{digits(row.times[name])}**"
                    if name in ranking.nearly_fastest(row) else digits(row.times[name])
                    for name in study.algorithms
                )]
                for row in rows
            ],
        )  # fmt: skip


def figure_6(study: Study) -> None:
    """How much the delay of each algorithm changes under a pattern whose skew is its own time."""

    def cell(change: float) -> str:
        sign = "▼" if change < -ranking.UNCHANGED_WITHIN else "▲" if change > ranking.UNCHANGED_WITHIN else ""
        return f"{sign} {round(change, 2) + 0.0:+.2f}".strip()

    for size in study.sizes:
        rows = ranking.rows_at(study.own, study.collective, size)
        print_table(
            f"figure 6, {study.collective}, {format_size(size)}: delay over the balanced delay, minus 1",
            ["arrival", *(f"`{name}`" for name in study.algorithms)],
            [
                [row.pattern, *(cell(ranking.robustness(row, rows)[name]) for name in study.algorithms)]
                for row in rows
                if not row.balanced
            ],
        )


def figure_8(study: Study, size: int) -> None:
    """Each delay divided by the least in its line, and the averages."""
    rows = ranking.rows_at(study.rows, study.collective, size)
    scores = ranking.scores(rows)
    lines = [
        [row.pattern, *(
            f"{ranking.normalised(row)[name]:.2f} ({digits(row.times[name] / 1e3)})"
            for name in study.algorithms
        )]
        for row in rows
    ]  # fmt: skip
    print_table(
        f"figure 8, {study.collective}, {format_size(size)}: delay divided by the least; in brackets ms",
        ["arrival", *(f"`{name}`" for name in study.algorithms)],
        [*lines, ["average", *(f"{scores[name]:.2f}" for name in study.algorithms)]],
    )


@dataclass(frozen=True)
class Fate:
    """What becomes of an algorithm that is good if no rank is late, when ranks are late."""

    size_bytes: int
    algorithm: str
    balanced: float  # its balanced delay divided by the least
    slowest_under: int  # the number of patterns under which no algorithm is slower
    most: float  # its delay divided by the least, at most over the patterns
    pattern: str  # where that is
    by_score: str  # the algorithm that the average over the patterns chooses


def fates(study: Study) -> Iterator[Fate]:
    for size in study.sizes:
        rows = ranking.rows_at(study.rows, study.collective, size)
        scores = ranking.scores(rows)
        late = [row for row in rows if not row.balanced]
        (balanced,) = [row for row in rows if row.balanced]
        for name in sorted(ranking.nearly_fastest(balanced), key=balanced.times.__getitem__):
            worst = max(late, key=lambda row: ranking.normalised(row)[name])
            yield Fate(
                size, name, ranking.normalised(balanced)[name],
                sum(row.times[name] == max(row.times.values()) for row in late),
                ranking.normalised(worst)[name], worst.pattern, min(scores, key=scores.__getitem__),
            )  # fmt: skip


def show_fates(study: Study) -> None:
    print_table(
        f"{study.collective}: the algorithms that are good if no rank is late",
        ["size", "algorithm", "balanced, over the best", "slowest under", "at most, over the best",
         "least average"],
        [
            [format_size(each.size_bytes), f"`{each.algorithm}`", f"{each.balanced:.3f}",
             f"{each.slowest_under} of {len(PATTERNS)}", f"{digits(each.most)} ({each.pattern})",
             f"`{each.by_score}`"]
            for each in fates(study)
        ],
    )  # fmt: skip


# -- what the gallery shows of the stored files

SHOWN = ("last_delayed", "first_delayed", "ascending", "descending", "random_once")
FIGURE_4_HEADINGS = ("collective", "size", "best if nobody is late", *(f"`{name}`" for name in SHOWN))


def rows_of(delays: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of a stored file, all algorithms under the same skew."""
    return [
        Row(each["collective"], each["size_bytes"], each["pattern"],
            {name: counted(us) for name, us in each["last_delays_us"].items()})
        for each in delays
        if each["skew"] == "1.5 x the mean"
    ]  # fmt: skip


def figure_4_rows(delays: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The best algorithm, and its delay over that of the balanced winner, by collective and size."""
    rows = rows_of(delays)
    table = []
    for collective, size in sorted({(row.collective, row.size_bytes) for row in rows}):
        at = {row.pattern: row for row in ranking.rows_at(rows, collective, size)}
        line = [collective, format_size(size), f"`{at[BALANCED].best}`"]
        for name in SHOWN:
            best = ranking.winner(at[name], rows)
            assert best is not None
            is_same = best.algorithm == at[BALANCED].best
            line.append("-" if is_same else f"`{best.algorithm}` {best.ratio:.2f}")
        table.append(line)
    return table


def figure_8_rows(delays: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The headings, and by pattern the delay divided by the least; the last row has the averages."""
    rows = ranking.rows_at(rows_of(delays), *FIGURE_8)
    names = ranking.algorithms_of(rows, FIGURE_8[0])
    scores = ranking.scores(rows)
    lines = [[row.pattern, *(f"{ranking.normalised(row)[name]:.2f}" for name in names)] for row in rows]
    headings = ["arrival", *(f"`{name}`" for name in names)]
    return headings, [*lines, ["average", *(f"{scores[name]:.2f}" for name in names)]]


def alltoalls_ms(delays: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """By pattern and algorithm: the delay of an alltoall if nobody is late, and under the pattern."""
    at = {row.pattern: row.times for row in ranking.rows_at(rows_of(delays), *FIGURE_8)}
    return {
        pattern: {name: (at[BALANCED][name] / 1e3, us / 1e3) for name, us in at[pattern].items()}
        for pattern in SHOWN
    }


Show = Callable[[Sequence[Row]], str]  # a number of one simulation


def late_over_winner(collective: str, size: int) -> Show:
    """The best algorithm if the last rank is late, and its delay over that of the balanced winner."""

    def show(rows: Sequence[Row]) -> str:
        (late,) = (row for row in ranking.rows_at(rows, collective, size) if row.pattern == "last_delayed")
        best = ranking.winner(late, rows)
        assert best is not None
        return f"{best.ratio:.2f} (`{best.algorithm}`)"

    return show


def kept_winners(rows: Sequence[Row]) -> str:
    """In how many cells of an allreduce the balanced winner is good under a pattern, too."""
    late = [row for row in rows if row.collective == "allreduce" and not row.balanced]
    kept = 0
    for row in late:
        balanced = ranking.balanced_of(row, rows)
        assert balanced is not None
        kept += balanced.best in ranking.nearly_fastest(row)
    return f"{kept} of {len(late)} cells"


def longest_of_bruck(rows: Sequence[Row]) -> str:
    """The longest alltoall of which `bruck` is the best if nobody is late."""
    sizes = [
        row.size_bytes
        for row in rows
        if row.collective == "alltoall" and row.balanced and row.best == "bruck"
    ]
    return format_size(max(sizes)) if sizes else "none"


def bruck_over_best(rows: Sequence[Row]) -> str:
    """How many times as long as the best `bruck` takes in figure 8 if nobody is late."""
    (row,) = (row for row in ranking.rows_at(rows, *FIGURE_8) if row.balanced)
    return f"{ranking.normalised(row)['bruck']:.2f}"


def most_by_a_pattern(rows: Sequence[Row]) -> str:
    """How many times as long as without a pattern an algorithm of figure 8 takes under one, at most."""
    late = [row for row in ranking.rows_at(rows, *FIGURE_8) if not row.balanced]
    return f"{1 + max(max(ranking.robustness(row, rows).values()) for row in late):.1f}"


@dataclass(frozen=True)
class Said:
    """A number of the paper, how ours is found, and what is to be said of it."""

    what: str
    paper: str
    show: Show
    says: str
    by_smpi: bool = False  # whether SMPI's number is shown, too


SAID = (
    Said("figure 4a: reduce of 8 B, last rank late, best over balanced winner",
         "0.30 (`ompi_in_order_binary`, 2 B)", late_over_winner("reduce", 8),
         "as in the paper: another algorithm is the best", by_smpi=True),
    Said("figure 4b: allreduce, the balanced winner stays good", "mostly", kept_winners, "as in the paper",
         by_smpi=True),
    Said("figure 4c: `bruck` is the best alltoall if nobody is late, up to", "1 KiB", longest_of_bruck,
         "SMPI agrees with ours; the paper does not have its platform file", by_smpi=True),
    Said("figure 4c: alltoall of 8 B, last rank late, best over balanced winner",
         "below 1 (`basic_linear`, 2 or 4 B)", late_over_winner("alltoall", 8), "as in the paper"),
    Said("figure 8: alltoall by `bruck` over the best if nobody is late", "4.6", bruck_over_best,
         "the paper measured on another network"),
    Said("figure 8: alltoall under a pattern over that without, at most", "16", most_by_a_pattern,
         "the paper's is `linear` with synchronisation, which was not simulated"),
)  # fmt: skip


def verdicts(delays: Sequence[Mapping[str, Any]], smpi: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """What the paper says of figures 4 and 8, beside offbeat's simulation and SMPI."""
    ours, theirs = rows_of(delays), rows_of(smpi)
    return [
        Verdict(
            each.what,
            each.paper,
            each.show(ours) + (f"; by SMPI {each.show(theirs)}" if each.by_smpi else ""),
            each.says,
        )
        for each in SAID
    ]


def alltoalls_over_smpi(
    delays: Sequence[Mapping[str, Any]], smpi: Sequence[Mapping[str, Any]]
) -> list[float]:
    """offbeat's times of alltoalls whose ranks arrive together, over those by SMPI."""
    ours = rows_of(delays)
    names = {"pair": "pairwise", "bruck": "bruck"}
    found = []
    for row in rows_of(smpi):
        if row.collective == "alltoall" and row.balanced:
            same = ranking.balanced_of(row, ours)
            assert same is not None
            found += [same.times[names[name]] / us for name, us in row.times.items()]
    return found


def records(study: Study) -> list[dict[str, Any]]:
    """All delays as the JSON file has them."""
    return [
        {"skew": skew, "collective": row.collective, "size_bytes": row.size_bytes, "pattern": row.pattern,
         "last_delays_us": row.times}
        for skew, rows in (("1.5 x the mean", study.rows), ("1 x its own time", study.own))
        for row in rows
    ]  # fmt: skip


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--by", choices=sorted(ALGORITHMS), default="offbeat", help="default: %(default)s")
    made.add_argument("--nodes", type=int, default=32, help="default: %(default)s")
    made.add_argument("--ppn", type=int, default=32, help="default: %(default)s")
    made.add_argument("--collectives", default=",".join(SIZES), help="default: %(default)s")
    made.add_argument("--sizes", help="default: those of the figures")
    made.add_argument("--algorithms", help="default: those of the figures")
    made.add_argument("--figures", default="4,5,6,8", help="default: %(default)s")
    arguments = made.parse_args()
    shape = Shape(arguments.nodes, arguments.ppn)
    study_of = by_smpi if arguments.by == "smpi" else by_offbeat
    figures = arguments.figures.split(",")
    found = []
    for collective in arguments.collectives.split(","):
        sizes = parse_sizes(arguments.sizes or SIZES[collective])
        algorithms = ALGORITHMS[arguments.by][collective]
        if arguments.algorithms:
            algorithms = tuple(arguments.algorithms.split(","))
        study = study_of(shape, collective, sizes, algorithms, with_own="6" in figures)
        found += records(study)
        for number, figure in (("4", figure_4), ("5", figure_5), ("6", figure_6)):
            if number in figures:
                figure(study)
        if "8" in figures and collective == FIGURE_8[0] and FIGURE_8[1] in sizes:
            figure_8(study, FIGURE_8[1])
        show_fates(study)
    write_json(
        arguments.json,
        machine.read("ethernet"),
        {"by": arguments.by, "nodes": shape.nodes, "ranks_per_node": shape.ranks_per_node, "delays": found},
    )


if __name__ == "__main__":
    main()
