#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate figures 7 to 10, table 3 and the reduce of paper 0 (Alizadeh et al., EuroMPI 2022): late ranks.

    build/venv/bin/python benchmarks/papers/paper_0.py [--nodes 2,32] [--sizes 64KiB,1MiB] [--json FILE]

Each rank is late by a random part of MIF times the time of one message. As in the paper, a time is the mean
of all ranks from its arrival to its exit, so it includes the wait for the last rank. `no_less_us` is what a
collective that ends with the last arrival takes. A step of a training (figures 9 and 10) is its computing and
one allreduce after the other, of which nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from offbeat.bench import arrival_patterns
from offbeat.simulate import machine
from offbeat.simulate.simulation import Shape
from offbeat.units import format_size, parse_size, parse_sizes
from paper_tables import Verdict, beaten, digits, parser, percent, print_table, write_json

CEDAR = machine.read(str(Path(__file__).resolve().parents[2] / "docs" / "gallery" / "cedar.toml"))
MIFS = (10, 20, 50)
CLUSTER_MIF = 5.85  # table 1: long messages of ResNet-50
SEED = 1
SHORT = "8,1KiB,4KiB,16KiB,32KiB,64KiB"
LONG = "64KiB,128KiB,256KiB,512KiB,1MiB,2MiB,4MiB,8MiB,16MiB,32MiB,64MiB"
NODES = "2,4,8,16,32"
FIGURE_7 = ("smp", "recursive_doubling", "arrival_leader", "arrival_tree", "arrival_shares")
FIGURE_8 = ("rabenseifner", "binomial", "arrival_chain", "arrival_shares")
REDUCE = ("rabenseifner", "binomial", "arrival_tree", "arrival_shares")
TABLE_3 = (
    "rabenseifner",
    "hierarchy(arrival_shares, rabenseifner)",
    "hierarchy(arrival_leader, rabenseifner)",
    "hierarchy(arrival_chain, rabenseifner)",
    "lanes(arrival_chain, rabenseifner)",
    "pipeline(512KiB, bine)",
)
HIERARCHIES, OURS = TABLE_3[1:4], TABLE_3[4:]  # the paper's, and those that it does not have

NATIVE = ("smp", "recursive_doubling", "rabenseifner", "binomial")  # with which the paper compares
ITS_OWN = {"figure 7": "arrival_leader", "figure 8": "arrival_chain", "table 3": TABLE_3[1]}

BATCH = 32
FUSED = 64 << 20  # Horovod fuses gradients up to this length, and splits none


@dataclass(frozen=True)
class Model:
    """A neural network of figures 9 and 10, with one V100 for each rank."""

    name: str
    images_per_s: float  # of a V100 alone: an estimate
    mif: float  # the paper: as for ResNet-50, and below 1 for VGG16
    messages_bytes: tuple[int, ...]
    published: float | None  # the most images/s that the paper's hierarchy gains over the flat algorithm

    @property
    def computing_us(self) -> float:
        """The time of a step without communication."""
        return 1e6 * BATCH / self.images_per_s


MODELS = (
    Model("ResNet-50", 300, CLUSTER_MIF, (FUSED, 4 * 25_583_592 - FUSED), 0.17),
    Model("DenseNet201", 150, CLUSTER_MIF, (FUSED, 4 * 20_013_928 - FUSED), 0.09),
    Model("VGG16", 200, 1, (4 * 102_764_544, 4 * 16_781_312, FUSED, 4 * 18_811_688 - FUSED), None),
)


@dataclass(frozen=True)
class Published:
    """What the paper says that its algorithm saves of the time of the best native one."""

    part: str
    nodes: int
    mif: float
    mean: float | None
    most: float


PUBLISHED = (
    Published("figure 7", 1, 10, None, 0.22),
    Published("figure 7", 1, 20, None, 0.56),
    Published("figure 7", 1, 50, None, 0.37),
    Published("figure 8", 1, 10, 0.18, 0.41),
    Published("figure 8", 1, 20, 0.20, 0.44),
    Published("figure 8", 1, 50, 0.11, 0.25),
    Published("reduce", 1, 20, None, 0.73),  # its MIF is not given
    Published("table 3", 2, CLUSTER_MIF, 0.2001, 0.495),
    Published("table 3", 4, CLUSTER_MIF, 0.2897, 0.5401),
    Published("table 3", 8, CLUSTER_MIF, 0.2864, 0.5581),
    Published("table 3", 16, CLUSTER_MIF, 0.2694, 0.5764),
    Published("table 3", 32, CLUSTER_MIF, 0.2317, 0.5676),
)
HEADINGS = (
    "part", "nodes", "MIF", "paper: mean", "most", "its algorithm here: mean", "most",
    "the best here: mean", "most", "at most possible",
)  # fmt: skip


