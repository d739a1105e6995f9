#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate figures 2 to 7 and 11 to 14 of paper 1 (Castelló et al., Cluster Computing 2021): pipelines.

    build/venv/bin/python benchmarks/papers/paper_1.py [--sizes 4MiB,1GiB] [--json FILE]

The tables have the throughput in MB/s as the paper defines it: the bytes of the vector, divided by the time.
The machine follows from two numbers of the paper (docs/gallery/index.md). Figures 11 and 12 are figure 3
under other MPIs: MPICH and Intel MPI take Rabenseifner's algorithm, and Intel MPI has a ring, too. Open MPI
4.0 takes a ring from 4 ranks and 64 KiB on (nbc_iallreduce.c), also in figures 13 and 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from offbeat.simulate.machine import Machine, parse
from offbeat.simulate.simulation import Shape
from offbeat.units import format_size, parse_size, parse_sizes
from paper_tables import Verdict, beaten, digits, parser, percent, print_table, simulate, write_json

Table = dict[int, dict[str, float]]  # MB/s by size and expression

NODES = (8, 9)
ALGORITHMS = ("rabenseifner", "ring")  # what Open MPI takes by itself, and what was best
SIZES = "1MiB,4MiB,16MiB,64MiB,256MiB,1GiB"
SEGMENTS = ("4MiB", "16MiB", "32MiB")
CONCURRENCY = (2, 4, 8)

# Section 5.3: a ring over 8 nodes takes long messages at 3,000 MB/s, and 37% of that time is arithmetic.
RING_MB_PER_S = 3000
ARITHMETIC = 0.37
_NS_PER_BYTE = 1e3 / RING_MB_PER_S
_SENT = 2 * (8 - 1) / 8  # how often a rank of a ring sends the length of the vector
CLUSTER = parse(
    f"""\
name = "the cluster of paper 1"
source = "InfiniBand EDR; from section 5.3 of Castelló et al. 2021"
[core]
combine_ns_per_byte = {2 * ARITHMETIC * _NS_PER_BYTE / _SENT}
[within_node]  # not used: each node has one rank
latency_us = 0.5
bandwidth_gb_per_s = 12.5
[between_nodes]
latency_us = 0.5
bandwidth_gb_per_s = {_SENT / ((1 - ARITHMETIC) * _NS_PER_BYTE)}
""",
    "paper_1.py",
)

# InfiniBand QDR, with 4 GB/s instead of 12.5.
QDR = replace(
    CLUSTER,
    between_nodes=tuple(
        replace(each, bandwidth_gb_per_s=each.bandwidth_gb_per_s * 4 / 12.5) for each in CLUSTER.between_nodes
    ),
)


@dataclass(frozen=True)
class Further:
    """A figure with fixed numbers of segments. Each algorithm is simulated whole, too."""

    figure: str
    collective: str
    machine: Machine
    nodes: tuple[int, ...]
    algorithms: tuple[str, ...]


# libnbc's allgather sends as much from each rank as a ring. Its bcast is a chain of segments of 32 KiB.
FURTHER = (
    Further("figure 5", "allgather", CLUSTER, (7, 8), ("linear", "ring")),
    Further("figure 6", "bcast", CLUSTER, (7, 8), ("chain", "pipeline(32KiB, chain)")),
    Further("figure 7", "reduce_scatter", CLUSTER, (7, 8), ("pairwise",)),
    Further("figure 13", "allreduce", QDR, (8, 15), ALGORITHMS),
    Further("figure 14", "allreduce", CLUSTER, (30, 32), ALGORITHMS),
)


@dataclass(frozen=True)
class Published:
    """What the paper's text says about long messages, in MB/s, and the simulated algorithm."""

    figure: str
    nodes: int
    algorithm: str
    whole: str
    in_segments: str


PUBLISHED = (
    Published("figure 3", 8, "rabenseifner", "1,400", "1,650"),
    Published("figure 3", 9, "rabenseifner", "800", "above 1,200"),
    Published("figure 3", 8, "ring", "3,000", "4,000"),
    Published("figure 3", 9, "ring", "3,000", "4,000"),
    *(Published("figure 5", nodes, "ring", "-", "no gain") for nodes in (7, 8)),
    Published("figure 6", 7, "chain", "2,400", "3,500"),
    Published("figure 6", 8, "chain", "1,900", "3,250"),
    *(Published("figure 7", nodes, "pairwise", "-", "100 more") for nodes in (7, 8)),
    *(Published("figure 11", nodes, name, "-", "more") for nodes in (8, 9) for name in ALGORITHMS),
    *(Published("figure 12", nodes, "ring", "-", "more") for nodes in (8, 9)),
    *(Published("figure 13", nodes, name, "-", "more") for nodes in (8, 15) for name in ALGORITHMS),
    *(Published("figure 14", nodes, "ring", "-", "more, below 1,600") for nodes in (30, 32)),
)
SAME = {"figure 11": "figure 3", "figure 12": "figure 3"}  # under another MPI
HEADINGS = (
    "figure", "collective", "nodes", "algorithm",
    "paper: whole", "in segments", "here: whole", "in 4", "in 8",
)  # fmt: skip
SHOWN_BYTES = 256 << 20


