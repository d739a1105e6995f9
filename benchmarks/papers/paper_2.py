#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate figures 7, 8 and the training of paper 2 (Nuriyev et al., JPDC 2024): an allreduce on a grid.

    build/venv/bin/python benchmarks/papers/paper_2.py [--ranks 16,64] [--sizes 2MiB] [--json FILE]

The optimiser takes the grid and the pair of algorithms with the least cost, over all divisors of the number
of ranks and all pairs of the six base algorithms. It also does so with a latency and a rate for each
algorithm, which are fitted to simulated times as the paper fits them to measured ones, and with those of
Rabenseifner's algorithm made worse.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean
from typing import Any

from offbeat import _core
from offbeat.calibrate import hockney
from offbeat.simulate import machine
from offbeat.simulate.machine import parse
from offbeat.simulate.simulation import Shape
from offbeat.units import format_size, parse_sizes
from paper_tables import Verdict, beaten, digits, parser, percent, print_table, simulate, write_json

RANKS = "16,32,64,128,256,512,1024"
SIZES = "1MiB,2MiB,4MiB,8MiB,16MiB,32MiB,49MiB"  # the paper takes SUARA from 1 MiB to 52 MB
ALPHA, BETA, GAMMA = 1.5e-6, 6.25e-11, 2e-10  # table 4, of the segmented ring
SEGMENT_BYTES = 8192
SEGMENTED = "ring_segmented(8KiB)"
BASE = ("linear", "binomial", "recursive_doubling", "ring", SEGMENTED, "rabenseifner")  # table 1
PIPELINE = "pipeline(4, rabenseifner)"  # which SUARA does not have
FIGURE_7 = (512, (2 << 20, 16 << 20))  # ranks and sizes
FIT_MACHINE = "infiniband"  # whose messages cost more than a latency and a rate
FIT_RANKS = (8, 16, 32)
FIT_SIZES = (64 << 10, 512 << 10, 4 << 20)
FACTORS = (1, 2, 3, 4, 6)  # by which the parameters of Rabenseifner's algorithm are made worse

SHAHEEN = parse(
    f"""\
name = "Shaheen II"
source = "table 4 of Nuriyev et al. 2024; one rank on each node"
[core]
combine_ns_per_byte = {GAMMA * 1e9}
[within_node]  # not used: each node has one rank
latency_us = {ALPHA * 1e6}
bandwidth_gb_per_s = {1e-9 / BETA}
[between_nodes]
latency_us = {ALPHA * 1e6}
bandwidth_gb_per_s = {1e-9 / BETA}
""",
    "paper_2.py",
)


@dataclass(frozen=True)
class Pair:
    """Two expressions with their simulated times."""

    before: str
    before_us: float
    after: str
    after_us: float

    @property
    def speedup(self) -> float:
        return self.before_us / self.after_us


@dataclass(frozen=True)
class Cell:
    """One number of ranks and one size."""

    ranks: int
    size_bytes: int
    published_speedup: float  # of segmented rings on the square grid over a flat one, by the paper's formula
    rings: Pair  # the same two, simulated
    best_grid: Pair  # the best flat algorithm and the best grid, without Rabenseifner's algorithm
    without_rabenseifner: Pair  # Open MPI's choice, and the better of those two
    all_six: Pair  # Open MPI's choice, and the best flat algorithm or grid
    offbeat: Pair  # Open MPI's choice, and the best of those and a pipeline


def published_cost(ranks: float, size_bytes: int) -> float:
    """The paper's cost of a segmented ring (equation 7), in seconds."""
    segment = ALPHA + (BETA + GAMMA) * SEGMENT_BYTES
    steps = ranks + size_bytes / (SEGMENT_BYTES * ranks) - 2
    return steps * segment + (ranks - 1) * (ALPHA + BETA * size_bytes / ranks)


def published_speedup(ranks: int, size_bytes: int) -> float:
    """The paper's speed-up of segmented rings on a square grid (equations 13 and 14)."""
    return published_cost(ranks, size_bytes) / (2 * published_cost(math.sqrt(ranks), size_bytes))


@cache
def cost(expression: str, ranks: int, size_bytes: int) -> float:
    """The cost of an expression in seconds (docs/explanation/models.md)."""
    seconds = _core.cost(
        "allreduce", expression, ranks, size_bytes, a=ALPHA, b=BETA, c=GAMMA, eager_bytes=8192
    )
    assert seconds is not None
    return seconds


def grid(columns: int, rows: int, *algorithms: str) -> str:
    return _core.check_expression("allreduce", f"grid({columns}x{rows}, {', '.join(algorithms)})")


