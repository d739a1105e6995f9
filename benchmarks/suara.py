#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the grids that offbeat chooses with the best of all grids and pairs, found by simulating them all.

    PYTHONPATH=... benchmarks/suara.py [--machine NAME|FILE] [--ranks 16,37,64] [--ppn N] \
        [--sizes 64KiB,1MiB] [--json]

For each number of ranks and each size it simulates the chosen grid, each of the base algorithms alone, and
every pair of them on every grid of two dimensions whose ranks divide P. If P has no grid near its root, it
also simulates grids into which the surplus ranks fold. With one rank on a node it leaves out pairs that the
model holds for more than --skip times as slow as the chosen grid, because simulating them takes most of the
time. Each line says how much slower the chosen grid is than the best one. The last lines say how long a
decision takes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import result_file
from offbeat import _core
from offbeat.simulate import machine as machines
from offbeat.units import format_size, parse_size

BASES = (
    "linear",
    "binomial",
    "recursive_doubling",
    "ring",
    "ring_segmented(8KiB)",
    "ring_segmented(64KiB)",
    "rabenseifner",
)
MOST_CORES = 6  # numbers of ranks into which a P without a good grid is folded


@dataclass(frozen=True)
class Timed:
    """An expression and its simulated time."""

    seconds: float
    expression: str


def divisors(number: int) -> list[int]:
    """All but 1 and the number itself."""
    return [d for d in range(2, number) if number % d == 0]


class Network:
    """One machine, with as many ranks on each node."""

    def __init__(self, name: str, ppn: int) -> None:
        self.path = machines.path_of(name)
        self._ppn = ppn
        self._machine = machines.read(name)

    def simulated(self, ranks: int, expression: str, size: int) -> Timed:
        machine = self._machine.simulated(ranks // self._ppn, self._ppn)
        return Timed(max(machine.run("allreduce", expression, size, [], None)["exits"]), expression)

    def chosen(self, ranks: int, size: int) -> str:
        return _core.cheapest_grid(ranks, size, ranks_per_node=self._ppn, machine=self.path)[0]

    def model(self, ranks: int, expression: str, size: int) -> float:
        if self._ppn > 1:
            return 0  # not known, so nothing is left out
        # The least latency and the highest rate, so that no fast grid is skipped.
        latency_us = min(each.latency_us for each in self._machine.between_nodes)
        rate = max(each.bandwidth_gb_per_s for each in self._machine.between_nodes)
        message = self._machine.message_between_nodes
        overheads = message.send_overhead_us + message.receive_overhead_us
        cost = _core.cost(
            "allreduce",
            expression,
            ranks,
            size,
            a=(latency_us + overheads) * 1e-6,
            b=1e-9 / rate,
            c=self._machine.combine_ns_per_byte * 1e-9,
            o=max(message.send_overhead_us, message.receive_overhead_us) * 1e-6,
            v=overheads * 1e-6,
            eager_bytes=self._machine.eager_limit_bytes,
        )
        assert cost is not None
        return cost


def grids(cores: list[int]) -> list[str]:
    """Every pair of base algorithms on every grid of two dimensions with so many ranks."""
    return [
        f"grid({columns}x{core // columns}, {row}, {column})"
        for core in cores
        for columns in divisors(core)
        for row in BASES
        for column in BASES
    ]


def cores(ranks: int) -> list[int]:
    """The ranks of the grids to try: all, and some that are nearly square if P has no grid near its root."""
    best = max((d for d in divisors(ranks) if d * d <= ranks), default=1)
    if best * best * 4 >= ranks:
        return [ranks]
    half = (ranks + 1) // 2
    square = {q: max((d for d in divisors(q) if d * d <= q), default=1) ** 2 / q for q in range(half, ranks)}
    nearly = sorted(square, key=lambda q: (square[q] < 0.5, q))[:MOST_CORES]
    power = 1 << (ranks.bit_length() - 1)
    return [ranks, *dict.fromkeys([*nearly, power])]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="cluster")
    parser.add_argument("--ranks", default="16,23,36,37,48,61,64")
    parser.add_argument("--sizes", default="1KiB,64KiB,1MiB")
    parser.add_argument("--ppn", type=int, default=1)
    parser.add_argument("--skip", type=float, default=2.0)
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    network = Network(arguments.machine, arguments.ppn)
    cells = []
    losses = []
    for ranks in map(int, arguments.ranks.split(",")):
        for size in map(parse_size, arguments.sizes.split(",")):
            chosen = network.simulated(ranks, network.chosen(ranks, size), size)
            limit = arguments.skip * chosen.seconds
            found = [*BASES, *grids(cores(ranks))]
            tried = [each for each in found if network.model(ranks, each, size) <= limit]
            best = min(
                (network.simulated(ranks, each, size) for each in tried if each != chosen.expression),
                key=lambda each: each.seconds,
                default=chosen,
            )
            loss = chosen.seconds / min(best.seconds, chosen.seconds) - 1
            losses.append(loss)
            cells.append(
                {"ranks": ranks, "ppn": arguments.ppn, "size_bytes": size, "chosen": chosen.expression,
                 "chosen_us": chosen.seconds * 1e6, "best_other": best.expression,
                 "best_other_us": best.seconds * 1e6, "simulated": len(tried)}
            )  # fmt: skip
            instead = f" instead of {best.expression}" if loss > 0 else ""
            print(
                f"{ranks} ranks, {format_size(size)}: {chosen.expression} {chosen.seconds * 1e6:.1f} us, "
                f"{loss:.1%} slower than the best of {len(tried)} ({len(found)} grids){instead}",
                flush=True,
            )
    above = sum(loss > 0.03 for loss in losses)
    print(f"{len(losses)} cells, at most {max(losses):.1%} slower than the best, {above} above 3%")
    decisions_us = {}
    for ranks in (16, 64, 840, 1021, 1024):
        if ranks % arguments.ppn != 0:
            continue
        times = []
        for _ in range(1000):
            start = time.perf_counter()
            _core.cheapest_grid(ranks, 1 << 20, ranks_per_node=arguments.ppn)
            times.append(time.perf_counter() - start)
        decisions_us[ranks] = least = min(times) * 1e6
        print(f"{ranks} ranks: a decision takes {least:.1f} us (least of {len(times)}, from Python)")
    results.write(cells, simulated_machine=arguments.machine, decisions_us=decisions_us)


if __name__ == "__main__":
    main()
