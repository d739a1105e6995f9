#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate offbeat's defaults on one node beside all other algorithms and the defaults of the hosts.

    build/venv/bin/python benchmarks/one_node.py --json
    build/venv/bin/python benchmarks/one_node.py --machines rome --collectives bcast --ranks 16,64

A time is the last delay. Delays of a pattern are as long as the fastest call without delays. Where the rules
name alternatives, the faster one counts, because the job measures them; `native` is then Open MPI's default.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import result_file  # noqa: E402
from markdown_table import table  # noqa: E402
from offbeat import _core  # noqa: E402
from offbeat.bench import arrival_patterns  # noqa: E402
from offbeat.simulate import hosts, machine  # noqa: E402
from offbeat.simulate.simulation import Shape  # noqa: E402
from offbeat.units import format_size, parse_sizes  # noqa: E402

MACHINES = ("rome", "genoa", "sapphire_rapids", "grace")
RANKS = (2, 4, 8, 16, 32, 64, 128)
SIZES = "8,512,4KiB,16KiB,64KiB,256KiB,1MiB,16MiB"
PATTERNS = ("balanced", "last_delayed", "random", "ascending", "bimodal")
HOST = "openmpi"  # whose rules are looked up; on one node most hold for all hosts
CANDIDATES = {
    "allreduce": (
        "arrival_tree", "arrival_shares", "arrival_leader", "arrival_chain", "recursive_doubling", "ring",
        "rabenseifner", "ring_segmented(64KiB)", "binomial", "recursive_multiplying(4)",
    ),
    "reduce": (
        "arrival_tree", "arrival_shares", "binomial", "linear", "rabenseifner", "pipeline(16KiB, chain)",
    ),
    "bcast": (
        "arrival_direct", "binomial", "chain", "linear", "scatter_allgather", "pipeline(16KiB, chain)",
    ),
    "allgather": ("arrival_direct", "bruck", "ring", "recursive_doubling", "neighbor_exchange", "linear"),
    "alltoall": ("arrival_direct", "bruck", "linear", "pairwise"),
    "reduce_scatter": ("arrival_direct", "arrival_shares", "recursive_halving", "ring", "pairwise"),
    "barrier": ("arrival_counter", "dissemination"),
}  # fmt: skip
MOST_BYTES = 2 << 20  # of all blocks together
MOST_BYTES_OF_ALL = 512 << 20  # of all ranks together: longer calls are like those of fewer ranks
SLOW = 4.0  # candidates that take so many times as long without delays are not simulated with them
SEED, DRAWS = 1, 1
LIMIT = 1.1  # a default that takes longer than this is over the limit
NS_PER_US = 1000.0
Cell = dict[str, Any]
BOUND_HEADINGS = (
    "machine", "bound, together", "simulated", "times the bound", "bound, one late", "simulated",
    "times the bound",
)  # fmt: skip
HEADINGS = ("collective", "machine", "cells", "over 1.10", "median", "worst", "in the call")


def lengths(collective: str, ranks: int, sizes: Sequence[int]) -> list[int]:
    """The lengths of calls that are simulated."""
    if collective == "barrier":
        return [0]
    most = MOST_BYTES // ranks if collective in ("allgather", "alltoall") else MOST_BYTES_OF_ALL // ranks
    return [size for size in sizes if size <= most]


def default_expressions(collective: str, ranks: int, size_bytes: int) -> list[str]:
    """The alternatives of the built-in rule."""
    for row in _core.plan(collective, HOST, 1, ranks, True, None, "", ""):
        if row["most_bytes"] is None or size_bytes <= row["most_bytes"]:
            return row["alternatives"] or [row["expression"]]
    raise ValueError(f"{collective} of {size_bytes} bytes: the plan ends before")


class Call:
    """One call on a machine, and the algorithms for it."""

    def __init__(self, place: hosts.Place, collective: str, size_bytes: int) -> None:
        self._place, self._size_bytes = place, size_bytes
        self.ways: dict[str, tuple[hosts.Phases, ...]] = {}
        self.default: list[str] = []
        for name in CANDIDATES[collective]:
            self._add(collective, name)
        for host in hosts.NAMES:
            if phases := hosts.default_algorithm(host, collective, place.shape, size_bytes):
                self.ways[f"native of {host}"] = phases
        for name in default_expressions(collective, place.shape.ranks, size_bytes):
            if name == "native":
                self.default += [f"native of {HOST}"] * (f"native of {HOST}" in self.ways)
            else:
                self._add(collective, name)
                self.default.append(name)

    def _add(self, collective: str, name: str) -> None:
        if self._place.can_run(collective, name):
            self.ways[name] = ((hosts.Phase("all", collective, name),),)

    def us(self, name: str, rounds: Sequence[Sequence[float]], most_us: float) -> float | None:
        """The time of a way, or None if it takes longer than that."""
        times = []
        for phases in self.ways[name]:
            try:
                times.append(
                    median(
                        self._place.simulate_last_delays_us(phases, self._size_bytes, rounds, None, most_us)
                    )
                )
            except hosts.TooLongError:
                continue
        return min(times, default=None)

    def times(self, rounds: Sequence[Sequence[float]], names: Sequence[str], slow: float) -> dict[str, float]:
        """The times of the default, and of the ways that are not much slower."""
        found: dict[str, float] = {}
        for name in [*self.default, *names]:
            if name not in found:
                us = self.us(name, rounds, slow * min(found.values(), default=float("inf")))
                if us is not None:
                    found[name] = us
        return found


