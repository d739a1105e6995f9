# SPDX-License-Identifier: BSD-3-Clause
"""What to measure: the probes that the ranks run (src/mpi/bench/calibration.hpp), in rounds.

Each round has one size at random in every range of sizes, and its probes are in random order. So a machine
that is slower for a while is slower for all sizes alike, and no size is always a power of two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_SIZE_EDGES_BYTES = (1, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20)
LONGEST = _SIZE_EDGES_BYTES[-1]
KINDS = (
    "round_trip", "exchange", "fan_out", "fan_in", "late", "eager", "combine", "copy", "line", "window",
)  # fmt: skip
_VECTOR_EDGES_BYTES = (4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)  # of what a core works on
_WINDOW_EDGES_BYTES = (4 << 10, 32 << 10, 256 << 10)  # of what stays in a core's own cache
_LATE_US = 3000.0
_SHORT_MESSAGE_BYTES = 256  # bytes of a message whose own time matters little
_MAX_FAN_RANKS = 8
_EAGER_ROUNDS = 3


@dataclass(frozen=True)
class Layout:
    """Which ranks are on which node."""

    node_of_rank: Sequence[int]
    cpus: int  # of a node

    @property
    def nodes(self) -> list[list[int]]:
        """The ranks of each node."""
        found: dict[int, list[int]] = {}
        for rank, node in enumerate(self.node_of_rank):
            found.setdefault(node, []).append(rank)
        return list(found.values())

    @property
    def ranks_per_node(self) -> int:
        """The ranks on the node that has the fewest."""
        return min(len(ranks) for ranks in self.nodes)

    @property
    def shares_cores(self) -> bool:
        """Whether a node has more ranks than cores."""
        return max(len(ranks) for ranks in self.nodes) > self.cpus


@dataclass(frozen=True)
class Probe:
    """One line for the ranks."""

    kind: str
    round: int
    size_bytes: int
    lead_us: float
    ranks: Sequence[int]

    def line(self) -> str:
        """The probe as the ranks read it: one line."""
        numbers = " ".join(map(str, self.ranks))
        return f"{self.kind} {self.round} {self.size_bytes} {self.lead_us:g} {numbers}\n"


@dataclass(frozen=True)
class Result:
    """The samples of a probe, in microseconds. A result of ``eager`` has one length in bytes instead."""

    kind: str
    round: int
    size_bytes: int
    ranks: Sequence[int]
    us: Sequence[float]
    receive_us: Sequence[float] = field(default_factory=list)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Result:
        """The result that a file or a rank has. Raises KeyError, TypeError or ValueError if it is damaged."""
        found = Result(
            str(values["kind"]),
            int(values["round"]),
            int(values["bytes"]),
            [int(rank) for rank in values["ranks"]],
            [float(us) for us in values["us"]],
            [float(us) for us in values.get("receive_us", [])],
        )
        samples = [*found.us, *found.receive_us]
        if not found.us or not found.ranks or not all(map(math.isfinite, samples)):
            raise ValueError("a probe without samples")
        if found.kind not in KINDS or found.size_bytes < 0 or found.round < 0:
            raise ValueError(
                f"a probe '{found.kind[:20]}' of {found.size_bytes} bytes in round {found.round}"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """The result as the file has it."""
        values = {"kind": self.kind, "round": self.round, "bytes": self.size_bytes}
        values |= {"ranks": list(self.ranks), "us": list(self.us)}
        return values | ({"receive_us": list(self.receive_us)} if self.receive_us else {})


def probes_of_rounds(layout: Layout, first: int, count: int, seed: int) -> Iterator[Probe]:
    """The probes of ``count`` rounds from number ``first``, shuffled within each round."""
    for number in range(first, first + count):
        chance = random.Random(f"{seed} {number}")
        found = list(_round(layout, number, chance))
        chance.shuffle(found)
        yield from found


def _round(layout: Layout, number: int, chance: random.Random) -> Iterator[Probe]:
    nodes = layout.nodes
    here = chance.choice([ranks for ranks in nodes if len(ranks) == max(map(len, nodes))])
    yield from _cores(layout, number, here, chance)
    if len(here) > 1:
        pair = chance.sample(here, 2)
        yield from _messages(number, pair, here, chance)
        for least, longest in pairwise(_SIZE_EDGES_BYTES):
            yield Probe("exchange", number, _size(least, longest, chance), 0, pair)
        if not layout.shares_cores:
            yield Probe("line", number, 8, 0, here[:2])
            for least, longest in pairwise(_WINDOW_EDGES_BYTES):
                yield Probe("window", number, _size(least, longest, chance), 0, here[:2])
    if len(nodes) > 1:
        one, other = chance.sample(nodes, 2)
        pair = [chance.choice(one), chance.choice(other)]
        others = [rank for ranks in nodes if ranks is not one for rank in ranks]
        yield from _messages(number, pair, [pair[0], *others], chance)
        most = min(len(one), len(other))
        for pairs in sorted({2, most} if most > 1 else set()):
            for least, longest in pairwise(_SIZE_EDGES_BYTES[-3:]):
                ranks = [rank for both in zip(one[:pairs], other[:pairs], strict=True) for rank in both]
                yield Probe("round_trip", number, _size(least, longest, chance), 0, ranks)


def _cores(layout: Layout, number: int, here: Sequence[int], chance: random.Random) -> Iterator[Probe]:
    for kind in ("combine", "copy"):
        for least, longest in pairwise(_VECTOR_EDGES_BYTES):
            size = _size(least, longest, chance) // 4 * 4
            yield Probe(kind, number, size, 0, [here[0]])
            if kind == "combine" and len(here) > 1 and not layout.shares_cores:
                yield Probe(kind, number, size, 0, here)


def _messages(
    number: int, pair: Sequence[int], near: Sequence[int], chance: random.Random
) -> Iterator[Probe]:
    """Messages between two ranks, and between the first of them and those of ``near``."""
    if number < _EAGER_ROUNDS:
        yield Probe("eager", number, LONGEST, _LATE_US, pair)
    for least, longest in pairwise(_SIZE_EDGES_BYTES):
        yield Probe("round_trip", number, _size(least, longest, chance), 0, pair)
    yield Probe("late", number, _size(1, _SHORT_MESSAGE_BYTES, chance), 0, pair)
    others = [rank for rank in near if rank != pair[0]]
    if len(others) > 1:
        for kind in ("fan_out", "fan_in"):
            peers = chance.sample(others, chance.randint(1, min(len(others), _MAX_FAN_RANKS)))
            yield Probe(kind, number, _size(1, _SHORT_MESSAGE_BYTES, chance), 1000, [pair[0], *peers])


def _size(least: int, longest: int, chance: random.Random) -> int:
    return round(math.exp(chance.uniform(math.log(least), math.log(longest))))
