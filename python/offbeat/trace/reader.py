# SPDX-License-Identifier: BSD-3-Clause
"""Read all files of a trace: the ranks, what is missing, and times of one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offbeat.errors import CommandError
from offbeat.trace import layout, matching
from offbeat.trace.clock import Clock, Times
from offbeat.trace.layout import Flag, Naming
from offbeat.trace.rank_file import DamagedFileError, RankFile, read_rank_file, text
from offbeat.units import format_count

if TYPE_CHECKING:
    import pandas

_MOST_LISTED = 8

# One call in the arrays for users. Times are those of rank 0's clock, since the first call of the trace.
CALLS = np.dtype(
    [
        ("communicator", "<u4"),  # index into Trace.communicators
        ("number", "<u8"),
        ("collective", "u1"),
        ("flags", "u1"),
        ("arrival_ns", "<i8"),
        ("exit_ns", "<i8"),
        ("completion_ns", "<i8"),  # -1: not complete
        ("bytes", "<i8"),
        ("count", "<i8"),
        ("root", "<i4"),
        ("type", "<u2"),
        ("operation", "u1"),
        ("algorithm", "u1"),
    ]
)


@dataclass(frozen=True)
class Communicator:
    """One communicator, put together from all files."""

    index: int
    identity: int
    size: int  # of an inter-communicator: that of the larger recorded side
    inter: bool
    several_jobs: bool  # some processes are not in this MPI_COMM_WORLD, and so not in this trace
    members: Sequence[int]  # the ranks of MPI_COMM_WORLD whose files have it, ascending
    local: Mapping[int, int]  # by member: the number of the communicator in its file
    places: Mapping[int, int]  # by member: its rank in the communicator
    world_size: int
    name: str = ""  # as the program or MPI calls it; empty: it has none, or shares it with another one

    @property
    def alone(self) -> bool:
        """Whether it has only one process, which waits for no other."""
        return self.size < 2 and not self.inter

    def __str__(self) -> str:
        name = self.name or f"{'inter-' if self.inter else ''}communicator {self.index}"
        if self.several_jobs:
            return f"{name} (ranks {ranges(self.members)}, and another job)"
        if self.inter:
            return f"{name} (ranks {ranges(self.members)})"
        if self.size == self.world_size:
            return f"{name} (all {format_count(self.world_size, 'rank')})"
        if len(self.members) == self.size:
            return f"{name} (ranks {ranges(self.members)})"
        return f"{name} ({format_count(self.size, 'rank')})"


@dataclass(frozen=True)
class Hang:
    """A call in which ranks were when the run was killed."""

    communicator: Communicator
    collective: str
    number: int  # on the communicator, from 1
    waiting: list[int]
    missing: list[int]  # had not come

    @property
    def sentence(self) -> str:
        """Who has not come, to which call, and who waits."""
        call = f"{self.collective} {self.number} on {self.communicator}"
        inside = _ranks(ranges(self.waiting), len(self.waiting))
        how = "The run has not ended in order (killed, or still running)"
        if not self.missing:
            return f"{how}: {inside} had not left {call}."
        have = "has" if len(self.missing) == 1 else "have"
        late = _ranks(ranges(self.missing), len(self.missing))
        wait = "waits" if len(self.waiting) == 1 else "wait"
        return (
            f"{how}: {late} {have} not come to {call}, in which {inside} {wait}. "
            f"With OFFBEAT_STALL_S=10 the job says in which line {'it is' if have == 'has' else 'they are'}."
        )


class Trace:
    """The trace of one run. ``read`` makes it."""

    def __init__(self, path: Path, files: Sequence[RankFile], notes: Sequence[str]) -> None:
        self.path = path
        self.files = {file.rank: file for file in sorted(files, key=lambda file: file.rank)}
        first = next(iter(self.files.values()))
        self.ranks = int(first.header["ranks"])
        self.program = text(first.header["program"])
        self.mpi = text(first.header["mpi"])
        self.every_call = int(first.header["every_call"])
        self.hosts = {rank: file.host for rank, file in self.files.items()}
        self._set_wall_clocks()
        self.communicators = _communicators(self.files, self.ranks)
        self._file_notes = list(notes)

    @property
    def recording(self) -> list[int]:
        """The ranks whose calls are recorded."""
        return [rank for rank, file in self.files.items() if file.records_calls]

    @property
    def records(self) -> int:
        """The number of records: the calls of all ranks."""
        return sum(file.call_count for file in self.files.values())

    @property
    def clock_error_ns(self) -> float:
        """The largest residual error of the clocks; nan if one was not measured."""
        return max((file.clock.error_ns for file in self.files.values()), default=float("nan"))

    @property
    def clock_bound_ns(self) -> float:
        """The largest possible error of a clock; 0 if it is not known."""
        return max((file.clock.bound_ns for file in self.files.values()), default=0.0)

    @cached_property
    def origin_ns(self) -> int:
        """The first arrival, by rank 0's clock. Times count from it."""
        firsts = [
            int(file.clock.to_global(file.slots["arrival"][[np.argmax(file.is_call)]])[0])
            for file in self.files.values()
            if file.call_count
        ]
        return min(firsts, default=0)

    @cached_property
    def spans_ns(self) -> dict[int, tuple[int, int]]:
        """When each rank called MPI_Init and MPI_Finalize, since ``origin_ns``.

        For a rank that has not ended, the second time is that of the last call that it left.
        """
        found = {}
        for rank, file in self.files.items():
            begin = int(file.header["own_time"])
            ends = [begin, file.last_exit]
            if file.ended and file.header["end"]["kind"] != layout.Sync.NONE:
                ends.append(int(file.header["end"]["at"]))
            first, last = self.times(rank, np.array([begin, max(ends)], dtype=np.int64))
            found[rank] = int(first), int(last)
        return found

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """When the run began and ended: the first MPI_Init and the last MPI_Finalize, since ``origin_ns``."""
        return min(0, *(begin for begin, _ in self.spans_ns.values())), max(
            end for _, end in self.spans_ns.values()
        )

    def times(self, rank: int, local: Times) -> Times:
        """Convert times of a rank's own clock to nanoseconds since ``origin_ns``."""
        return self.files[rank].clock.to_global(local) - np.int64(self.origin_ns)

    def calls(self, rank: int) -> NDArray[Any]:
        """The calls of a rank in the order of arrival, with times of one clock, as CALLS."""
        raw = self.files[rank].calls
        found = np.empty(len(raw), dtype=CALLS)
        for name in ("number", "collective", "flags", "bytes", "count", "type", "operation", "algorithm"):
            found[name] = raw[name]
        found["number"] += 1  # people count from 1
        found["root"] = layout.root(raw)
        found["communicator"] = self._indices(rank)[raw["communicator"]]
        found["arrival_ns"] = self.times(rank, raw["arrival"])
        for own, name in (("exit", "exit_ns"), ("completion", "completion_ns")):
            found[name] = np.where(raw[own] == 0, -1, self.times(rank, raw[own]))
        return found

    def dataframe(self) -> pandas.DataFrame:
        """All calls of all ranks as one table. Needs pandas."""
        import pandas

        frames = []
        for rank in self.recording:
            calls = self.calls(rank)
            frame = pandas.DataFrame({name: calls[name] for name in CALLS.names or ()})
            frame.insert(0, "rank", rank)
            frame["collective"] = pandas.Categorical.from_codes(calls["collective"], layout.COLLECTIVES)
            for column, kind in (
                ("type", Naming.TYPE),
                ("operation", Naming.OPERATION),
                ("algorithm", Naming.ALGORITHM),
            ):
                frame[column] = frame[column].map(self.names(rank, kind))
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()

    def names(self, rank: int, kind: Naming) -> dict[int, str]:
        """The names of the types, operations or algorithms that the calls of a rank have as numbers."""
        zero = "native" if kind is Naming.ALGORITHM else ""
        return {0: zero, **self.files[rank].names[kind]}

    def blocks(self, communicator: Communicator) -> Iterator[matching.Block]:
        """The calls on a communicator, each with the records of all ranks."""
        return matching.blocks(self, communicator)

    @cached_property
    def missing(self) -> list[str]:
        """One line for each thing that the trace lacks. Empty if it is complete."""
        absent, unfinished, lost, times = map(
            list, (self._missing_ranks(), self._unfinished(), self._lost_calls(), self._clock_doubts())
        )
        return [*self._file_notes, *absent, *unfinished, *self._calls_left_out(), *lost, *times]

    def _set_wall_clocks(self) -> None:
        reference = self.files.get(0) or next(iter(self.files.values()))
        for file in self.files.values():
            same_host = file.host == reference.host
            wall = _wall_offset(file.header) - _wall_offset(reference.header)
            file.clock = Clock(file.header, 0 if same_host else wall)

    def _indices(self, rank: int) -> NDArray[np.uint32]:
        numbers = np.zeros(len(self.files[rank].communicators) + 1, dtype=np.uint32)
        for communicator in self.communicators:
            if rank in communicator.local:
                numbers[communicator.local[rank]] = communicator.index
        return numbers

    def _missing_ranks(self) -> Iterator[str]:
        absent = self.ranks - len(self.files)
        if absent:
            yield f"no readable file of {_ranks(_gaps(list(self.files), self.ranks), absent)}"

    def _unfinished(self) -> Iterator[str]:
        unfinished = [rank for rank, file in self.files.items() if not file.ended]
        if not unfinished:
            return
        yield f"not ended in order (killed, or still running): {_ranks(ranges(unfinished), len(unfinished))}"
        recording = [rank for rank in unfinished if self.files[rank].records_calls]
        made = {rank: int(self.files[rank].header["calls"]) for rank in self.recording}
        most = max(made.values(), default=0)
        for rank in recording[:_MOST_LISTED]:
            if made[rank] < most:
                calls = format_count(made[rank], "call")
                yield f"rank {rank} stopped after {calls}; the rank that went furthest made {most}"
        for rank in recording[:_MOST_LISTED]:
            yield from self._unfinished_call(rank)

    def _unfinished_call(self, rank: int) -> Iterator[str]:
        """The call that a rank began and did not leave, because it was killed, or hangs."""
        call = self._call_of(rank)
        if call is not None:
            communicator, name, number = call
            yield f"rank {rank} had not left {name} {number} on {self.communicators[communicator]}"

    def _call_of(self, rank: int) -> tuple[int, str, int] | None:
        """The communicator, collective and number of the call in which a rank was at the end."""
        file = self.files[rank]
        if not file.call_count:
            return None
        last = file.slots[len(file.slots) - 1 - int(np.argmax(file.is_call[::-1]))]
        if not last["flags"] & Flag.PENDING or last["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT):
            return None
        communicator = int(self._indices(rank)[last["communicator"]])
        return communicator, layout.COLLECTIVES[int(last["collective"])], int(last["number"]) + 1

    @cached_property
    def hangs(self) -> list[Hang]:
        """The calls in which ranks still were when the run was killed, and who had not come to them."""
        inside: dict[tuple[int, str, int], list[int]] = {}
        for rank, file in self.files.items():
            call = self._call_of(rank) if file.records_calls and not file.ended else None
            if call is not None:
                inside.setdefault(call, []).append(rank)
        found = []
        for (index, name, number), waiting in inside.items():
            communicator = self.communicators[index]
            others = [each for each in communicator.members if each in self.files and each not in waiting]
            missing = [each for each in others if not self._has_come(each, communicator, number)]
            found.append(Hang(communicator, name, number, waiting, missing))
        return found

    def _has_come(self, rank: int, communicator: Communicator, number: int) -> bool:
        """Whether a rank has begun a call on a communicator, as far as its file tells."""
        file = self.files[rank]
        if not file.records_calls:
            return True
        mine = file.slots["number"][file.is_call & (file.slots["communicator"] == communicator.local[rank])]
        return bool(len(mine)) and int(mine.max()) + 1 >= number

    def _calls_left_out(self) -> Iterator[str]:
        if any(int(file.header["flags"]) & layout.FileFlag.PARTIAL for file in self.files.values()):
            yield "calls were left out on purpose, by a filter or by MPI_Pcontrol(0)"

    def _lost_calls(self) -> Iterator[str]:
        lost = {rank: int(file.header["lost"]) for rank, file in self.files.items() if file.header["lost"]}
        if lost:
            who = _ranks(ranges(list(lost)), len(lost))
            calls = format_count(sum(lost.values()), "call")
            yield f"{calls} not recorded (disk full, file cut, or OFFBEAT_TRACE_MIB reached): {who}"

    def _clock_doubts(self) -> Iterator[str]:
        reference = self.hosts.get(0)
        unclear = [
            rank
            for rank, file in self.files.items()
            if not file.clock.synchronised and file.host != reference and file.records_calls
        ]
        if unclear:
            who = _ranks(ranges(unclear), len(unclear))
            yield f"clocks are not synchronised, so times are only those of the wall clocks: {who}"


def read(path: str | Path) -> Trace:
    """Read the trace in a folder, or the file of one rank. The program may still be running."""
    path = Path(path)
    spawned: list[Path] = []
    if path.is_dir():
        names = sorted(path.glob("rank-*.trace"))
        spawned = sorted(path.glob("spawned-*"))
        if not names:
            raise CommandError(f"{path} is not a trace: there is no rank-*.trace in it")
    elif path.exists():
        names = [path]
    else:
        raise CommandError(f"{path}: no such trace")
    readable: list[RankFile] = []
    notes = []
    for name in names:
        try:
            readable.append(read_rank_file(name))
        except DamagedFileError as error:
            notes.append(f"{name.name} cannot be read: {error}")
    if not readable:
        more = f" (and {format_count(len(notes) - 1, 'more such file')})" if len(notes) > 1 else ""
        raise CommandError(f"{path}: {notes[0]}{more}")
    files = _of_one_run(readable, notes)
    for file in files:
        notes += [f"{file.path.name} {note}" for note in file.notes]
    notes += [f"{name.name} is the trace of spawned processes; report it separately" for name in spawned]
    return Trace(path, files, notes)


def _of_one_run(files: Sequence[RankFile], notes: list[str]) -> list[RankFile]:
    """The files of the run to which most files belong, one per rank."""
    runs = Counter((int(file.header["run"]), int(file.header["ranks"])) for file in files)
    ((run, _),) = runs.most_common(1)
    kept: dict[int, RankFile] = {}
    for file in files:
        if (int(file.header["run"]), int(file.header["ranks"])) != run:
            notes.append(f"{file.path.name} is not used: it belongs to another run")
        elif file.rank in kept:
            twin = kept[file.rank].path.name
            notes.append(f"{file.path.name} is not used: it has the same rank as {twin}")
        else:
            kept[file.rank] = file
    return list(kept.values())


def _communicators(files: Mapping[int, RankFile], world: int) -> list[Communicator]:
    """The communicators of all files, in the order in which the lowest rank that has them saw them."""
    found: dict[int, dict[int, int]] = {}
    for rank, file in files.items():
        for number, definition in enumerate(file.communicators):
            found.setdefault(definition.identity, {}).setdefault(rank, number)
    names = {
        identity: next((name for rank, number in local.items() if (name := _name(files[rank], number))), "")
        for identity, local in found.items()
    }
    shared = Counter(names.values())
    communicators = []
    for index, (identity, local) in enumerate(found.items()):
        definitions = {rank: files[rank].communicators[number] for rank, number in local.items()}
        communicators.append(
            Communicator(
                index,
                identity,
                max(definition.ranks for definition in definitions.values()),
                any(definition.inter for definition in definitions.values()),
                any(definition.several_jobs for definition in definitions.values()),
                sorted(local),
                local,
                {rank: definition.rank for rank, definition in definitions.items()},
                world,
                names[identity] if shared[names[identity]] == 1 else "",
            )
        )
    return communicators


def _name(file: RankFile, communicator: int) -> str:
    return file.names[Naming.COMMUNICATOR].get(communicator, "")


def _wall_offset(header: Any) -> int:
    return int(header["real_time"]) - int(header["own_time"])


def ranges(ranks: Sequence[int]) -> str:
    """Ascending ranks as text, such as ``0..3, 8``. A long list is cut."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return _first_few_text([f"{first}" if first == last else f"{first}..{last}" for first, last in parts])


def _gaps(present: Sequence[int], ranks: int) -> str:
    parts, expected = [], 0
    for rank in [*present, ranks]:
        if rank > expected:
            parts.append(f"{expected}" if rank == expected + 1 else f"{expected}..{rank - 1}")
        expected = rank + 1
    return _first_few_text(parts)


def _first_few_text(parts: Sequence[str]) -> str:
    more = len(parts) - _MOST_LISTED
    return ", ".join(parts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _ranks(listed: str, count: int) -> str:
    return f"rank {listed}" if count == 1 else f"ranks {listed}"
