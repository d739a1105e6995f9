#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the rules between nodes with what the MPIs would run there, by simulation.

    build/venv/bin/python benchmarks/many_nodes.py --json
    build/venv/bin/python benchmarks/many_nodes.py --shapes 16x48 --collectives reduce --try ring

Each time is the last delay: from the last arrival to the last exit. A ratio is the time of the rule divided
by that of the host's default, with all ranks together, with one late node and with one late rank. If a rule
has alternatives, the fastest one counts, because the job measures them; `native` may be one. If no rule
covers a call, it goes to the host, and nothing is simulated.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import result_file  # noqa: E402
from markdown_table import table  # noqa: E402
from offbeat.bench import arrival_patterns  # noqa: E402
from offbeat.bench.plan import NATIVE  # noqa: E402
from offbeat.simulate import machine  # noqa: E402
from offbeat.simulate.hosts import Phase, Phases, Place, TooLongError  # noqa: E402
from offbeat.simulate.simulation import Shape  # noqa: E402
from offbeat.tune import candidates, workers  # noqa: E402
from offbeat.units import format_size, parse_size  # noqa: E402

NODES = ("rome", "genoa", "sapphire_rapids", "grace")
NETWORKS = ("infiniband", "slingshot", "ethernet_tcp")
LEAST_US = 1.0  # shorter times count as this long: the last rank finds everything ready
MANY_RANKS = 2048  # from here on few machines are simulated
FEW_MACHINES = ("rome+slingshot", "genoa+ethernet_tcp", "sapphire_rapids+infiniband", "grace+infiniband")
SHAPES = "16x48,64x64,256x32,2048x16,32x1,1024x1"
COLLECTIVES = "allreduce,bcast,reduce,allgather,alltoall,reduce_scatter"
SIZES = "8,1KiB,16KiB,256KiB,4MiB"
PATTERNS = ("balanced", "node_late", "last_delayed")
MOST_RATIO = 20.0  # a host that takes longer than this times the rule is not simulated to the end
MOST_BYTES = 1 << 30  # of a result; what needs more memory is not simulated
MOST_MESSAGES = 2_000_000  # of an alltoall
MOST_RANK_BYTES = 4 << 30  # of a vector, on all ranks together

HEADINGS = ("shape", "collective", "MPI", "rule", "all together", "a late node", "a late rank")
SUMMARY_HEADINGS = (
    "shape", "cells with a rule", "simulated", "machines", "all together", "a late node", "a late rank",
    "worst",
)  # fmt: skip
Cell = dict[str, Any]


class Question(NamedTuple):
    """A call on a machine."""

    machine: str
    shape: Shape
    collective: str
    size_bytes: int


def questions(
    shapes: Sequence[Shape], collectives: Sequence[str], sizes: Sequence[int]
) -> Iterator[Question]:
    for shape, collective in product(shapes, collectives):
        for name, size in product(machines(shape), sizes if collective != "barrier" else [0]):
            if can_be_simulated(shape, collective, size):
                yield Question(name, shape, collective, size)


def machines(shape: Shape) -> list[str]:
    """The machines for a shape. With one rank a node only the network counts."""
    if shape.ranks >= MANY_RANKS:
        return list(FEW_MACHINES)
    nodes = NODES if shape.ranks_per_node > 1 else NODES[:1]
    return [f"{node}+{network}" for node, network in product(nodes, NETWORKS)]


def can_be_simulated(shape: Shape, collective: str, size_bytes: int) -> bool:
    """Whether memory and time suffice. What is left out is never a cell of the table."""
    if collective == "alltoall" and shape.ranks**2 > MOST_MESSAGES:
        return False
    if shape.ranks * size_bytes > MOST_RANK_BYTES:
        return False
    return collective not in ("allgather", "alltoall") or size_bytes * shape.ranks <= MOST_BYTES


