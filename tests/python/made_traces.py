# SPDX-License-Identifier: BSD-3-Clause
"""Trace files with known truth, written by docs/reference/trace-format.md, without the reader's types."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offbeat import _core

START_NS = 7_000_000_000_000  # of each rank's own clock
REAL_NS = 1_790_000_000_000_000_000
COLLECTIVES = {each["name"]: number for number, each in enumerate(_core.collectives(), 1)}
Clock = tuple[int, int, int, float, float]  # kind, at, offset, slope, error
NO_CLOCK: Clock = (0, 0, 0, 0.0, 0.0)


@dataclass
class MadeFile:
    """The bytes of one rank's file, piece by piece."""

    rank: int
    ranks: int
    host: str = "n0"
    run: int = 77
    flags: int = 1
    start: Clock = (1, START_NS, 0, 0.0, 50.0)
    end: Clock = NO_CLOCK
    lost: int = 0
    made: int | None = None
    every_call: int = 1
    mpi: str = "Open MPI 5.0.11"
    contention_at_start: tuple[int, int] = (0, 0)
    contention_at_end: tuple[int, int] = (0, 0)
    slots: list[bytes] = field(default_factory=list)
    recorded: int = 0

    def communicator(self, number: int, identity: int, ranks: Sequence[int]) -> None:
        place = list(ranks).index(self.rank)
        world = list(ranks) == list(range(self.ranks))
        listed = b"" if world or place else struct.pack(f"<{len(ranks)}I", *ranks)
        flags = 2 if world else 4 if not place else 0
        body = struct.pack("<IIQI", number, len(ranks), identity, place) + listed
        self._record(2, flags, b"\0\0", body)

    def name(self, of: int, number: int, text: str, size: int = 0) -> None:
        raw = text.encode()
        self._record(3, of, struct.pack("<H", len(raw)), struct.pack("<II", number, size) + raw)

    def _record(self, kind: int, flags: int, after: bytes, body: bytes) -> None:
        slots = -(-(8 + len(body)) // 64)
        raw = struct.pack("<BB", kind, flags) + after + struct.pack("<I", slots) + body
        self.slots.append(raw.ljust(64 * slots, b"\0"))

    def call(
        self,
        number: int,
        arrival: int,
        leave: int,
        completion: int | None = None,
        *,
        collective: str = "allreduce",
        size: int = 8,
        communicator: int = 0,
        flags: int = 0,
        root: int = -1,
        algorithm: int = 1,
    ) -> None:
        done = leave if completion is None else completion
        self.slots.append(
            struct.pack(
                "<BBBBIqqqQqqiBBH",
                1, flags, COLLECTIVES[collective], 0, communicator, arrival, leave, done,
                number, size, size // 4, root, 1, algorithm, 1,
            )
        )  # fmt: skip
        self.recorded += 1

    def to_bytes(self) -> bytes:
        body = b"".join(self.slots)
        made = self.recorded if self.made is None else self.made
        head = b"OFFBEAT\n" + struct.pack("<6I", 1, 4096, 64, self.flags, self.rank, self.ranks)
        head += struct.pack("<3Q2IQ2q", len(body) // 64, made, self.lost, self.every_call, 1, self.run,
                            REAL_NS, START_NS)  # fmt: skip
        for kind, at, offset, slope, error in (self.start, self.end):
            head += struct.pack("<IIqqdd", kind, 0, at, offset, slope, error)
        for text, width in ((self.host, 64), (self.mpi, 64), ("0.1.0", 32), ("./solver -n 7", 512)):
            head += text.encode()[:width].ljust(width, b"\0")
        head += struct.pack("<4q", *self.contention_at_start, *self.contention_at_end)
        return head.ljust(4096, b"\0") + body

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rank-{self.rank:06}.trace"
        path.write_bytes(self.to_bytes())
        return path


def begun(rank: int, ranks: int, **values: object) -> MadeFile:
    """A file with a world communicator and the names that ``call`` uses."""
    made = MadeFile(rank, ranks, **values)  # type: ignore[arg-type]
    made.communicator(0, 0xABC, range(ranks))
    made.name(1, 1, "MPI_FLOAT", 4)
    made.name(2, 1, "MPI_SUM")
    made.name(3, 1, "hierarchy(arrival_tree, ring)")
    return made


class MadeRanks:
    """The files of all ranks. A subclass makes calls on all of them."""

    def __init__(self, ranks: int, **values: object) -> None:
        self.files = [begun(rank, ranks, **values) for rank in range(ranks)]
        self.number = 0  # of the next call

    def write(self, folder: Path) -> Path:
        for file in self.files:
            file.write(folder)
        return folder


def iterations(
    folder: Path,
    ranks: int,
    calls: int,
    late_ns: Callable[[int, int], int],
    *,
    size: Callable[[int], int] = lambda call: 8,
    hosts: Callable[[int], str] = lambda rank: "n0",
    step_ns: int = 100_000,
    duration_ns: int = 5_000,
    **values: object,
) -> Path:
    """Allreduces: rank ``r`` arrives at call ``c`` ``late_ns(r, c)`` after the step begins."""
    files = [begun(rank, ranks, host=hosts(rank), **values) for rank in range(ranks)]
    now = START_NS + 1_000_000
    for call in range(calls):
        arrivals = [now + late_ns(rank, call) for rank in range(ranks)]
        done = max(arrivals) + duration_ns
        for file, arrival in zip(files, arrivals, strict=True):
            file.call(call, arrival, done + 100 * file.rank, size=size(call))
        now = done + step_ns
    for file in files:
        file.write(folder)
    return folder