def divisors(ranks: int) -> list[int]:
    return [number for number in range(2, ranks) if ranks % number == 0]


def square_grid(ranks: int) -> tuple[int, int]:
    """The grid that is nearest to a square."""
    columns = min(divisors(ranks), key=lambda number: (abs(math.log(number * number / ranks)), number))
    return columns, ranks // columns


def best_grid(ranks: int, size_bytes: int, algorithms: Sequence[str]) -> str:
    """The grid with the least cost: that of the rows, plus that of the columns."""

    def total(each: tuple[int, str, str]) -> float:
        columns, in_rows, in_columns = each
        return cost(in_rows, columns, size_bytes) + cost(in_columns, ranks // columns, size_bytes)

    columns, in_rows, in_columns = min(itertools.product(divisors(ranks), algorithms, algorithms), key=total)
    same = in_rows == in_columns
    return grid(columns, ranks // columns, *([in_rows] if same else [in_rows, in_columns]))


def best_flat(ranks: int, size_bytes: int, algorithms: Sequence[str]) -> str:
    return min(algorithms, key=lambda name: cost(name, ranks, size_bytes))


def choice_of_open_mpi(ranks: int, size_bytes: int) -> str:
    """What Open MPI before 4.1 takes by itself above 10,000 bytes, as SMPI's selector `ompi` has it."""
    return "ring" if size_bytes <= ranks << 20 else "ring_segmented(1MiB)"


def measure(ranks: int, size_bytes: int) -> Cell:
    others = [name for name in BASE if name != "rabenseifner"]
    flat, flat_of_all = (best_flat(ranks, size_bytes, each) for each in (others, BASE))
    on_grid, on_grid_of_all = (best_grid(ranks, size_bytes, each) for each in (others, BASE))
    native = choice_of_open_mpi(ranks, size_bytes)

    def cheaper(*expressions: str) -> str:
        return min(expressions, key=lambda each: cost(each, ranks, size_bytes))

    pairs = [
        (SEGMENTED, grid(*square_grid(ranks), SEGMENTED)),
        (flat, on_grid),
        (native, cheaper(flat, on_grid)),
        (native, cheaper(flat_of_all, on_grid_of_all)),
    ]
    expressions = list(dict.fromkeys([*(expression for pair in pairs for expression in pair), PIPELINE]))
    found = simulate(SHAHEEN, Shape(ranks, 1), "allreduce", [size_bytes], expressions)
    times = {result.algorithm: result.last_delays_us[0] for result in found.results}
    pairs.append((native, min((pairs[-1][1], PIPELINE), key=times.__getitem__)))
    made = [Pair(before, times[before], after, times[after]) for before, after in pairs]
    return Cell(ranks, size_bytes, published_speedup(ranks, size_bytes), *made)


def fits() -> list[hockney.Hockney]:
    """The latency and the rate of each base algorithm."""
    network = machine.read(FIT_MACHINE)
    found = []
    for name in BASE:
        cases = []
        for ranks in FIT_RANKS:
            times = simulate(network, Shape(ranks, 1), "allreduce", FIT_SIZES, [name]).results
            cases += [hockney.Case(ranks, each.cell.size_bytes, each.last_delays_us[0]) for each in times]
        fit = hockney.fit_algorithm(name, cases, network.combine_ns_per_byte, network.eager_limit_bytes)
        assert isinstance(fit, hockney.Hockney), fit
        found.append(fit)
    return found


def with_fits(found: Sequence[hockney.Hockney], factor: float) -> dict[str, float]:
    """In how many cells a grid costs least, and its speed-up over the best base algorithm."""
    network = machine.read(FIT_MACHINE)
    by_name = {each.expression: each for each in found}

    @cache
    def cost_of(name: str, ranks: int, size_bytes: int) -> float:
        fit, worse = by_name[name], factor if name == "rabenseifner" else 1
        seconds = _core.cost(
            "allreduce", name, ranks, size_bytes, a=worse * 1e-6 * fit.latency_us.value,
            b=worse * 1e-9 / fit.bandwidth_gb_per_s.value, c=1e-9 * network.combine_ns_per_byte,
            eager_bytes=network.eager_limit_bytes,
        )  # fmt: skip
        assert seconds is not None
        return seconds

    def least(ranks: int, size_bytes: int) -> float:
        return min(cost_of(name, ranks, size_bytes) for name in BASE)

    speedups = [
        least(ranks, size) / min(least(d, size) + least(ranks // d, size) for d in divisors(ranks))
        for ranks in map(int, RANKS.split(","))
        for size in parse_sizes(SIZES)
    ]
    grids = [each for each in speedups if each > 1]
    return {
        "factor": factor,
        "cells": len(speedups),
        "grids": len(grids),
        "mean": math.fsum(max(each, 1) for each in speedups) / len(speedups),
        "most": max(speedups),
    }


FIT_HEADINGS = ("algorithm", "latency, µs", "rate, GB/s", "median error", "R²")
CHOICE_HEADINGS = ("Rabenseifner's times", "cells where a grid wins", "mean speed-up", "of the best grid")


def fit_rows(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [
        [f"`{each['algorithm']}`", digits(each["latency_us"]), digits(each["bandwidth_gb_per_s"]),
         f"{each['error']:.1%}", f"{each['r_squared']:.3f}"]
        for each in found
    ]  # fmt: skip


def choice_rows(found: Sequence[Mapping[str, float]]) -> list[list[str]]:
    return [
        [f"{each['factor']:g}", f"{each['grids']} of {each['cells']}", f"{each['mean']:.2f}",
         f"{each['most']:.2f}"]
        for each in found
    ]  # fmt: skip


# On 1,024 ranks the paper's ResNet-50 trains in 9% less time, and SUARA is 2.65 times as fast. So this share
# of the training is allreduces.
TRAINING_SAVED, MEAN_SPEEDUP, MOST_SPEEDUP = 0.09, 2.0, 2.65
SHARE = TRAINING_SAVED / (1 - 1 / MOST_SPEEDUP)
APPLICATION_HEADINGS = (
    "messages",
    "grid, times as fast",
    "training saved",
    "offbeat, times as fast",
    "saved",
)


def saved_of_training(speedup: float) -> float:
    return SHARE * (1 - 1 / speedup)


def speedup(pair: Mapping[str, Any]) -> float:
    return float(pair["before_us"] / pair["after_us"])


def grid_speedup(cell: Mapping[str, Any]) -> float:
    """Of the best grid without Rabenseifner's algorithm over Open MPI's choice."""
    return float(cell["without_rabenseifner"]["before_us"] / cell["best_grid"]["after_us"])


def application(cells: Sequence[Mapping[str, Any]]) -> dict[int, tuple[float, float]]:
    """By the size of all messages: how much faster the grid and offbeat's best are on 1,024 ranks."""
    return {
        each["size_bytes"]: (grid_speedup(each), speedup(each["offbeat"]))
        for each in cells
        if each["ranks"] == 1024
    }


def application_rows(cells: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [
        [
            format_size(size),
            *(text for each in both for text in (f"{each:.2f}", f"{saved_of_training(each):.1%}")),
        ]
        for size, both in application(cells).items()
    ]


def lines(cells: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """The lines of a figure: how many times as fast as Open MPI's choice the best grid is, over the ranks."""
    found: dict[str, list[tuple[float, float]]] = {}
    for each in cells:
        size = each["size_bytes"]
        if size in (1 << 20, 4 << 20, 16 << 20):
            found.setdefault(f"grid, {format_size(size)}", []).append((each["ranks"], grid_speedup(each)))
            if size != 4 << 20:
                label = f"offbeat, {format_size(size)}"
                found.setdefault(label, []).append((each["ranks"], speedup(each["offbeat"])))
    return found


def verdicts(document: Mapping[str, Any]) -> list[Verdict]:
    cells = document["cells"]
    found = []
    others, ours = ([speedup(each[name]) for each in cells] for name in ("without_rabenseifner", "offbeat"))
    for what, other, best, theirs in (
        ("mean", fmean(others), fmean(ours), MEAN_SPEEDUP),
        ("most", max(others), max(ours), MOST_SPEEDUP),
    ):
        found.append(
            Verdict(
                f"figure 8: times as fast as Open MPI's choice, {what}",
                f"{theirs:g}",
                f"{other:.2f} without Rabenseifner's algorithm, {best:.2f} by offbeat's best",
                beaten(best > theirs, "a long message gains least, and half of these are long"),
            )
        )
    ranks, _ = FIGURE_7
    for size, times in document["figure_7_us"].items():
        best = min(times, key=times.__getitem__)
        found.append(
            Verdict(
                f"figure 7: the best grid for {ranks} ranks and {format_size(int(size))}",
                "16x32 or 32x16",
                re.findall(r"\d+x\d+", best)[0],
                "as in the paper"
                if ("16x32" in best or "32x16" in best)
                else "bytes count more than latencies",
            )
        )
    grids, bests = (
        max(map(saved_of_training, each)) for each in zip(*application(cells).values(), strict=True)
    )
    found.append(
        Verdict(
            "section 5: time of training saved on 1,024 ranks, at most",
            percent(TRAINING_SAVED),
            f"{percent(grids)} by a grid, {percent(bests)} by offbeat's best",
            beaten(bests > TRAINING_SAVED, "less"),
        )
    )
    return found


def figure_7(ranks: int, size_bytes: int) -> dict[str, float]:
    """The time in microseconds of each grid of segmented rings."""
    grids = [grid(columns, ranks // columns, SEGMENTED) for columns in divisors(ranks)]
    found = simulate(SHAHEEN, Shape(ranks, 1), "allreduce", [size_bytes], grids)
    return {result.algorithm: result.last_delays_us[0] for result in found.results}


def show(cells: Sequence[Cell]) -> None:
    for title, speedups in (
        (
            "segmented rings on the square grid over a flat one, by the paper's formula",
            [each.published_speedup for each in cells],
        ),
        ("segmented rings on the square grid over a flat one", [each.rings.speedup for each in cells]),
        (
            "the best grid over the best algorithm for all ranks, without Rabenseifner's",
            [each.best_grid.speedup for each in cells],
        ),
        (
            "the better of these two over Open MPI's choice",
            [each.without_rabenseifner.speedup for each in cells],
        ),
        ("the best of all six over Open MPI's choice", [each.all_six.speedup for each in cells]),
        ("the best of offbeat's over Open MPI's choice", [each.offbeat.speedup for each in cells]),
    ):
        print_speedups(title, cells, speedups)
    print_table(
        "where a grid wins, without Rabenseifner's algorithm",
        ["ranks", "size", "one algorithm", "µs", "grid", "µs"],
        [
            [f"{each.ranks:,}", format_size(each.size_bytes), f"`{pair.before}`", digits(pair.before_us),
             f"`{pair.after}`", digits(pair.after_us)]
            for each in cells
            if (pair := each.best_grid).speedup > 1
        ],
    )  # fmt: skip


def print_speedups(title: str, cells: Sequence[Cell], speedups: Sequence[float]) -> None:
    """Print a table of ranks and sizes, and its least, mean and most."""
    sizes = sorted({each.size_bytes for each in cells})
    rows: dict[int, list[str]] = {}
    for cell, speedup in zip(cells, speedups, strict=True):
        rows.setdefault(cell.ranks, [f"{cell.ranks:,}"]).append(f"{speedup:.2f}")
    print_table(
        f"figure 8, speed-up of {title}",
        ["ranks", *map(format_size, sizes)],
        list(rows.values()),
    )
    mean = math.fsum(speedups) / len(speedups)
    print(f"\nleast {min(speedups):.2f}, mean {mean:.2f}, most {max(speedups):.2f}")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--ranks", default=RANKS, help="default: %(default)s")
    made.add_argument("--sizes", default=SIZES, help="default: %(default)s")
    arguments = made.parse_args()
    numbers = [int(text) for text in arguments.ranks.split(",")]
    cells = [measure(ranks, size) for ranks in numbers for size in parse_sizes(arguments.sizes)]
    show(cells)
    ranks, sizes = FIGURE_7
    grids = {size: figure_7(ranks, size) for size in sizes if ranks in numbers}
    for size, times in grids.items():
        print_table(
            f"figure 7: {ranks} ranks, {format_size(size)}, segmented rings on each grid",
            ["grid", "µs"],
            [[f"`{name}`", digits(microseconds)] for name, microseconds in times.items()],
        )
    if 1024 in numbers:
        print_table(
            f"ResNet-50 on 1,024 ranks, of whose time {SHARE:.1%} are allreduces",
            APPLICATION_HEADINGS,
            application_rows([asdict(each) for each in cells]),
        )
    fitted = fits()
    parameters = [
        {"algorithm": each.expression, "latency_us": each.latency_us.value,
         "bandwidth_gb_per_s": each.bandwidth_gb_per_s.value, "error": each.error,
         "r_squared": each.r_squared}
        for each in fitted
    ]  # fmt: skip
    choices = [with_fits(fitted, factor) for factor in FACTORS]
    print_table(
        f"a latency and a rate for each algorithm, on {FIT_MACHINE}", FIT_HEADINGS, fit_rows(parameters)
    )
    print_table("the choice by these, with Rabenseifner's made worse", CHOICE_HEADINGS, choice_rows(choices))
    write_json(
        arguments.json,
        SHAHEEN,
        {
            "cells": [asdict(each) for each in cells],
            "figure_7_us": grids,
            "fits": parameters,
            "choices": choices,
        },
    )


if __name__ == "__main__":
    main()
