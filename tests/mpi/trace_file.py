# SPDX-License-Identifier: BSD-3-Clause
"""A decoder of trace files that shares nothing with offbeat's own, from docs/reference/trace-format.md."""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness import said

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "trace-format.md"
HEADER, SLOT = 4096, 64
# By their numbers, from 1.
COLLECTIVES = re.findall(r"\d+ (\w+)", said(r"^Collectives: ([^.]*)\.$", PAGE.read_text()))
IN_PLACE, NONBLOCKING, PERSISTENT, INCOMPLETE, BITS = 1, 2, 4, 8, 16
ENDED, SILENT = 1, 2
INTER, SEVERAL_JOBS = 1, 8  # of a communicator


def is_sampled(number: int, every: int) -> bool:
    """Whether a trace of one in ``every`` calls has the call with this number."""
    if every == 1:
        return True
    row, place = divmod(number, every)
    return place == (row * 0x9E3779B97F4A7C15 % 2**64 >> 32) % every


@dataclass(frozen=True)
class Clock:
    kind: int
    at: int
    offset: int
    slope: float
    residual: float


@dataclass(frozen=True)
class Call:
    flags: int
    collective: str
    communicator: int
    arrival: int
    exit: int
    completion: int
    number: int
    bytes: int
    count: int
    root: int
    operation: str
    algorithm: str
    type: str

    @property
    def form(self) -> str:
        if self.flags & PERSISTENT:
            return "persistent"
        return "nonblocking" if self.flags & NONBLOCKING else "blocking"

    @property
    def is_complete(self) -> bool:
        return not self.flags & INCOMPLETE

    @property
    def bits(self) -> tuple[int, int] | None:
        """How many bits of the vector were set, and how many of them the call cleared."""
        return (self.root & 0xFFFF, self.root >> 16) if self.flags & BITS else None


@dataclass(frozen=True)
class Communicator:
    flags: int
    ranks: int
    identity: int
    rank: int
    members: tuple[int, ...] | None  # -1: of another job


@dataclass
class TraceFile:
    flags: int
    rank: int
    ranks: int
    made: int  # calls, recorded or not
    lost: int
    every: int
    every_rank: int
    run: int
    begin: Clock
    end: Clock
    host: str
    mpi: str
    offbeat: str
    program: str
    calls: list[Call] = field(default_factory=list)
    communicators: list[Communicator] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # of communicators

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        return Counter((call.collective, call.form) for call in self.calls)


def _clock(data: bytes, offset: int) -> Clock:
    kind, bound, at, shift, slope, residual = struct.unpack_from("<IIqqdd", data, offset)
    assert (bound == 0) == (kind in (0, 1))
    return Clock(kind, at, shift, slope, residual)


def _text(data: bytes, offset: int, size: int) -> str:
    text = data[offset : offset + size]
    assert b"\0" in text
    return text[: text.index(b"\0")].decode()


def read(path: Path) -> TraceFile:
    data = path.read_bytes()
    magic, version, header, slot, flags, rank, ranks = struct.unpack_from("<8sIIIIII", data)
    assert (magic, version, header, slot) == (b"OFFBEAT\n", 1, HEADER, SLOT)
    slots, made, lost, every, every_rank, run, _realtime, _own = struct.unpack_from("<QQQIIQqq", data, 32)
    assert len(data) >= HEADER + slots * SLOT
    trace = TraceFile(
        flags, rank, ranks, made, lost, every, every_rank, run, _clock(data, 88), _clock(data, 128),
        _text(data, 168, 64), _text(data, 232, 64), _text(data, 296, 32), _text(data, 328, 512),
    )  # fmt: skip
    names: dict[int, dict[int, str]] = {1: {0: ""}, 2: {0: ""}, 3: {0: "native"}, 4: trace.names}
    index, raw = 0, []
    while index < slots:
        offset = HEADER + index * SLOT
        kind = data[offset]
        if kind == 1:
            raw.append(struct.unpack_from("<BBBBIqqqQqqiBBH", data, offset))
            index += 1
        elif kind == 2:
            _, flags, _, size, number, members, identity, own = struct.unpack_from("<BBHIIIQI", data, offset)
            assert number == len(trace.communicators)
            listed = None
            if flags & 2:
                listed = tuple(range(members))
            elif flags & 4:
                listed = struct.unpack_from(f"<{members}i", data, offset + 28)
            trace.communicators.append(Communicator(flags, members, identity, own, listed))
            index += size
        else:
            assert kind == 3, f"record of kind {kind} in slot {index} of {path}"
            _, what, length, size, number, _bytes = struct.unpack_from("<BBHIII", data, offset)
            names[what][number] = data[offset + 16 : offset + 16 + length].decode()
            index += size
    for _, flags, collective, _, communicator, arrival, exit_, completion, number, *rest in raw:
        size, count, root, operation, algorithm, type_ = rest
        assert communicator < len(trace.communicators)
        trace.calls.append(
            Call(
                flags, COLLECTIVES[collective - 1], communicator, arrival, exit_, completion, number, size,
                count, root, names[2][operation], names[3][algorithm], names[1][type_],
            )
        )  # fmt: skip
    return trace


def read_all(folder: Path) -> list[TraceFile]:
    traces = [read(path) for path in sorted(folder.glob("rank-*.trace"))]
    assert [trace.rank for trace in traces] == list(range(len(traces)))
    assert len({trace.run for trace in traces}) == 1
    return traces
