# SPDX-License-Identifier: BSD-3-Clause
"""Predict the run of a traced program under each algorithm (paper 4, section V.D), and the best choice.

The program computes for as long as in the trace. In each blocking call of a measured collective, a rank waits
for the last arrival that it needs, and then stays for one last delay. That delay is the one measured at the
size of the call, under the pattern that is nearest to its arrivals.

Paper 4 is Salimi Beni, Cosenza, Hunold, Cluster 2024.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.bench import ranking
from offbeat.errors import CommandError
from offbeat.predict.delays import Arrival, Delays
from offbeat.trace import COLLECTIVES, Block, Flag, metrics, replay
from offbeat.trace.metrics import Calls
from offbeat.trace.replay import Replay
from offbeat.units import format_count

# A call counts as balanced if its skew is less than this fraction of the least measured skew.
_LEAST_SKEW_RATIO = 0.5
_MAX_STAYS_IN_MEMORY = 1 << 22  # how many stays are in memory at once

SIZE_BY_SIZE = "size by size"  # stands for a choice that is not one algorithm for all sizes

# For these collectives a benchmark counts the bytes of one block, and a trace those of all blocks of a rank.
_SIZE_IS_ALL_BLOCKS = ("alltoall", "alltoallv", "reduce_scatter_block")


@dataclass(frozen=True)
class Candidate:
    """A way to run one collective, and the run that it would make."""

    name: str
    run_s: float
    communicating_s: float  # how long one rank communicates in the predicted calls


@dataclass(frozen=True)
class SizeChoice:
    """One size of a collective: the algorithm that each way to choose takes, and the delays of all."""

    size_bytes: int
    calls: int
    best: str
    by_average: str
    by_balanced: str | None
    delays_s: Mapping[str, float]  # by algorithm; the sum over all calls of this size


@dataclass(frozen=True)
class PredictedCollective:
    """The prediction for one collective, while all others stay as recorded."""

    collective: str
    calls: int
    predicted_calls: int
    arrivals: Mapping[str, int]  # how many calls each pattern stands for
    sizes: Mapping[str, int]  # how many calls have a measured size, one between two of these, or one outside
    ran: str  # the algorithm of most calls in the trace
    algorithms: Sequence[Candidate]  # one for each algorithm, used for all calls; the shortest run first
    scores: Mapping[str, float]  # by algorithm: its delay divided by the least, averaged over the patterns
    best: Candidate  # takes at each size the algorithm that is best for this program
    by_average: Candidate  # takes at each size the algorithm with the best average over the patterns
    by_balanced: Candidate | None  # takes at each size the algorithm that is best if no rank is late
    by_size: Sequence[SizeChoice]

    @property
    def model(self) -> Candidate | None:
        """The prediction for the algorithm that ran in the trace."""
        return next((each for each in self.algorithms if each.name == self.ran), None)


@dataclass(frozen=True)
class Prediction:
    """The predictions for all collectives that were measured and that the program calls."""

    calls: Calls
    delays: Delays
    recorded_s: float
    covered: float  # the share of the time in collectives that the predicted calls take
    collectives: Sequence[PredictedCollective]
    notes: Sequence[str]


def predict(calls: Calls, delays: Delays) -> Prediction:
    """Predict the run under each algorithm."""
    trace = calls.trace
    matched = _MatchedDelays.of(calls, delays)
    taken = replay.replay_of_calls(calls)
    found = []
    for collective in delays.by_collective:
        here = matched.collective == COLLECTIVES.index(collective)
        if here.any():
            found.append(_CollectivePrediction(calls, delays, matched, taken, collective, here).predicted())
    if not found:
        what = f"blocking {', '.join(delays.by_collective)} on {format_count(delays.ranks, 'rank')}"
        raise CommandError(f"{trace.path} has no {what} at sizes near those of {delays.path}")
    in_call = calls.table["in_call"]
    covered = float(in_call[matched.collective > 0].sum()) / max(float(calls.whole["in_call"].sum()), 1e-9)
    found.sort(key=lambda each: -_time_of(calls, each.collective))
    return Prediction(calls, delays, taken.recorded_ns / 1e9, covered, found, _notes(calls, delays))


def check_ranks(calls: Calls) -> None:
    """Refuse a trace that lacks the calls of some ranks."""
    trace = calls.trace
    if len(trace.recording) != trace.ranks:
        raise CommandError(
            f"{trace.path} has the calls of {len(trace.recording)} of {format_count(trace.ranks, 'rank')}: "
            "a prediction needs all of them"
        )


def _time_of(calls: Calls, collective: str) -> float:
    mine = calls.whole["collective"] == COLLECTIVES.index(collective)
    return float(calls.whole["in_call"][mine].sum())


def _notes(calls: Calls, delays: Delays) -> list[str]:
    found = list(delays.notes)
    mpi = calls.trace.mpi
    if delays.mpi is None:
        found.append("the delays are simulated: compare the algorithms with each other, not with the trace")
    elif delays.mpi.rpartition(" ")[2] not in mpi:
        found.append(
            f"the delays were measured with {delays.mpi}, the trace with {mpi}: see offbeat bench --mpi"
        )
    if calls.trace.every_call > 1:
        every = calls.trace.every_call
        found.append(f"one in {every} calls is recorded, so each saving counts {every} times")
    nonblocking = calls.whole["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT) != 0
    if nonblocking.any():
        count = int(np.count_nonzero(nonblocking))
        verb = "stays" if count == 1 else "stay"
        found.append(f"{format_count(count, 'non-blocking call')} {verb} as recorded")
    return found


# -- the delay of each call


@dataclass(frozen=True)
class _MatchedDelays:
    """The delay that is used for each row of Calls.table. Rows without a prediction have 0, 0 and -1."""

    collective: NDArray[np.uint8]
    size: NDArray[np.int64]  # as a benchmark counts it
    arrival_index: NDArray[np.int16]  # index into Delays.by_collective[collective]

    @classmethod
    def of(cls, calls: Calls, delays: Delays) -> _MatchedDelays:
        rows = len(calls.table)
        found = cls(
            np.zeros(rows, dtype=np.uint8), np.zeros(rows, dtype=np.int64), np.full(rows, -1, dtype=np.int16)
        )
        for block, where in metrics.blocks_with_rows(calls):
            communicator = block.communicator
            whole = len(block.ranks) == communicator.size == delays.ranks
            if whole and not communicator.inter and not communicator.several_jobs:
                found._add_block(calls, delays, block, where)
        return found

    def _add_block(self, calls: Calls, delays: Delays, block: Block, where: NDArray[np.intp]) -> None:
        table = calls.table[where]
        fits = (where >= 0) & calls.measured[where]
        fits &= (table["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0
        places = np.array([block.communicator.places[int(rank)] for rank in block.ranks])
        columns = np.argsort(places, kind="stable")
        for collective, arrivals in delays.by_collective.items():
            number = COLLECTIVES.index(collective)
            mine = np.flatnonzero(fits & (table["collective"] == number))
            if not len(mine):
                continue
            mine = mine[delays.knows(collective, benchmark_size(collective, table[mine], delays.ranks))]
            rows = where[mine]
            self.collective[rows] = number
            self.size[rows] = benchmark_size(collective, table[mine], delays.ranks)
            late_us = block.arrival[mine][:, columns] / 1e3
            late_us -= late_us.min(axis=1, keepdims=True)
            self.arrival_index[rows] = nearest(late_us, self.size[rows], arrivals)


def benchmark_size(collective: str, table: NDArray[Any], ranks: int) -> NDArray[np.int64]:
    """The bytes of calls as ``offbeat bench`` counts them."""
    size = table["bytes"].astype(np.int64)
    if collective in _SIZE_IS_ALL_BLOCKS:
        return np.asarray(size // ranks)
    if collective == "allgatherv":
        # With MPI_IN_PLACE the trace has the bytes of all blocks.
        return np.where(table["flags"] & Flag.IN_PLACE, size // ranks, size)
    return size


def nearest(late_us: Floats, size: NDArray[np.int64], arrivals: Sequence[Arrival]) -> NDArray[np.int16]:
    """The index of the measured arrival that is nearest to each call (row), whose ranks are the columns.

    The skew of a call is the lateness of its last rank. A call counts as balanced if its skew is less than
    half of the least skew that was measured at its size. For every other call, this first chooses the
    pattern. It divides the delays of both by their skew, and takes the pattern with the least mean distance
    over the ranks. Then it chooses the skew of that pattern with the ratio nearest to 1.
    """
    found = np.zeros(len(late_us), dtype=np.int16)
    skewed = [number for number, arrival in enumerate(arrivals) if arrival.shape is not None]
    balanced = [number for number, arrival in enumerate(arrivals) if arrival.shape is None]
    if not skewed:
        return found
    skew = late_us.max(axis=1)
    measured = np.stack([np.maximum(arrivals[number].skew_us(size), 1e-6) for number in skewed])
    if balanced:
        found[:] = balanced[0]
        some = np.flatnonzero(skew >= _LEAST_SKEW_RATIO * measured.min(axis=0))
    else:
        some = np.arange(len(late_us))
    shape = late_us[some] / np.maximum(skew[some, None], 1e-6)
    in_order = np.sort(shape, axis=1)
    patterns = list(dict.fromkeys(arrivals[number].pattern for number in skewed))
    first = {arrivals[number].pattern: arrivals[number] for number in reversed(skewed)}
    distances = [
        np.abs((in_order if first[name].shape_is_sorted else shape) - first[name].shape).mean(axis=1)
        for name in patterns
    ]
    pattern = np.argmin(np.stack(distances), axis=0)
    off = np.abs(np.log(np.maximum(skew[some], 1e-6) / measured[:, some]))
    of_pattern = np.array([patterns.index(arrivals[number].pattern) for number in skewed])
    off[of_pattern[:, None] != pattern] = np.inf
    found[some] = np.array(skewed)[np.argmin(off, axis=0)]
    return found


# -- one collective


class _CollectivePrediction:
    """Predicts the calls of one collective."""

    def __init__(
        self, calls: Calls, delays: Delays, matched: _MatchedDelays, taken: Replay, collective: str,
        here: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        self._calls = calls
        self._collective = collective
        self._arrivals = delays.by_collective[collective]
        self._names = delays.algorithms(collective)
        self._measured = delays.sizes(collective)
        self._replay = taken
        self._here = here  # which rows of Calls.table
        self._rows = np.flatnonzero(here)
        self._sizes, self._size = np.unique(matched.size[self._rows], return_inverse=True)
        self._arrival = matched.arrival_index[self._rows]
        # Delays in microseconds. The axes are algorithm, pattern and size.
        self._table = np.stack(
            [
                np.stack([arrival.delays[name](self._sizes) for arrival in self._arrivals])
                for name in self._names
            ]
        )
        # Numbers of calls. The axes are pattern and size.
        self._count = np.zeros(self._table.shape[1:], dtype=np.int64)
        np.add.at(self._count, (self._arrival, self._size), 1)

    def predicted(self) -> PredictedCollective:
        best = np.argmin((self._table * self._count).sum(axis=1), axis=0)
        score = self._mean_scores()
        by_average = np.argmin(score, axis=0)
        balanced = [number for number, arrival in enumerate(self._arrivals) if arrival.shape is None]
        by_balanced = np.argmin(self._table[:, balanced[0]], axis=0) if balanced else None
        ways = [np.full(len(self._sizes), number) for number in range(len(self._names))]
        ways += [best, by_average, *([by_balanced] if by_balanced is not None else [])]
        runs = self._run_times_s(ways)
        candidates = [
            Candidate(self._name_of_way(way), run, self._communicating_s(way))
            for way, run in zip(ways, runs, strict=True)
        ]
        fixed, chosen = candidates[: len(self._names)], candidates[len(self._names) :]
        weight = self._count.sum(axis=0) / self._count.sum()
        mine = self._calls.whole["collective"] == COLLECTIVES.index(self._collective)
        return PredictedCollective(
            self._collective,
            int(np.count_nonzero(mine)),
            len(self._rows),
            self._patterns_taken(),
            self._sizes_known(),
            self._algorithm_run_most(),
            sorted(fixed, key=lambda each: each.run_s),
            dict(zip(self._names, map(float, score @ weight), strict=True)),
            chosen[0],
            chosen[1],
            chosen[2] if by_balanced is not None else None,
            self._choices_by_size(best, by_average, by_balanced),
        )

    def _name_of_way(self, way: NDArray[np.intp]) -> str:
        used = {self._names[number] for number in way}
        return used.pop() if len(used) == 1 else SIZE_BY_SIZE

    def _mean_scores(self) -> Floats:
        """The scores of ``ranking.scores``. The axes are algorithm and size."""
        columns = []
        for size in range(len(self._sizes)):
            by_pattern = [
                {name: float(self._table[k, pattern, size]) for k, name in enumerate(self._names)}
                for pattern in range(len(self._arrivals))
            ]
            scores = ranking.scores_of_times(by_pattern)
            columns.append([scores[name] for name in self._names])
        return np.array(columns).T

    def _run_times_s(self, ways: Sequence[NDArray[np.intp]]) -> list[float]:
        """The run in seconds for each of ``ways``, which chooses an algorithm for each size."""
        replayed = self._replay
        column = np.full(len(self._here), -1, dtype=np.intp)
        column[self._rows] = np.arange(len(self._rows))
        mine = column[replayed.rows]
        there = mine >= 0
        at_once = max(1, _MAX_STAYS_IN_MEMORY // max(len(replayed.rows), 1))
        found: list[float] = []
        for begin in range(0, len(ways), at_once):
            some = ways[begin : begin + at_once]
            stays = np.full((len(some), len(replayed.rows)), np.nan)
            for line, way in zip(stays, some, strict=True):
                line[there] = 1e3 * self._delays_us(way)[mine[there]]
            run_ns = replayed.run(stays).run_ns
            every = self._calls.trace.every_call
            runs = replayed.recorded_ns + every * (run_ns - replayed.recorded_ns)
            found += [max(float(run), 0.0) / 1e9 for run in runs]
        return found

    def _delays_us(self, way: NDArray[np.intp]) -> Floats:
        """The delay of each call."""
        return np.asarray(self._table[way[self._size], self._arrival, self._size])

    def _communicating_s(self, way: NDArray[np.intp]) -> float:
        return float(self._delays_us(way).sum()) * self._calls.trace.every_call / 1e6

    def _patterns_taken(self) -> dict[str, int]:
        count = self._count.sum(axis=1)
        order = np.argsort(-count, kind="stable")
        return {str(self._arrivals[number]): int(count[number]) for number in order if count[number]}

    def _sizes_known(self) -> dict[str, int]:
        count = self._count.sum(axis=0)
        measured = np.isin(self._sizes, self._measured)
        outside = (self._sizes < self._measured[0]) | (self._sizes > self._measured[-1])
        kinds = (("measured", measured), ("between", ~measured & ~outside), ("outside", outside))
        return {name: int(count[mask].sum()) for name, mask in kinds}

    def _algorithm_run_most(self) -> str:
        numbers = Counter(self._calls.table["algorithm"][self._rows].tolist())
        return self._calls.algorithms[numbers.most_common(1)[0][0]]

    def _choices_by_size(
        self, best: NDArray[np.intp], by_average: NDArray[np.intp], by_balanced: NDArray[np.intp] | None
    ) -> list[SizeChoice]:
        total_us = (self._table * self._count).sum(axis=1)
        return [
            SizeChoice(
                int(size),
                int(self._count[:, k].sum()),
                self._names[best[k]],
                self._names[by_average[k]],
                self._names[by_balanced[k]] if by_balanced is not None else None,
                {name: float(total_us[number, k]) / 1e6 for number, name in enumerate(self._names)},
            )
            for k, size in enumerate(self._sizes)
        ]
