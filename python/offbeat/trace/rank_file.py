# SPDX-License-Identifier: BSD-3-Clause
"""Map and check the trace file of one rank, and read its definitions. Its calls stay in the mapped file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import layout
from offbeat.trace.clock import SANE_NS, Clock, is_sane
from offbeat.trace.layout import CommunicatorFlag, FileFlag, Flag, Kind, Naming

_MOST_RANKS = 1 << 24
_SLOTS_PER_PIECE = 1 << 20  # how many slots are processed at once


class DamagedFileError(Exception):
    """The file cannot be read. The message says why; it does not name the path."""


@dataclass(frozen=True)
class Definition:
    """A communicator as this rank's file defines it."""

    identity: int
    ranks: int
    rank: int  # the rank of this process in it
    inter: bool
    several_jobs: bool
    world_order: bool
    world_ranks: NDArray[np.uint32] | None


@dataclass
class RankFile:
    """The contents of one file. Times are those of the rank's own clock; ``Trace.calls`` converts them."""

    path: Path
    header: Any
    slots: NDArray[Any]  # all slots of the mapped file, viewed as if they were calls
    is_call: NDArray[np.bool_]  # which slots are calls
    communicators: list[Definition]
    names: dict[Naming, dict[int, str]]
    clock: Clock
    notes: list[str] = field(default_factory=list)

    @cached_property
    def call_count(self) -> int:
        """How many calls the file records."""
        return int(np.count_nonzero(self.is_call))

    @cached_property
    def has_bits(self) -> bool:
        """Whether a call of this rank has the flag BITS."""
        pieces = (
            slice(begin, begin + _SLOTS_PER_PIECE) for begin in range(0, len(self.slots), _SLOTS_PER_PIECE)
        )
        return any(bool((self.slots["flags"][each] & Flag.BITS)[self.is_call[each]].any()) for each in pieces)

    @property
    def calls(self) -> NDArray[Any]:
        """The raw records of the calls. This is a copy if other records are between them."""
        return self.slots[index_of_mask(self.is_call)]

    @property
    def rank(self) -> int:
        """The rank in MPI_COMM_WORLD."""
        return int(self.header["rank"])

    @property
    def host(self) -> str:
        """The name of the host."""
        return text(self.header["host"])

    @property
    def last_exit(self) -> int:
        """When this rank last left or completed a call, by its own clock; 0 if it has no call."""
        last = 0
        for begin in range(0, len(self.slots), _SLOTS_PER_PIECE):
            piece = slice(begin, begin + _SLOTS_PER_PIECE)
            for name in ("exit", "completion"):
                last = max(last, int(np.max(self.slots[name][piece], where=self.is_call[piece], initial=0)))
        return last

    @property
    def contention(self) -> tuple[float, int] | None:
        """How many seconds the rank waited for a core, and how often it lost one. None: not known."""
        begin, end = self.header["contention_at_start"], self.header["contention_at_end"]
        waited_ns, preemptions = (int(end[name]) - int(begin[name]) for name in ("waited_ns", "preemptions"))
        known = end["waited_ns"] > 0 and waited_ns >= 0 and preemptions >= 0
        return (waited_ns / 1e9, preemptions) if known else None

    @property
    def ended(self) -> bool:
        """Whether the rank ended the trace in order."""
        return bool(self.header["flags"] & FileFlag.ENDED)

    @property
    def records_calls(self) -> bool:
        """Whether the rank records its calls."""
        return not self.header["flags"] & FileFlag.NOT_RECORDING


def index_of_mask(mask: NDArray[np.bool_]) -> slice | NDArray[np.intp]:
    """The elements that a mask chooses. This is a slice if possible, because slices do not copy."""
    where = np.flatnonzero(mask)
    if not len(where):
        return slice(0, 0)
    first, last = int(where[0]), int(where[-1])
    return slice(first, last + 1) if last - first + 1 == len(where) else where