@dataclass(frozen=True)
class Rates:
    """The throughput of one algorithm in MB/s."""

    collective: str
    whole: float
    in_4: float
    in_8: float

    @property
    def best(self) -> float:
        return max(self.in_4, self.in_8)


def rates(points: Sequence[dict[str, Any]], figure: str, nodes: int, algorithm: str) -> Rates:
    names = (algorithm, *(f"pipeline({cut}, {algorithm})" for cut in (4, 8)))
    wanted = (SAME.get(figure, figure), nodes, SHOWN_BYTES)
    found = {
        each["algorithm"]: each
        for each in points
        if (each["figure"], each["nodes"], each["size_bytes"]) == wanted
    }
    return Rates(found[algorithm]["collective"], *(found[name]["mb_per_s"] for name in names))


def rows(points: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The paper's throughput beside the simulated one of 256 MiB."""
    table = []
    for said in PUBLISHED:
        mine = rates(points, said.figure, said.nodes, said.algorithm)
        table.append(
            [said.figure.removeprefix("figure "), mine.collective, str(said.nodes), f"`{said.algorithm}`",
             said.whole, said.in_segments, *map(digits, (mine.whole, mine.in_4, mine.in_8))]
        )  # fmt: skip
    return table


def of_figures(points: Sequence[dict[str, Any]], *figures: str) -> list[Rates]:
    return [
        rates(points, said.figure, said.nodes, said.algorithm) for said in PUBLISHED if said.figure in figures
    ]


def verdicts(points: Sequence[dict[str, Any]]) -> list[Verdict]:
    """The paper's best rates in segments, and what segments gain, beside ours."""
    found = []
    for figure, nodes, algorithm, theirs in (
        ("figure 3", 8, "ring", 4000),
        ("figure 3", 9, "ring", 4000),
        ("figure 6", 7, "chain", 3500),
        ("figure 6", 8, "chain", 3250),
        ("figure 14", 30, "ring", 1600),
        ("figure 14", 32, "ring", 1600),
    ):
        ours = rates(points, figure, nodes, algorithm)
        is_known = figure != "figure 14"
        found.append(
            Verdict(
                f"{figure}: {ours.collective} on {nodes} nodes, MB/s",
                f"{theirs:,}" if is_known else f"below {theirs:,}",
                digits(ours.best),
                beaten(ours.best > theirs, "slower")
                + ("" if is_known else ", on the machine of figure 3: the paper has no rates of its POWER9"),
            )
        )
    allgathers, scatters = (of_figures(points, f"figure {number}") for number in (5, 7))
    least = min(each.best - each.whole for each in scatters)
    most = max(each.best / each.whole - 1 for each in allgathers)
    others = [
        each.best / each.whole - 1 for each in of_figures(points, "figure 11", "figure 12", "figure 13")
    ]
    found += [
        Verdict("figure 5: gain of an allgather by segments", "none", percent(most),
                "as in the paper: nothing is combined while a message travels"),
        Verdict("figure 7: gain of a reduce_scatter, MB/s", "100", f"at least {digits(least)}",
                beaten(least > 100, "less")),
        Verdict("figures 11 to 13: gain of other MPIs and networks", "no number",
                f"{percent(min(others))} to {percent(max(others))}",
                "gains as in the paper, whose text has no number"),
    ]  # fmt: skip
    return found


def lines(points: Sequence[dict[str, Any]], figure: str, nodes: int) -> dict[str, list[tuple[float, float]]]:
    """The lines of a figure: MB/s over the size, whole and in 4 segments."""
    found: dict[str, list[tuple[float, float]]] = {}
    for each in points:
        if (each["figure"], each["nodes"]) == (figure, nodes) and not each["algorithm"].startswith(
            ("pipeline(2,", "pipeline(8,")
        ):
            found.setdefault(each["algorithm"], []).append((each["size_bytes"], each["mb_per_s"]))
    return found


def other_collectives(points: Sequence[dict[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Figures 5 to 7: MB/s of 256 MiB whole, and in 4 segments."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for said in PUBLISHED:
        if said.figure in ("figure 5", "figure 6", "figure 7"):
            mine = rates(points, said.figure, said.nodes, said.algorithm)
            found.setdefault(mine.collective, {})[f"{said.nodes} nodes"] = (mine.whole, mine.in_4)
    return found


def other_networks(points: Sequence[dict[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Figures 3 and 11 to 14: MB/s of an allreduce of 256 MiB whole, and in 4 segments."""
    headings = (("figure 3", "EDR"), ("figure 13", "QDR"), ("figure 14", "EDR"))
    nodes = {
        figure: sorted({each["nodes"] for each in points if each["figure"] == figure})
        for figure, _ in headings
    }
    return {
        f"{number} {network}": {
            name: ((mine := rates(points, figure, number, name)).whole, mine.in_4) for name in ALGORITHMS
        }
        for figure, network in headings
        for number in nodes[figure]
    }


def curves(figure: str, longest: int) -> list[str]:
    """The expressions of a figure: each algorithm whole, then its pipelined variants."""
    cuts = [str(number) for number in CONCURRENCY]
    if figure == "figure 2":
        cuts = [size for size in SEGMENTS if parse_size(size) < longest]
    return [
        expression
        for algorithm in ALGORITHMS
        for expression in (algorithm, *(f"pipeline({cut}, {algorithm})" for cut in cuts))
    ]


def cut_of(expression: str) -> str:
    """The first argument of a pipeline."""
    return expression.partition("(")[2].partition(",")[0]


def throughputs(
    machine: Machine,
    nodes: int,
    sizes: Sequence[int],
    expressions: Sequence[str],
    collective: str = "allreduce",
) -> Table:
    """The throughput in MB/s by size and expression."""
    found = simulate(machine, Shape(nodes, 1), collective, sizes, expressions)
    table: Table = {}
    for result in found.results:
        size = result.cell.size_bytes
        table.setdefault(size, {})[result.algorithm] = size / result.last_delays_us[0]
    return table


def points_of(figure: str, collective: str, nodes: int, table: Table) -> list[dict[str, Any]]:
    return [
        {"figure": figure, "collective": collective, "nodes": nodes, "size_bytes": size, "algorithm": name,
         "mb_per_s": each}
        for size, by_name in table.items()
        for name, each in by_name.items()
    ]  # fmt: skip


def show(title: str, table: Table, algorithms: Sequence[str] = ALGORITHMS) -> None:
    """Print a table. A column "in ..." is the algorithm before it in that many, or that long, segments."""
    first, *_ = table.values()
    names = [name if name in algorithms else f"in {cut_of(name)}" for name in first]
    rows = [
        [format_size(size), *(digits(each) for each in by_name.values())] for size, by_name in table.items()
    ]
    print_table(title, ["size", *names], rows)


def arithmetic(size: int, table: Table, without: Table) -> list[dict[str, Any]]:
    """The share of the time that arithmetic adds, for each expression at one size (figure 4)."""
    return [
        {"algorithm": name, "size_bytes": size, "share": 1 - mb_per_s / without[size][name]}
        for name, mb_per_s in table[size].items()
    ]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--sizes", default=SIZES, help="default: %(default)s")
    arguments = made.parse_args()
    sizes = parse_sizes(arguments.sizes)
    longest = [max(sizes)]
    points: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    for nodes in NODES:
        for figure in ("figure 2", "figure 3"):
            table = throughputs(CLUSTER, nodes, sizes, curves(figure, longest[0]))
            show(f"{figure}: {nodes} nodes, MB/s", table)
            points += points_of(figure, "allreduce", nodes, table)
        both = ["ring", "pipeline(4, ring)"]
        free = replace(CLUSTER, combine_ns_per_byte=0.0)
        added = arithmetic(
            longest[0], throughputs(CLUSTER, nodes, longest, both), throughputs(free, nodes, longest, both)
        )
        shares += [{"nodes": nodes, **each} for each in added]
    for each in FURTHER:
        expressions = [
            expression
            for algorithm in each.algorithms
            for expression in (algorithm, *(f"pipeline({cut}, {algorithm})" for cut in CONCURRENCY))
        ]
        for nodes in each.nodes:
            table = throughputs(each.machine, nodes, sizes, expressions, each.collective)
            show(f"{each.figure}: {each.collective} on {nodes} nodes, MB/s", table, each.algorithms)
            points += points_of(each.figure, each.collective, nodes, table)
    print_table(
        "figure 4: the share of the time that arithmetic adds",
        ["nodes", "size", "algorithm", "share"],
        [
            [str(each["nodes"]), format_size(each["size_bytes"]), f"`{each['algorithm']}`",
             f"{each['share']:.0%}"]
            for each in shares
        ],
    )  # fmt: skip
    write_json(arguments.json, CLUSTER, {"throughput": points, "arithmetic": shares})


if __name__ == "__main__":
    main()
