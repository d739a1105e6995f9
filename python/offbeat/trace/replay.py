# SPDX-License-Identifier: BSD-3-Clause
"""Replay a traced run with collectives that take other times.

Between two collectives a rank takes as long as recorded. In a blocking collective it waits for the ranks that
it needs (``needs``). Then it stays for a while: as long as recorded, not at all, or as long as a benchmark
measured. The result is the time at which the last rank ends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace import Block, Flag, layout, metrics
from offbeat.trace.metrics import Calls
from offbeat.trace.needs import NEEDS_OF_COLLECTIVE, Needs, last_needed_arrival

Places = NDArray[np.intp]

_TOGETHER = 1 << 16  # how many calls have their gaps in memory at once


@dataclass(frozen=True)
class ReplayOutcome:
    """The result of a replay: one number for each scenario."""

    run_ns: Floats
    waited_ns: Floats  # how long ranks waited for the ranks they need, summed over all ranks


@dataclass(frozen=True)
class Replay:
    """The blocking calls of a trace, in an order in which they can be replayed. Times are nanoseconds.

    A record is one rank in one call. The records of a call are consecutive, in the order of the
    communicator's ranks. Non-blocking calls, and calls in which ranks need no other rank, are not among these
    calls. The time in them is ``independent``.
    """

    # One element per call.
    rows: Places  # the row in Calls.table
    begin: Places  # the index of its first record
    size: Places  # how many records it has
    needs: NDArray[np.uint8]
    root: Places  # the index of the root among its records; -1: it has no root, or the root is not recorded
    # One element per record.
    rank: Places  # the index of the rank among the recording ranks
    gap: Floats  # the time since the rank's last call, without ``independent``
    independent: Floats  # the time since the rank's last call in calls that need no other rank
    stay: Floats  # the time from the last needed arrival to the exit
    # One element per rank.
    gap_at_end: Floats  # the gap after its last call
    independent_at_end: Floats
    recorded_ns: float  # the length of the run as recorded

    def run(self, stays: Floats | None = None, *, independent: bool = True) -> ReplayOutcome:
        """Replay all calls. ``stays`` has a row for each scenario and a column for each call.

        A nan, or no ``stays``, stands for the recorded stay of each rank. If ``independent`` is false, calls
        in which ranks need no other rank take no time.
        """
        scenarios = 1 if stays is None else len(stays)
        before = self.gap + self.independent if independent else self.gap
        at_end = self.gap_at_end + self.independent_at_end if independent else self.gap_at_end
        clock, waited = np.zeros((scenarios, len(at_end))), np.zeros(scenarios)
        for first, last in self._split_into_stretches(stays):
            records = slice(self.begin[first], self.begin[first] + self.size[first])
            ranks = self.rank[records]
            arrival = clock[:, ranks] + before[records]
            free = last_needed_arrival(arrival, int(self.needs[first]), int(self.root[first]))
            waited += (free - arrival).sum(axis=1)
            stay = self.stay[records]
            if stays is not None:
                stay = np.where(np.isnan(stays[:, first, None]), stay, stays[:, first, None])
            clock[:, ranks] = free + stay
            if last - first > 1 and stays is not None:
                # All ranks left that call together, and they leave each of these calls together.
                gaps = before[self.begin[first + 1 : last, None] + np.arange(len(at_end))]
                most = gaps.max(axis=1)
                waited += len(at_end) * most.sum() - gaps.sum()
                clock += most.sum() + stays[:, first + 1 : last].sum(axis=1)[:, None]
        return ReplayOutcome((clock + at_end).max(axis=1), waited)

    def _split_into_stretches(self, stays: Floats | None) -> Iterator[tuple[int, int]]:
        """Split the calls into single calls and stretches of calls that all ranks leave together."""
        count = len(self.rows)
        if stays is None:
            yield from ((call, call + 1) for call in range(count))
            return
        joint = (self.needs == Needs.ALL) & (self.size == len(self.gap_at_end))
        joint &= ~np.isnan(stays).any(axis=0)
        edges = np.flatnonzero(np.diff(joint)) + 1
        for first, last in zip([0, *edges], [*edges, count], strict=True):
            step = _TOGETHER if first < count and joint[first] else 1
            yield from ((begin, min(begin + step, last)) for begin in range(first, last, step))


def replay_of_calls(calls: Calls) -> Replay:
    """Prepare the replay of a trace."""
    found = _records(calls)
    waits = found.needs != Needs.NOBODY
    between, sequences = _times_between_calls(calls, found, waits)
    begin = np.cumsum(found.size) - found.size
    order = _replay_order(calls.table["last"][found.row], np.flatnonzero(waits), sequences)
    begin_ns, _ = calls.trace.span_ns
    ends = [calls.trace.spans_ns[rank][1] for rank in calls.trace.recording]
    return Replay(
        found.row[order],
        begin[order],
        found.size[order],
        found.needs[order],
        found.root[order],
        found.rank,
        between.gap,
        between.independent,
        (found.exit - found.free).astype(np.float64),
        between.gap_at_end,
        between.independent_at_end,
        float(max(ends) - begin_ns),
    )


@dataclass(frozen=True)
class _Records:
    """The complete calls of a trace. The first four arrays are by call, the others by record."""

    row: Places
    needs: NDArray[np.uint8]
    root: Places
    size: Places
    rank: Places
    arrival: NDArray[np.int64]
    exit: NDArray[np.int64]
    free: NDArray[np.int64]  # the last arrival that the rank needs


_TYPES = (np.intp, np.uint8, np.intp, np.intp, np.intp, np.int64, np.int64, np.int64)


def _records(calls: Calls) -> _Records:
    place = {rank: number for number, rank in enumerate(calls.trace.recording)}
    parts: list[tuple[NDArray[Any], ...]] = [tuple(np.empty(0, dtype=kind) for kind in _TYPES)]
    parts += [_of_block(calls, block, rows, place) for block, rows in metrics.blocks_with_rows(calls)]
    return _Records(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_block(calls: Calls, block: Block, rows: Places, place: Mapping[int, int]) -> tuple[NDArray[Any], ...]:
    communicator = block.communicator
    kept = np.flatnonzero((rows >= 0) & calls.measured[rows])
    places = np.array([communicator.places[int(rank)] for rank in block.ranks])
    columns = np.argsort(places, kind="stable")
    arrival, leave = block.arrival[kept][:, columns], block.exit[kept][:, columns]
    needs = NEEDS_OF_COLLECTIVE[block.call["collective"][kept]]
    goes_on = (block.call["flags"][kept] & (Flag.NONBLOCKING | Flag.PERSISTENT)) != 0
    needs[goes_on | communicator.inter | communicator.several_jobs] = Needs.NOBODY
    roots = layout.root(block.call[kept])
    root = np.searchsorted(places[columns], roots).clip(max=len(columns) - 1)
    root[places[columns][root] != roots] = -1
    free = arrival.copy()
    for kind, where in np.unique(np.stack([needs, root], axis=1), axis=0):
        same = (needs == kind) & (root == where)
        free[same] = last_needed_arrival(arrival[same], int(kind), int(where))
    ranks = np.array([place[int(rank)] for rank in block.ranks], dtype=np.intp)[columns]
    size = np.full(len(kept), len(columns), dtype=np.intp)
    every_rank = np.tile(ranks, len(kept))
    return (
        rows[kept], needs, root.astype(np.intp), size,
        every_rank, arrival.ravel(), leave.ravel(), free.ravel(),
    )  # fmt: skip


@dataclass(frozen=True)
class _TimesBetweenCalls:
    """The time of the ranks between the calls in which they wait, as in ``Replay``."""

    gap: Floats
    independent: Floats
    gap_at_end: Floats
    independent_at_end: Floats


def _times_between_calls(
    calls: Calls, found: _Records, waits: NDArray[np.bool_]
) -> tuple[_TimesBetweenCalls, list[Places]]:
    """The time between calls, and for each rank the calls in which it waits, in the order of making them."""
    begin_ns, _ = calls.trace.span_ns
    ranks, records = len(calls.trace.recording), len(found.rank)
    between = _TimesBetweenCalls(np.zeros(records), np.zeros(records), np.zeros(ranks), np.zeros(ranks))
    call = np.repeat(np.arange(len(found.row)), found.size)
    by_rank = np.argsort(found.rank, kind="stable")
    edges = np.searchsorted(found.rank[by_rank], np.arange(ranks + 1))
    sequences = []
    for rank, world_rank in enumerate(calls.trace.recording):
        _, end_ns = calls.trace.spans_ns[world_rank]
        mine = by_rank[edges[rank] : edges[rank + 1]]
        mine = mine[np.argsort(found.arrival[mine], kind="stable")]
        arrival, leave, waiting = found.arrival[mine], found.exit[mine], waits[call[mine]]
        # `free[i]` is the time outside of calls, and `independent[i]` the time in calls that need no other
        # rank, from the start of the run to the arrival at record i. The last elements are for the end of
        # the run.
        free = np.cumsum(np.append(arrival, end_ns) - np.insert(leave, 0, begin_ns))
        independent = np.insert(np.cumsum(np.where(waiting, 0, leave - arrival)), 0, 0)
        stops = np.append(np.flatnonzero(waiting), len(mine))
        gaps, independents = np.diff(free[stops], prepend=0), np.diff(independent[stops], prepend=0)
        between.gap[mine[waiting]], between.gap_at_end[rank] = gaps[:-1], gaps[-1]
        between.independent[mine[waiting]], between.independent_at_end[rank] = (
            independents[:-1],
            independents[-1],
        )
        sequences.append(call[mine[waiting]])
    return between, sequences


def _replay_order(last: NDArray[np.int64], chosen: Places, sequences: Sequence[Places]) -> Places:
    """An order of all calls in which the calls of each rank are in the order in which it made them.

    Usually the order of the last arrivals is one. It is not if a rank leaves a call long before others arrive
    there, and makes calls on other communicators meanwhile.
    """
    order = chosen[np.argsort(last[chosen], kind="stable")]
    position = np.empty(len(last), dtype=np.intp)
    position[order] = np.arange(len(order))
    if all((np.diff(position[sequence]) > 0).all() for sequence in sequences):
        return order
    return _topological(order, sequences)


def _topological(order: Places, sequences: Sequence[Places]) -> Places:
    """A topological order: each next call is one that all of its ranks have reached.

    If there is none, because threads of a rank made calls at the same time, the next call in ``order`` comes.
    """
    missing = Counter(call for sequence in sequences for call in sequence.tolist())
    ahead = [deque(sequence.tolist()) for sequence in sequences]
    members: dict[int, list[int]] = {}
    for rank, sequence in enumerate(sequences):
        for call in sequence.tolist():
            members.setdefault(call, []).append(rank)
    done: set[int] = set()
    ready: deque[int] = deque()

    def reach(rank: int) -> None:
        while ahead[rank] and ahead[rank][0] in done:
            ahead[rank].popleft()
        if ahead[rank]:
            missing[ahead[rank][0]] -= 1
            if missing[ahead[rank][0]] == 0:
                ready.append(ahead[rank][0])

    for rank in range(len(sequences)):
        reach(rank)
    found: list[int] = []
    by_arrival = iter(order.tolist())
    while len(found) < len(order):
        call = ready.popleft() if ready else next(each for each in by_arrival if each not in done)
        if call in done:
            continue
        done.add(call)
        found.append(call)
        for rank in members[call]:
            if ahead[rank] and ahead[rank][0] == call:
                reach(rank)
    return np.array(found, dtype=np.intp)