def text(raw: bytes) -> str:
    """The text in a header or a name. Characters that are not printable become ``?``."""
    decoded = bytes(raw).split(b"\0")[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in decoded)


def read_rank_file(path: Path) -> RankFile:
    """Map a file and read everything except its calls. Raises DamagedFileError."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise DamagedFileError("it is not a file")
        if size < layout.HEADER_BYTES:
            with path.open("rb") as file:
                _refuse_foreign(file.read(len(layout.MAGIC)))
            raise DamagedFileError(f"it is cut off: its header has {size} of {layout.HEADER_BYTES} bytes")
        raw = np.memmap(path, dtype=np.uint8, mode="r")
    except OSError as error:
        raise DamagedFileError(error.strerror or str(error)) from None
    header = raw[: layout.HEADER_BYTES].view(layout.HEADER)[0].copy()
    _check_header(header, raw[:8].tobytes())
    notes = []
    slots, present = int(header["slots"]), (size - layout.HEADER_BYTES) // layout.SLOT_BYTES
    if slots > present:
        notes.append(f"is cut off: {slots - present} of its {slots} slots are missing")
        slots = present
    # A plain array on the map, because slices of np.memmap are slower, and each keeps a wrapper.
    end = layout.HEADER_BYTES + slots * layout.SLOT_BYTES
    body = np.asarray(raw[layout.HEADER_BYTES : end]).reshape(slots, layout.SLOT_BYTES)
    is_call, communicators, names = _definitions(body, int(header["ranks"]))
    records = body.view(layout.CALL).reshape(slots)
    damaged = _leave_out_damaged(records, is_call, header, len(communicators))
    if damaged:
        notes.append(f"has {damaged} damaged record{'s' * (damaged != 1)}, not used")
    return RankFile(path, header, records, is_call, communicators, names, Clock(header), notes)


def _refuse_foreign(begin: bytes) -> None:
    if begin != layout.MAGIC:
        raise DamagedFileError("it is not a trace of offbeat")


def _check_header(header: Any, begin: bytes) -> None:
    _refuse_foreign(begin)
    if header["version"] != layout.VERSION:
        raise DamagedFileError(
            f"its format has version {header['version']}, this offbeat reads version {layout.VERSION}"
        )
    lengths = (int(header["header_bytes"]), int(header["slot_bytes"]))
    if lengths != (layout.HEADER_BYTES, layout.SLOT_BYTES):
        raise DamagedFileError("its header is damaged: wrong lengths")
    if not header["rank"] < header["ranks"] <= _MOST_RANKS:
        raise DamagedFileError(f"its header is damaged: rank {header['rank']} of {header['ranks']}")
    own_time = int(header["own_time"])
    clocks_sane = all(is_sane(header[name], own_time) for name in ("start", "end"))
    if not clocks_sane or not abs(own_time) < 1 << 62 or not abs(int(header["real_time"])) < 1 << 62:
        raise DamagedFileError("its header is damaged: impossible clocks")


def _definitions(
    body: NDArray[np.uint8], ranks: int
) -> tuple[NDArray[np.bool_], list[Definition], dict[Naming, dict[int, str]]]:
    """Which slots are calls, and the definitions in the others."""
    is_call = body[:, 0] == Kind.CALL
    communicators: list[Definition] = []
    names: dict[Naming, dict[int, str]] = {kind: {} for kind in Naming}
    begin_of_next = 0
    for slot in np.flatnonzero(~is_call):
        if slot < begin_of_next:
            continue
        kind = int(body[slot, 0])
        if kind not in (Kind.COMMUNICATOR, Kind.NAME):
            raise DamagedFileError(f"slot {slot} is damaged: a record of kind {kind}")
        length = int(body[slot, 4:8].view("<u4")[0])
        if not 1 <= length <= len(body) - slot:
            raise DamagedFileError(f"slot {slot} is damaged: a record of {length} slots")
        begin_of_next = int(slot) + length
        is_call[slot:begin_of_next] = False
        record = body[slot:begin_of_next].reshape(-1)
        if kind == Kind.COMMUNICATOR:
            communicators.append(_communicator(record, len(communicators), ranks, int(slot)))
        else:
            _add_name(record, names, int(slot))
    return is_call, communicators, names


def _communicator(record: NDArray[np.uint8], number: int, world: int, slot: int) -> Definition:
    fields = record[: layout.COMMUNICATOR.itemsize].view(layout.COMMUNICATOR)[0]
    flags, ranks = int(fields["flags"]), int(fields["ranks"])
    several_jobs = bool(flags & CommunicatorFlag.SEVERAL_JOBS)
    most = _MOST_RANKS if several_jobs else world
    if fields["number"] != number or not fields["rank"] < ranks <= most:
        raise DamagedFileError(f"slot {slot} is damaged: an impossible communicator")
    world_ranks = None
    if flags & CommunicatorFlag.RANKS_FOLLOW:
        begin = layout.COMMUNICATOR.itemsize
        listed = record[begin : begin + 4 * ranks]
        if len(listed) < 4 * ranks:
            raise DamagedFileError(f"slot {slot} is damaged: a communicator without all its ranks")
        world_ranks = listed.copy().view("<u4")
        of_this_job = world_ranks[world_ranks != layout.OF_ANOTHER_JOB] if several_jobs else world_ranks
        if (of_this_job >= world).any():
            raise DamagedFileError(f"slot {slot} is damaged: a communicator with impossible ranks")
    return Definition(
        int(fields["identity"]),
        ranks,
        int(fields["rank"]),
        inter=bool(flags & CommunicatorFlag.INTER),
        several_jobs=several_jobs,
        world_order=bool(flags & CommunicatorFlag.WORLD_ORDER),
        world_ranks=world_ranks,
    )


def _add_name(record: NDArray[np.uint8], names: dict[Naming, dict[int, str]], slot: int) -> None:
    fields = record[: layout.NAME.itemsize].view(layout.NAME)[0]
    begin, length = layout.NAME.itemsize, int(fields["bytes"])
    if fields["of"] not in list(Naming) or len(record) < begin + length:
        raise DamagedFileError(f"slot {slot} is damaged: an impossible name")
    names[Naming(int(fields["of"]))][int(fields["number"])] = text(record[begin : begin + length].tobytes())


def _leave_out_damaged(
    slots: NDArray[Any], is_call: NDArray[np.bool_], header: Any, communicators: int
) -> int:
    """Unmark the calls that no tracer can have written, and return how many there are.

    This works piece by piece, so that long traces need little memory.
    """
    damaged = 0
    for begin in range(0, len(slots), _SLOTS_PER_PIECE):
        piece = slice(begin, begin + _SLOTS_PER_PIECE)
        sane = is_call[piece] & _sane(slots[piece], header, communicators)
        damaged += int(np.count_nonzero(is_call[piece]) - np.count_nonzero(sane))
        is_call[piece] = sane
    return damaged


def _sane(calls: NDArray[Any], header: Any, communicators: int) -> NDArray[np.bool_]:
    arrival, end, completion = calls["arrival"], calls["exit"], calls["completion"]
    own_time = int(header["own_time"])
    pending = (calls["flags"] & Flag.PENDING) != 0
    sane = (calls["collective"] > 0) & (calls["collective"] < len(layout.COLLECTIVES))
    sane &= calls["communicator"] < communicators
    sane &= (arrival > own_time - SANE_NS) & (arrival < own_time + SANE_NS)
    sane &= (calls["bytes"] >= 0) & (calls["number"] < 1 << 62)
    # A pending call has no exit or no completion yet.
    for time in (end, completion):
        after = time - np.where(sane, arrival, 0)
        sane &= (pending & (time == 0)) | ((after >= 0) & (after < SANE_NS))
    return np.asarray(sane)
