# SPDX-License-Identifier: BSD-3-Clause
"""The counters of one rank, as they lie in shared memory (src/node/call_counters.hpp)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LAYOUT = 2
MAGIC = b"offbeat\0"
BLOCK_BYTES = 8192
WAIT_CLASSES = 24

_HEADER = struct.Struct("<8sIIQiiiIQq64s64s")
_COMMUNICATOR = struct.Struct("<IIIIQ64s3Q")
_COMMUNICATOR_BYTES = 128  # with the padding before its collectives
_COLLECTIVE = struct.Struct(f"<8Q{WAIT_CLASSES}I" + "IIQ" * 6 + "64s")
_COLLECTIVE_BYTES = 320
_FREE, _SUMS = 0, 2


@dataclass
class Late:
    """How often, and how long, a rank waited for another one."""

    waits: int = 0
    ns: int = 0


@dataclass
class CollectiveCounts:
    """The counters of one collective on one communicator in one rank."""

    calls: int = 0
    served: int = 0
    bytes: int = 0
    inside_ns: int = 0  # in blocking calls
    waiting_ns: int = 0  # until the last rank of the node had come
    waits: int = 0  # blocking calls for which it is known who came last
    blocking: int = 0
    since_ns: int = 0  # how long the present call lasts; 0: there is none, or it is not timed
    is_inside: bool = False
    lengths: list[int] = field(default_factory=lambda: [0] * WAIT_CLASSES)
    late: dict[int, Late] = field(default_factory=dict)
    algorithm: str = ""


@dataclass
class CommunicatorCounts:
    """The counters of one communicator in one rank."""

    name: str
    rank: int
    size: int
    identity: int
    is_group: bool
    collectives: dict[str, CollectiveCounts]
    # The call under way that blocks a thread of the program, which has begun it before.
    awaited_number: int = 0  # 0: there is none
    awaited_collective: str = ""
    awaited_ns: int = 0

    @property
    def calls(self) -> int:
        """How many collectives of all kinds the rank has begun here."""
        return sum(each.calls for each in self.collectives.values())


@dataclass
class Process:
    """The counters of one rank."""

    pid: int
    job: int
    rank: int
    ranks: int
    host: str
    mpi: str
    program: str
    elapsed_ns: int
    wait_unit_ns: float
    communicators: list[CommunicatorCounts]

    @property
    def key(self) -> tuple[str, int]:
        """What no other rank has."""
        return self.host, self.pid


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def parse(data: bytes, collectives: list[str], ticks: int, now_ns: int, program: str = "") -> Process | None:
    """The counters in a file, at a moment by both clocks. None if they are of another version of offbeat."""
    if len(data) < BLOCK_BYTES:
        return None
    magic, layout, blocks, job, pid, rank, ranks, unit, begun_ticks, begun_ns, host, mpi = (
        _HEADER.unpack_from(data)
    )
    if magic != MAGIC or layout != LAYOUT:
        return None
    rate = max(1, now_ns - begun_ns) / max(1, ticks - begun_ticks)
    communicators = []
    for number in range(1, min(blocks, len(data) // BLOCK_BYTES - 1) + 1):
        found = _communicator(data, number * BLOCK_BYTES, collectives, ticks, rate)
        if found is not None:
            communicators.append(found)
    return Process(
        pid, job, rank, ranks, _text(host), _text(mpi), program, now_ns - begun_ns, unit * rate, communicators
    )


def _communicator(
    data: bytes, offset: int, collectives: list[str], ticks: int, rate: float
) -> CommunicatorCounts | None:
    state, rank, size, is_group, identity, name, awaited, index, awaited_us = _COMMUNICATOR.unpack_from(
        data, offset
    )
    if state == _FREE:
        return None
    found = {}
    for number, collective in enumerate(collectives):
        place = offset + _COMMUNICATOR_BYTES + number * _COLLECTIVE_BYTES
        words = _COLLECTIVE.unpack_from(data, place)
        if words[0] > 0:
            found[collective] = _collective(words, ticks, rate)
    if state == _SUMS:
        if not found:
            return None
        return CommunicatorCounts("communicators that are gone", 0, 0, 0, False, found)
    awaited_collective = collectives[index] if awaited > 0 and index < len(collectives) else ""
    # A communicator says when the wait began, and a group how long it lasts.
    began = found.get(awaited_collective, CollectiveCounts()).since_ns
    return CommunicatorCounts(
        _text(name),
        rank,
        size,
        identity,
        is_group == 1,
        found,
        awaited,
        awaited_collective,
        max(1000 * awaited_us, began),
    )


def _collective(words: tuple[Any, ...], ticks: int, rate: float) -> CollectiveCounts:
    calls, served, size, since, inside, waiting, waits, blocking = words[:8]
    late = {}
    for at in range(8 + WAIT_CLASSES, len(words) - 1, 3):
        if words[at] > 0:
            late[words[at] - 1] = Late(words[at + 1], round(words[at + 2] * rate))
    return CollectiveCounts(
        calls,
        served,
        size,
        round(inside * rate),
        round(waiting * rate),
        waits,
        blocking,
        max(0, round((ticks - since) * rate)) if since > 1 else 0,
        since != 0,
        list(words[8 : 8 + WAIT_CLASSES]),
        late,
        _text(words[-1]),
    )


def to_json(process: Process) -> dict[str, Any]:
    """The counters as plain data, which ``from_json`` reads on another host."""
    return asdict(process)


def from_json(document: Mapping[str, Any]) -> Process:
    """The counters that ``to_json`` wrote."""
    communicators = []
    for each in document["communicators"]:
        collectives = {}
        for name, counts in each["collectives"].items():
            late = {int(rank): Late(**one) for rank, one in counts["late"].items()}
            collectives[name] = CollectiveCounts(**{**counts, "late": late})
        communicators.append(CommunicatorCounts(**{**each, "collectives": collectives}))
    return Process(**{**document, "communicators": communicators})