def answer(question: Question, tried: Sequence[str]) -> list[Cell]:
    """A cell for each host and for each algorithm that its rule has, or that is tried."""
    name, shape, collective, size = question
    by_host = {
        host: tried
        or candidates.in_force(collective, size, candidates.Place(vendor, shape.ranks, shape.nodes), None)
        for host, vendor in VENDORS.items()
    }
    if all(each == [NATIVE] for each in by_host.values()):
        return []
    place = Place(machine.read(name), shape)
    algorithms = {each for found in by_host.values() for each in found if each != NATIVE}
    algorithms = {each for each in algorithms if can_run(place, collective, each)}
    own = {each: _us(place, size, _whole(collective, each), "balanced", 0.0) for each in algorithms}
    most_us = MOST_RATIO * max(own.values(), default=math.inf)
    phases = {host: _host(place, host, collective, size, most_us) for host in by_host}
    skew_us = fmean(us for _, us in phases.values() if us < math.inf)

    @cache
    def us(phases: Phases, pattern: str, most_us: float) -> float:
        return _us(place, size, phases, pattern, skew_us, most_us)

    def ratio(expression: str, of: Phases, pattern: str) -> float:
        of_us = min(us(of, pattern, most_us), most_us)  # one that takes longer counts as that long
        return _ratio(us(_whole(collective, expression), pattern, math.inf), of_us)

    cells = []
    for host, found in by_host.items():
        times = {NATIVE: phases[host][1], **own}
        for rule in [[each] for each in found] if tried else [found]:
            known = [each for each in rule if each in times]
            if not known or known == [NATIVE]:
                continue
            cells.append(
                {
                    "nodes": shape.nodes,
                    "ranks_per_node": shape.ranks_per_node,
                    "mpi": host,
                    "collective": collective,
                    "size_bytes": size,
                    "machine": name,
                    "algorithm": " | ".join(rule),
                    "us": float(f"{min(times[each] for each in known):.4g}"),
                    "of_host": [
                        min(
                            1.0 if each == NATIVE else ratio(each, phases[host][0], pattern) for each in known
                        )
                        for pattern in PATTERNS
                    ],
                }
            )
    return cells


VENDORS = {"openmpi": "Open MPI", "mpich": "MPICH", "intel": "Intel MPI"}


def can_run(place: Place, collective: str, expression: str) -> bool:
    try:
        return place.can_run(collective, expression)
    except ValueError:  # the collective has no such algorithm
        return False


def _ratio(us: float, of_us: float) -> float:
    return float(f"{max(us, LEAST_US) / max(of_us, LEAST_US):.3g}")


def _whole(collective: str, expression: str) -> Phases:
    return (Phase("all", collective, expression),)


def _host(place: Place, host: str, collective: str, size: int, most_us: float) -> tuple[Phases, float]:
    """The fastest of the host's alternatives, and its time."""
    times = {
        phases: _us(place, size, phases, "balanced", 0.0, most_us)
        for phases in place.default_algorithm(host, collective, size)
    }
    return min(times.items(), key=lambda item: item[1])


def _us(
    place: Place, size: int, phases: Phases, pattern: str, skew_us: float, most_us: float = math.inf
) -> float:
    drawn = f"{pattern}({place.shape.ranks_per_node})" if pattern == "node_late" else pattern
    (late,) = arrival_patterns.rounds(drawn, place.shape.ranks, 1, 1)
    rounds = [[skew_us * each for each in late]]
    try:
        return max(place.simulate_last_delays_us(phases, size, rounds, None, most_us)[0], 1e-3)
    except TooLongError:
        return math.inf


def rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each rule of a shape: for each pattern and size the mean and the worst ratio."""
    groups: dict[tuple[str, str, str, str], dict[int, list[list[float]]]] = {}
    for cell in cells:
        shape = f"{cell['nodes']}x{cell['ranks_per_node']}"
        key = shape, f"`{cell['collective']}`", VENDORS[cell["mpi"]], f"`{cell['algorithm']}`"
        groups.setdefault(key, {}).setdefault(cell["size_bytes"], []).append(cell["of_host"])
    found = []
    for key, group in groups.items():
        of_patterns: list[list[str]] = [[] for _ in PATTERNS]
        for size, ratios in group.items():
            for texts, of in zip(of_patterns, zip(*ratios, strict=True), strict=True):
                texts.append(f"{format_size(size)}: {mean(of):.2f} ({max(of):.2f})")
        found.append([*key, *map(", ".join, of_patterns)])
    return found


def summary(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each shape: how many cells have a rule, and the ratios of these."""
    found = []
    for text in SHAPES.split(","):
        shape = Shape(*map(int, text.split("x")))
        own = [
            cell
            for cell in cells
            if (cell["nodes"], cell["ranks_per_node"]) == shape and cell["collective"] in COLLECTIVES
        ]
        calls = [
            (collective, size)
            for collective, size in product(COLLECTIVES.split(","), map(parse_size, SIZES.split(",")))
        ]
        with_rule = sum(
            has_rule(host, shape, collective, size) for host in VENDORS for collective, size in calls
        )
        simulated = {(cell["mpi"], cell["collective"], cell["size_bytes"]) for cell in own}
        of_patterns = list(zip(*(cell["of_host"] for cell in own), strict=True))
        found.append(
            [
                text,
                f"{with_rule} of {len(VENDORS) * len(calls)}",
                str(len(simulated)),
                str(len({cell["machine"] for cell in own})),
                *(f"{mean(of):.2f}" for of in of_patterns),
                f"{max(map(max, of_patterns)):.2f}",
            ]
        )
    return found


def has_rule(host: str, shape: Shape, collective: str, size_bytes: int) -> bool:
    """Whether a built-in rule names something else than the host's own choice."""
    place = candidates.Place(VENDORS[host], shape.ranks, shape.nodes)
    return candidates.in_force(collective, size_bytes, place, None) != [NATIVE]


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(fmean(math.log(max(each, 1e-3)) for each in ratios))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default=SHAPES, help="NODESxRANKS,... (default: %(default)s)")
    parser.add_argument("--collectives", default=COLLECTIVES, help="default: %(default)s")
    parser.add_argument("--sizes", default=SIZES, help="default: %(default)s")
    parser.add_argument("--machines", help="NODE+NETWORK,... instead of all")
    parser.add_argument(
        "--try", dest="tried", action="append", default=[], help="an expression instead of the rules"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--add", action="store_true", help="keep what the file of --json has of other calls and machines"
    )
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    if arguments.add and arguments.json is None:
        parser.error("--add needs --json")
    written = result_file.ResultFile(arguments.json)
    shapes = [Shape(*map(int, each.split("x"))) for each in arguments.shapes.split(",")]
    sizes = [parse_size(each) for each in arguments.sizes.split(",")]
    asked = list(questions(shapes, arguments.collectives.split(","), sizes))
    if arguments.machines:
        asked = [each for each in asked if each.machine in arguments.machines.split(",")]
    asked.sort(key=lambda each: -each.shape.ranks * max(each.size_bytes, 1))
    cells: list[Cell] = []
    if arguments.add:
        again = {(*each.shape, each.collective, each.size_bytes, each.machine) for each in asked}
        key = ("nodes", "ranks_per_node", "collective", "size_bytes", "machine")
        cells = [
            cell
            for cell in result_file.read(arguments.json)["cells"]
            if tuple(cell[name] for name in key) not in again
        ]
    workers.apply(partial(answer, tried=arguments.tried), asked, cells.extend, arguments.processes)
    order = ("collective", "nodes", "ranks_per_node", "mpi", "size_bytes", "machine")
    cells.sort(key=lambda cell: tuple(cell[key] for key in order))
    print(table(HEADINGS, rows(cells)))
    # The decisions of hosts.txt are simulated, not those of a version.
    written.write(
        cells, [{"name": name, "vendor": VENDORS[name], "version": "simulated"} for name in VENDORS]
    )


if __name__ == "__main__":
    main()
