#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the rules between nodes with what the MPIs would run there, by simulation.

    build/venv/bin/python benchmarks/many_nodes.py --json
    build/venv/bin/python benchmarks/many_nodes.py --shapes 16x48 --collectives reduce --try ring

Each time is the last delay: from the last arrival to the last exit. A ratio is the time of the rule divided
by that of the host's default, with all ranks together, with one late node and with one late rank. A call of
which no rule says anything is the host's, so nothing is simulated.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial
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
SHAPES = "16x48,64x64,256x32,2048x16,32x1,1024x1"
COLLECTIVES = "allreduce,bcast,reduce,allgather,alltoall,barrier"
SIZES = "8,1KiB,16KiB,256KiB,4MiB"
PATTERNS = ("balanced", "node_late", "last_delayed")
MOST_RATIO = 20.0  # a host that takes longer than this times the rule is not simulated to the end
MOST_BYTES = 1 << 30  # of a result; what needs more memory is not simulated
MOST_MESSAGES = 40_000_000  # of an alltoall

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
        nodes = NODES if shape.ranks_per_node > 1 else NODES[:1]
        for name, network, size in product(nodes, NETWORKS, sizes if collective != "barrier" else [0]):
            if can_be_simulated(shape, collective, size):
                yield Question(f"{name}+{network}", shape, collective, size)


def can_be_simulated(shape: Shape, collective: str, size_bytes: int) -> bool:
    """Whether memory and time suffice. What is left out is never a cell of the table."""
    if collective == "alltoall" and shape.ranks**2 > MOST_MESSAGES:
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
    cells = []
    for host, found in by_host.items():
        for each in found if tried else [min(found, key=lambda k: own.get(k, math.inf))]:
            if each not in own:
                continue
            ratios = {
                pattern: _ratio(
                    _us(place, size, _whole(collective, each), pattern, skew_us),
                    _us(place, size, phases[host][0], pattern, skew_us, most_us),
                )
                for pattern in PATTERNS
            }
            cells.append(
                {
                    "nodes": shape.nodes,
                    "ranks_per_node": shape.ranks_per_node,
                    "mpi": host,
                    "collective": collective,
                    "size_bytes": size,
                    "machine": name,
                    "algorithm": each,
                    "us": float(f"{own[each]:.4g}"),
                    "of_host": ratios,
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
    return float(f"{us / max(of_us, 1e-3):.3g}")


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
    """A row for each shape, collective, MPI and algorithm: for each size the mean and the worst ratio."""
    groups: dict[tuple[str, str, str, str], dict[int, list[float]]] = {}
    for cell in cells:
        shape = f"{cell['nodes']}x{cell['ranks_per_node']}"
        group = groups.setdefault((shape, cell["collective"], cell["mpi"], cell["algorithm"]), {})
        group.setdefault(cell["size_bytes"], []).extend(cell["of_host"].values())
    return [
        [*key, ", ".join(f"{format_size(n)}: {mean(of):.2f} (to {max(of):.2f})" for n, of in group.items())]
        for key, group in groups.items()
    ]


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
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    written = result_file.ResultFile(arguments.json)
    shapes = [Shape(*map(int, each.split("x"))) for each in arguments.shapes.split(",")]
    sizes = [parse_size(each) for each in arguments.sizes.split(",")]
    asked = list(questions(shapes, arguments.collectives.split(","), sizes))
    if arguments.machines:
        asked = [each for each in asked if each.machine in arguments.machines.split(",")]
    asked.sort(key=lambda each: -each.shape.ranks * max(each.size_bytes, 1))
    cells: list[Cell] = []
    workers.apply(partial(answer, tried=arguments.tried), asked, cells.extend, arguments.processes)
    cells.sort(
        key=lambda c: (
            c["collective"],
            c["nodes"],
            c["ranks_per_node"],
            c["mpi"],
            c["size_bytes"],
            c["machine"],
        )
    )
    print(
        table(
            ("shape", "collective", "MPI", "rule", "time of the rule / time of the MPI"),
            rows(cells),
        )
    )
    written.write(cells)


if __name__ == "__main__":
    main()