@dataclass(frozen=True)
class Saved:
    """What is saved of the best native time, over the sizes."""

    own: list[float]  # by the paper's algorithm
    best: list[float]
    bound: list[float]  # by a collective that ends with the last arrival


def saved(times: Sequence[dict[str, Any]], part: str, nodes: int, mif: float) -> Saved:
    by_size: dict[int, dict[str, float]] = {}
    for each in times:
        if (each["part"], each["nodes"], each["mif"]) == (part, nodes, mif):
            mine = by_size.setdefault(each["size_bytes"], {"": each["no_less_us"]})
            mine[each["algorithm"]] = each["mean_us"]
    found = Saved([], [], [])
    for us in by_size.values():
        native = min(us[name] for name in NATIVE if name in us)
        if part in ITS_OWN:
            found.own.append(1 - us[ITS_OWN[part]] / native)
        found.best.append(1 - min(us[name] for name in us if name not in (*NATIVE, "")) / native)
        found.bound.append(1 - us[""] / native)
    return found


def rows(times: Sequence[dict[str, Any]]) -> list[list[str]]:
    """By part: how much of the native time is saved, over the sizes, in the paper and in `times`."""
    found = []
    for said in PUBLISHED:
        mine = saved(times, said.part, said.nodes, said.mif)
        found.append(
            [said.part, str(said.nodes), f"{said.mif:g}", percent(said.mean), percent(said.most),
             *(percent(of(each) if each else None) for each in (mine.own, mine.best) for of in (fmean, max)),
             "-" if said.part == "reduce" else percent(max(mine.bound))]  # of which ranks may leave at once
        )  # fmt: skip
    return found


def must_take(factor: float) -> str:
    return f"its native call would have to take {factor:.1f} times as long as the simulated one"


def verdicts(times: Sequence[dict[str, Any]]) -> list[Verdict]:
    """The most that the paper saves and its trainings gain, beside the most here."""
    found = []
    for part, what in (
        ("figure 7", "figure 7: saved on 32 ranks, at most"),
        ("figure 8", "figure 8: saved on 4 ranks, at most"),
        ("reduce", "reduce: saved on 4 ranks, at most"),
        ("table 3", "table 3: saved on 2 to 32 nodes, at most"),
    ):
        said = max((each for each in PUBLISHED if each.part == part), key=lambda each: each.most)
        mine = saved(times, part, said.nodes, said.mif)
        ours, bound = max(mine.best), max(mine.bound)
        reason = must_take((1 - ours) / (1 - said.most))
        if part != "reduce" and bound < said.most:
            reason += f"; no call can save more than {percent(bound)} here"
        found.append(Verdict(what, percent(said.most), percent(ours), beaten(ours > said.most, reason)))
    for model in MODELS:
        own, best, factor = most_gained(times, model)
        found.append(
            Verdict(
                f"figure 9: {model.name}, images/s more than with the flat algorithm, at most",
                "less" if model.published is None else percent(model.published),
                f"{percent(own)} by its hierarchy, {percent(best)} by offbeat's best",
                beaten(best > (model.published or 0), must_take(factor)),
            )
        )
    return found


def most_gained(times: Sequence[dict[str, Any]], model: Model) -> tuple[float, float, float]:
    """What its hierarchy and offbeat's best gain at most.

    The last number says how many times as slow the flat algorithm would have to be for the paper's gain.
    """
    by_nodes = steps_us(times)[model.name].values()
    own, (best, us) = (
        max(
            ((us[TABLE_3[0]] / min(us[name] for name in names) - 1, us) for us in by_nodes), key=itemgetter(0)
        )
        for names in (HIERARCHIES[:1], OURS)
    )
    wanted_us = (1 + (model.published or 0)) * min(us[name] for name in OURS)
    factor = (wanted_us - model.computing_us) / (us[TABLE_3[0]] - model.computing_us)
    return own[0], best, factor


def steps_us(times: Sequence[dict[str, Any]]) -> dict[str, dict[int, dict[str, float]]]:
    """How long a step takes, by model, nodes and algorithm (figures 9 and 10)."""
    means = {
        (each["nodes"], each["mif"], each["size_bytes"], each["algorithm"]): each["mean_us"]
        for each in times
        if each["part"] == "figure 9"
    }
    nodes = sorted({key[0] for key in means})
    return {
        model.name: {
            number: {
                name: model.computing_us
                + sum(means[number, model.mif, size, name] for size in model.messages_bytes)
                for name in TABLE_3
            }
            for number in nodes
        }
        for model in MODELS
    }


def saved_on_nodes(times: Sequence[dict[str, Any]], nodes: int) -> dict[str, list[tuple[float, float]]]:
    """The lines of a figure: how many times as fast as a flat Rabenseifner each algorithm of table 3 is."""
    mine = {
        (each["algorithm"], each["size_bytes"]): each["mean_us"]
        for each in times
        if (each["part"], each["nodes"]) == ("table 3", nodes)
    }
    lines: dict[str, list[tuple[float, float]]] = {}
    for (name, size), us in mine.items():
        if name != TABLE_3[0]:
            label = name.replace(", rabenseifner", "")  # there is room for no more
            lines.setdefault(label, []).append((size, mine[TABLE_3[0], size] / us))
    return lines