def cells_of(place: hosts.Place, name: str, collective: str, size_bytes: int) -> Iterator[Cell]:
    """The cells of one call, one for each pattern."""
    ranks = place.shape.ranks
    call = Call(place, collective, size_bytes)
    balanced = call.times([[0.0] * ranks], list(call.ways), SLOW)
    skew_us = min(balanced.values())
    fast = [each for each, us in balanced.items() if us <= SLOW * skew_us]
    late = [each for each in call.ways if each.startswith("arrival") and each not in fast]
    for pattern in PATTERNS:
        times = balanced
        if pattern != "balanced":
            rows = arrival_patterns.rounds(pattern, ranks, SEED, DRAWS)
            times = call.times([[skew_us * each for each in row] for row in rows], fast + late, 2.0)
        default = min(call.default, key=lambda each: times.get(each, float("inf")))
        best = min(times, key=lambda each: times[each])
        yield {
            "machine": name,
            "collective": collective,
            "ranks": ranks,
            "size_bytes": size_bytes,
            "pattern": pattern,
            "default": default,
            "default_us": float(f"{times[default]:.4g}"),
            "best": best,
            "best_us": float(f"{times[best]:.4g}"),
        }


def simulate(
    machines: Sequence[str],
    collectives: Sequence[str],
    ranks: Sequence[int],
    sizes: Sequence[int],
    note: Callable[[list[Cell]], None] = lambda _: None,
) -> list[Cell]:
    """All cells. `note` gets those so far after each number of ranks."""
    found: list[Cell] = []
    for name in machines:
        for number in ranks:
            place = hosts.Place(machine.read(name), Shape(1, number))
            for collective in collectives:
                for size_bytes in lengths(collective, number, sizes):
                    found += cells_of(place, name, collective, size_bytes)
            note(found)
    return found


def ratio(cell: Cell) -> float:
    """The default's time over the best one."""
    return float(cell["default_us"] / cell["best_us"])


def rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each collective and machine."""
    found = []
    for collective in dict.fromkeys(cell["collective"] for cell in cells):
        for name in dict.fromkeys(cell["machine"] for cell in cells):
            own = [c for c in cells if c["collective"] == collective and c["machine"] == name]
            if not own:
                continue
            worst = max(own, key=ratio)
            what = f"{worst['ranks']} ranks, {format_size(worst['size_bytes'])}, {worst['pattern']}"
            over = sum(ratio(cell) > LIMIT for cell in own)
            found.append([
                f"`{collective}`", f"`{name}`", str(len(own)), str(over), f"{median(map(ratio, own)):.2f}",
                f"{ratio(worst):.1f}", f"{what}: `{worst['best']}`" if ratio(worst) > 1 else "-",
            ])  # fmt: skip
    return found


def bound_us(read: machine.Machine, size_bytes: int, late: bool) -> float:
    """A time below which no allreduce can be. An input is put, inputs are combined, the result is read.

    Each rank does so with as many bytes as the vector has, at the rate of the nearest level, and data go to
    the farthest core and back. After a late rank the others have combined theirs: two of the three are left.
    """
    nearest, farthest = read.levels[0], read.levels[-1]
    ns_per_byte = max(1 / nearest.core_gb_per_s, read.copy_ns_per_byte)
    return ((2 if late else 3) * size_bytes * ns_per_byte + 2 * farthest.line_ns) / NS_PER_US


def bound_rows(cells: Sequence[Cell], ranks: int = 64, size_bytes: int = 64 << 10) -> list[list[str]]:
    """The allreduce beside its bound on each machine, all together and after the last rank."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        is_shown = cell["collective"] == "allreduce" and cell["pattern"] in PATTERNS[:2]
        if is_shown and (cell["ranks"], cell["size_bytes"]) == (ranks, size_bytes):
            bound = bound_us(machine.read(cell["machine"]), size_bytes, cell["pattern"] != PATTERNS[0])
            us = cell["default_us"]
            row = found.setdefault(cell["machine"], [f"`{cell['machine']}`"])
            row += [f"{bound:.1f}", f"{us:.1f}", f"{us / bound:.1f}"]
    return list(found.values())


def worst_by_call(cells: Sequence[Cell]) -> list[str]:
    """For each call over the limit, the worst pattern; a line each."""
    found: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        key = cell["machine"], cell["collective"], cell["ranks"], cell["size_bytes"]
        if key not in found or ratio(cell) > ratio(found[key]):
            found[key] = cell
    return [
        f"{c['machine']} {c['collective']} {c['ranks']} {format_size(c['size_bytes'])} {c['pattern']}: "
        f"{c['default']} {c['default_us']}, {c['best']} {c['best_us']}: {ratio(c):.2f}"
        for c in found.values()
        if ratio(c) > LIMIT
    ]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--collectives", default=",".join(CANDIDATES))
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--calls", action="store_true", help="print all calls over the limit, too")
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    written = result_file.ResultFile(arguments.json)
    cells = simulate(
        arguments.machines.split(","),
        arguments.collectives.split(","),
        [int(each) for each in arguments.ranks.split(",")],
        parse_sizes(arguments.sizes),
        written.write_part,
    )
    if arguments.calls:
        for line in worst_by_call(cells):
            print(line)
    print(table(HEADINGS, rows(cells)))
    if bounds := bound_rows(cells):
        print(table(BOUND_HEADINGS, bounds))
    written.write(cells)


if __name__ == "__main__":
    main()
