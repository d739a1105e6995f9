# SPDX-License-Identifier: BSD-3-Clause
"""What a job did between two snapshots: calls, times, and who was late."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from offbeat.live.layout import WAIT_CLASSES, CollectiveCounts, CommunicatorCounts, Late, Process

STUCK_NS = 1_000_000_000  # how long a call lasts before the view names it
_LONG_NS = 100_000_000  # how long it lasts before its time counts

_Key = tuple[int, str, int]  # identity, name and size of a communicator


@dataclass
class Row:
    """One collective on one communicator, over its ranks."""

    communicator: str
    collective: str
    ranks: int = 0
    calls: int = 0  # of the rank that made most
    calls_of_all: int = 0
    served: int = 0
    bytes: int = 0
    elapsed_ns: int = 0  # of all ranks together, like the next two
    inside_ns: int = 0
    waiting_ns: int = 0
    waits: int = 0
    lengths: list[int] = field(default_factory=lambda: [0] * WAIT_CLASSES)
    late: dict[int, Late] = field(default_factory=dict)
    algorithm: str = ""
    wait_unit_ns: float = 1000.0
    has_mpi: bool = True
    is_part: bool = False  # a group of some ranks, whose ranks have other numbers in the job

    @property
    def is_active(self) -> bool:
        """Whether it was called, or has kept ranks for a time that can be seen."""
        return self.calls > 0 or self.inside_ns * 1000 > self.elapsed_ns

    @property
    def server(self) -> str:
        """Who serves the calls, by the share of the calls that offbeat served."""
        if not self.has_mpi or (self.calls_of_all == 0 and self.algorithm):
            return "offbeat"
        if self.served == 0:
            return "MPI"
        return "offbeat" if self.served >= self.calls_of_all else "both"

    def wait_ns(self, share: float) -> float | None:
        """The length that this share of the waits does not exceed, to a factor of 2; None without waits."""
        total = sum(self.lengths)
        if total == 0:
            return None
        seen = 0
        for number, count in enumerate(self.lengths):
            seen += count
            if seen >= share * total:
                return self.wait_unit_ns * float(2**number)
        return None

    def latest(self) -> tuple[int, Late] | None:
        """The rank for which the others waited longest."""
        late = [(rank, each) for rank, each in self.late.items() if each.ns > 0]
        return max(late, key=lambda each: each[1].ns) if late else None


@dataclass
class Stuck:
    """A call that some ranks have begun, and for which they wait."""

    communicator: str
    collective: str
    number: int
    seconds: float
    waiting: list[int]
    missing: list[int]


@dataclass
class Activity:
    """What the job did."""

    seconds: float
    rows: list[Row]
    waiting_share: dict[int, float]  # of each rank
    inside_share: dict[int, float]
    stuck: list[Stuck]


def between(
    before: Sequence[Process] | None, after: Sequence[Process], looks: Sequence[Sequence[Process]] = ()
) -> Activity:
    """What these ranks did since ``before``, or since they began if that is None.

    ``looks`` are earlier looks at them, the oldest first. They show how long an untimed call lasts.
    """
    looks = looks or ([before] if before is not None else [])
    _set_present_times(after, looks)
    behind = _furthest_behind(after)
    known = {each.key: each for each in before or ()}
    rows: dict[tuple[_Key, str], Row] = {}
    waiting, inside = {}, {}
    longest = 0
    for process in after:
        old = known.get(process.key)
        elapsed = process.elapsed_ns - (old.elapsed_ns if old is not None else 0)
        longest = max(longest, elapsed)
        spent = waited = 0
        for communicator in process.communicators:
            earlier = _same(old, communicator)
            behind_calls, late = behind[key_of(communicator)]
            is_ahead = behind_calls < communicator.calls
            for name, counts in communicator.collectives.items():
                change = _change(earlier.collectives.get(name) if earlier else None, counts)
                _add_present(
                    change,
                    _present_ns(communicator, name, counts),
                    elapsed,
                    late if is_ahead else None,
                )
                spent += change.inside_ns
                waited += change.waiting_ns
                key = (key_of(communicator), name)
                row = rows.setdefault(key, _row(communicator, name, process))
                _add(row, change, elapsed)
        waiting[process.rank] = waited / max(1, elapsed)
        inside[process.rank] = spent / max(1, elapsed)
    busy = sorted(rows.values(), key=lambda row: (-row.inside_ns, -row.calls))
    return Activity(
        longest / 1e9,
        busy,
        waiting,
        inside,
        stuck_calls(after),
    )


def _row(communicator: CommunicatorCounts, name: str, process: Process) -> Row:
    has_mpi = process.mpi != "" and not communicator.is_group
    is_part = communicator.is_group and communicator.size < process.ranks
    return Row(label(communicator), name, wait_unit_ns=process.wait_unit_ns, has_mpi=has_mpi, is_part=is_part)


def _set_present_times(processes: Iterable[Process], looks: Sequence[Sequence[Process]]) -> None:
    """Find out how long the present calls last that are not timed."""
    for process in processes:
        for communicator in process.communicators:
            for name, counts in communicator.collectives.items():
                counts.since_ns = _lasts_ns(process, key_of(communicator), name, counts, looks)


def _furthest_behind(processes: Iterable[Process]) -> dict[_Key, tuple[int, int]]:
    """How many calls the rank has begun that has begun the fewest on each communicator, and that rank."""
    found: dict[_Key, list[tuple[int, int]]] = {}
    for process in processes:
        for each in process.communicators:
            number = each.rank if each.is_group else process.rank
            found.setdefault(key_of(each), []).append((each.calls, number))
    return {key: min(made, key=lambda each: each[0]) for key, made in found.items()}


def _present_ns(communicator: CommunicatorCounts, name: str, counts: CollectiveCounts) -> int:
    """How long the present call of a collective has blocked the rank, if that is long."""
    is_awaited = communicator.awaited_number > 0 and communicator.awaited_collective == name
    spent = communicator.awaited_ns if is_awaited else counts.since_ns
    return spent if spent > _LONG_NS else 0


def _add_present(change: CollectiveCounts, present_ns: int, elapsed_ns: int, late: int | None) -> None:
    """Add the call that is not over yet. Its time counts since the earlier look at most."""
    spent = min(present_ns, max(0, elapsed_ns - change.inside_ns))
    change.inside_ns += spent
    if late is None or spent == 0:
        return
    change.waiting_ns += spent
    known = change.late.get(late, Late())
    change.late[late] = Late(known.waits + 1, known.ns + spent)


def label(communicator: CommunicatorCounts) -> str:
    """The name of a communicator, or what it is."""
    if communicator.is_group:
        return f"group of {communicator.size}"
    return communicator.name or f"communicator of {communicator.size}"


def key_of(communicator: CommunicatorCounts) -> _Key:
    """What tells a communicator from all others of the job."""
    return (communicator.identity, communicator.name, communicator.size)


def _same(process: Process | None, wanted: CommunicatorCounts) -> CommunicatorCounts | None:
    if process is None:
        return None
    return next((each for each in process.communicators if key_of(each) == key_of(wanted)), None)


def _change(old: CollectiveCounts | None, new: CollectiveCounts) -> CollectiveCounts:
    if old is None or old.calls > new.calls:
        return replace(new, late=dict(new.late))
    late = {}
    for rank, each in new.late.items():
        was = old.late.get(rank, Late())
        late[rank] = Late(max(0, each.waits - was.waits), max(0, each.ns - was.ns))
    return CollectiveCounts(
        calls=new.calls - old.calls,
        served=new.served - old.served,
        bytes=new.bytes - old.bytes,
        inside_ns=max(0, new.inside_ns - old.inside_ns),
        waiting_ns=max(0, new.waiting_ns - old.waiting_ns),
        waits=max(0, new.waits - old.waits),
        lengths=[max(0, b - a) for a, b in zip(old.lengths, new.lengths, strict=True)],
        late=late,
        algorithm=new.algorithm,
    )


def _add(row: Row, change: CollectiveCounts, elapsed_ns: int) -> None:
    row.ranks += 1
    row.calls = max(row.calls, change.calls)
    row.calls_of_all += change.calls
    row.served += change.served
    row.bytes += change.bytes
    row.elapsed_ns += elapsed_ns
    row.inside_ns += change.inside_ns
    row.waiting_ns += change.waiting_ns
    row.waits += change.waits
    row.lengths = [a + b for a, b in zip(row.lengths, change.lengths, strict=True)]
    for rank, each in change.late.items():
        sum_of_rank = row.late.setdefault(rank, Late())
        sum_of_rank.waits += each.waits
        sum_of_rank.ns += each.ns
    row.algorithm = change.algorithm or row.algorithm


def _lasts_ns(
    process: Process, key: _Key, name: str, counts: CollectiveCounts, looks: Sequence[Sequence[Process]]
) -> int:
    """How long the present call of a rank lasts; if it is not timed, since the first look that saw it."""
    if not counts.is_inside or counts.since_ns > 0:
        return counts.since_ns
    for look in looks:
        for old in look:
            if old.key != process.key:
                continue
            for communicator in old.communicators:
                was = communicator.collectives.get(name)
                if key_of(communicator) == key and was and was.is_inside and was.calls == counts.calls:
                    return process.elapsed_ns - old.elapsed_ns
    return 0


def stuck_calls(processes: Iterable[Process]) -> list[Stuck]:
    """The calls in which ranks have waited for more than a second, and the ranks that have not come."""
    found: dict[_Key, list[tuple[int, CommunicatorCounts]]] = {}
    for process in processes:
        for communicator in process.communicators:
            if communicator.identity != 0:
                found.setdefault(key_of(communicator), []).append((process.rank, communicator))
    stuck = []
    for ranks in found.values():
        inside = [
            (rank, each.calls, name, counts.since_ns)
            for rank, each in ranks
            for name, counts in each.collectives.items()
            if counts.is_inside and counts.since_ns > STUCK_NS and each.awaited_number == 0
        ]
        inside += [
            (rank, each.awaited_number, each.awaited_collective, each.awaited_ns)
            for rank, each in ranks
            if each.awaited_number > 0 and each.awaited_ns > STUCK_NS
        ]
        if not inside:
            continue
        number = max(calls for _, calls, _, _ in inside)
        collective = next(name for _, calls, name, _ in inside if calls == number)
        missing = [rank for rank, each in ranks if each.calls < number]
        longest = max(since for _, calls, _, since in inside if calls == number)
        stuck.append(
            Stuck(
                label(ranks[0][1]),
                collective,
                number,
                longest / 1e9,
                [rank for rank, calls, _, _ in inside if calls == number],
                missing,
            )
        )
    return stuck


def to_json(activity: Activity) -> dict[str, Any]:
    """The same as plain data."""
    rows = []
    for row in activity.rows:
        latest = row.latest()
        median, p95 = row.wait_ns(0.5), row.wait_ns(0.95)
        rows.append(
            {
                "communicator": row.communicator,
                "collective": row.collective,
                "calls": row.calls,
                "calls_per_s": row.calls / activity.seconds if activity.seconds > 0 else 0.0,
                "bytes_per_call": row.bytes / row.calls_of_all if row.calls_of_all else 0.0,
                "waiting_share": row.waiting_ns / max(1, row.elapsed_ns),
                "communicating_share": max(0, row.inside_ns - row.waiting_ns) / max(1, row.elapsed_ns),
                "served_by": row.server,
                "algorithm": row.algorithm or "native",
                "latest_rank": latest[0] if latest else None,
                "latest_share_of_waiting": latest[1].ns / max(1, row.waiting_ns) if latest else None,
                "wait_median_us": median / 1e3 if median is not None else None,
                "wait_p95_us": p95 / 1e3 if p95 is not None else None,
            }
        )
    return {
        "seconds": activity.seconds,
        "rows": rows,
        "waiting_share_of_rank": {str(rank): share for rank, share in activity.waiting_share.items()},
        "inside_share_of_rank": {str(rank): share for rank, share in activity.inside_share.items()},
        "stuck": [vars(each) for each in activity.stuck],
    }