def trainings(times: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """The bars of a figure: images/s over those without communication, by model, GPUs and algorithm."""
    shown: dict[str, Sequence[str]] = {
        "flat rabenseifner": TABLE_3[:1],
        "its hierarchy": HIERARCHIES[:1],
        "with Small-PAP": HIERARCHIES[1:2],
        "with Large-PAP": HIERARCHIES[2:],
        "offbeat's best": OURS,
    }
    computing_us = {model.name: model.computing_us for model in MODELS}
    return {
        f"Paper 0, figures 9 and 10: {model}": {
            f"{4 * nodes} GPUs": {
                label: computing_us[model] / min(us[name] for name in names) for label, names in shown.items()
            }
            for nodes, us in by_nodes.items()
        }
        for model, by_nodes in steps_us(times).items()
    }


def mean_times(
    part: str, shape: Shape, collective: str, size: int, mif: float, algorithms: Sequence[str], draws: int
) -> list[dict[str, Any]]:
    """The mean time of a call by each algorithm, over all ranks and draws."""
    cluster = CEDAR.simulated(*shape)
    pair = CEDAR.simulated(*(Shape(2, 1) if shape.nodes > 1 else Shape(1, 2)))
    latest = mif * max(pair.run("bcast", "linear", size, [], None)["exits"])
    rounds = [
        [latest * late for late in row] for row in arrival_patterns.rounds("random", shape.ranks, SEED, draws)
    ]
    no_less = fmean(max(row) - fmean(row) for row in rounds)
    found = []
    for algorithm in algorithms:
        exits = [cluster.run(collective, algorithm, size, row, None)["exits"] for row in rounds]
        mean = fmean(fmean(ends) - fmean(row) for ends, row in zip(exits, rounds, strict=True))
        found.append(
            {"part": part, "nodes": shape.nodes, "mif": mif, "size_bytes": size, "algorithm": algorithm,
             "mean_us": 1e6 * mean, "no_less_us": 1e6 * no_less}
        )  # fmt: skip
    return found


def show(times: Sequence[dict[str, Any]], algorithms: Sequence[str]) -> None:
    """Print the times of one part, a line for each number of nodes, MIF and size."""
    first = times[0]
    keys = dict.fromkeys((each["nodes"], each["mif"], each["size_bytes"]) for each in times)
    cells = {
        (each["nodes"], each["mif"], each["size_bytes"], each["algorithm"]): each["mean_us"] for each in times
    }
    print_table(
        f"{first['part']}: mean time of a call in µs",
        ["nodes", "MIF", "size", *(f"`{name}`" for name in algorithms)],
        [
            [str(nodes), f"{mif:g}", format_size(size),
             *(digits(cells[nodes, mif, size, name]) for name in algorithms)]
            for nodes, mif, size in keys
        ],
    )  # fmt: skip


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--nodes", default=NODES, help="for table 3 and figure 9; default: %(default)s")
    made.add_argument("--sizes", help="default: all")
    arguments = made.parse_args()
    wanted = parse_sizes(arguments.sizes) if arguments.sizes else None
    nodes = [int(number) for number in arguments.nodes.split(",")]

    def sizes(default: str) -> list[int]:
        return [size for size in map(parse_size, default.split(",")) if wanted is None or size in wanted]

    times: list[dict[str, Any]] = []
    for part, ranks, collective, default, algorithms in (
        ("figure 7", 32, "allreduce", SHORT, FIGURE_7),
        ("figure 8", 4, "allreduce", LONG, FIGURE_8),
        ("reduce", 4, "reduce", LONG, REDUCE),
    ):
        shape = Shape(1, ranks)
        mine = [
            time
            for mif in MIFS
            for size in sizes(default)
            for time in mean_times(part, shape, collective, size, mif, algorithms, draws=20)
        ]
        times += mine
        if mine:
            show(mine, algorithms)
    steps = [(model.mif, size) for model in MODELS for size in model.messages_bytes]
    for part, calls in (
        ("table 3", [(CLUSTER_MIF, size) for size in sizes(LONG)]),
        ("figure 9", [call for call in dict.fromkeys(steps) if wanted is None or call[1] in wanted]),
    ):
        mine = [
            time
            for number in nodes
            for mif, size in calls
            for time in mean_times(part, Shape(number, 4), "allreduce", size, mif, TABLE_3, draws=5)
        ]
        times += mine
        if mine:
            show(mine, TABLE_3)
    write_json(arguments.json, CEDAR, {"times": times})


if __name__ == "__main__":
    main()
