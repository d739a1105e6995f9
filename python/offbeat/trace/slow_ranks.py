# SPDX-License-Identifier: BSD-3-Clause
"""Find the ranks that are late in the steps of a training, and since when."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace import formulas, steps
from offbeat.trace.reader import ranges
from offbeat.units import format_as_ms

_WINDOW_STEPS = 9  # a rank is slow in a step if it is late in three quarters of this many steps around it
_STEPS_NEAR_THE_END = 8
_MAX_SLOW_RUNS = 4
_LARGEST_CHANCE = 0.01  # a run is a finding if it is less likely than this among ranks that are late in turn
_LEAST_LAST_TO_FIRST_RATIO = (
    1.5  # the last gradient is worth telling if it is later than the first by this factor
)
_LEAST_SHARE_OF_MEDIAN_LATENESS = (
    0.5  # a step belongs to a run if the rank is late in it by this share of the run's median
)
_STEPS_AT_THE_BEGINNING = 2


@dataclass(frozen=True)
class SlowRanks:
    """Ranks that the others wait for in consecutive steps, which count from 1."""

    ranks: tuple[int, ...]
    first_step: int
    last_step: int
    late_steps: int  # in how many of them the ranks are late
    late_ns: float  # the median over these steps
    last_ns: float  # how late the last gradient is; ``late_ns`` is about the first one
    in_backward_pass: bool  # only the last gradient is late, so ``late_ns`` is about it, too
    from_the_beginning: bool
    to_the_end: bool

    @property
    def who(self) -> str:
        """The ranks, as the subject of a sentence."""
        return f"Rank {self.ranks[0]}" if len(self.ranks) == 1 else f"Ranks {ranges(self.ranks)}"

    @property
    def where(self) -> str:
        """A phrase that compares the first gradient with the last one."""
        if self.in_backward_pass:
            return " Only the last gradient is late, not the first."
        if not 1 / _LEAST_LAST_TO_FIRST_RATIO < self.last_ns / self.late_ns < _LEAST_LAST_TO_FIRST_RATIO:
            return f" The last gradient is late by {format_as_ms(self.last_ns)}."
        return ""

    @property
    def when(self) -> str:
        """The steps, as the end of a sentence."""
        if self.to_the_end:
            return "" if self.from_the_beginning else f", since step {self.first_step}"
        return f", in steps {self.first_step} to {self.last_step}"


def lateness(ready_at: NDArray[np.int64], known: NDArray[np.bool_]) -> Floats:
    """How late each rank is in each step, in nanoseconds after half of the ranks. nan if not ``known``."""
    late = np.full(ready_at.shape, np.nan)
    late[known] = np.maximum(ready_at[known] - formulas.usual_arrival(ready_at[known])[:, None], 0)
    return late


def find(
    first: Floats, last: Floats, ranks: NDArray[np.int64], floor_ns: float
) -> tuple[Floats, tuple[SlowRanks, ...]]:
    """The runs of steps in which a rank is slow, and the lateness that tells the ranks apart.

    ``first`` and ``last`` say how late each rank is with its first and last gradient, steps x ranks.
    """
    # A rank that is slow before the backward pass also has its last gradient late, and often by more: its
    # computation shares the core with the calls, in which the others only wait.
    found = _slow_runs_of_rank(first, last, ranks, floor_ns)
    return (first, found) if found else (last, _slow_runs_of_rank(last, last, ranks, floor_ns))


def _slow_runs_of_rank(
    late: Floats, last: Floats, ranks: NDArray[np.int64], floor_ns: float
) -> tuple[SlowRanks, ...]:
    """The runs of steps in which a rank is slow, those with the most lateness, in the order of the steps."""
    known = np.flatnonzero(~np.isnan(late).any(axis=1)) if len(late) else np.empty(0, dtype=np.intp)
    runs: dict[tuple[int, int], list[int]] = {}
    for column in range(len(ranks)):
        for begin, end in _late_stretches(late[known, column], floor_ns):
            near = [
                run
                for run in runs
                if abs(run[0] - begin) <= _WINDOW_STEPS and abs(run[1] - end) <= _WINDOW_STEPS
            ]
            runs.setdefault(near[0] if near else (begin, end), []).append(column)
    found = []
    for (begin, end), columns in runs.items():
        part = late[known[begin:end]][:, columns]
        late_ns = part.max(axis=1)
        last_ns = last[known[begin:end]][:, columns].max(axis=1)
        found.append(
            SlowRanks(
                tuple(int(ranks[column]) for column in columns),
                int(known[begin]) + 1,
                int(known[end - 1]) + 1,
                int(np.count_nonzero(late_ns > floor_ns)),
                float(np.median(late_ns)),
                float(np.median(last_ns)),
                in_backward_pass=late is last,
                from_the_beginning=begin < _STEPS_AT_THE_BEGINNING,
                to_the_end=end > len(known) - _STEPS_NEAR_THE_END,
            )
        )
    most = sorted(found, key=lambda slow: -slow.late_ns * slow.late_steps)[:_MAX_SLOW_RUNS]
    return tuple(sorted(most, key=lambda slow: slow.first_step))


def _late_stretches(late: Floats, floor_ns: float) -> list[tuple[int, int]]:
    """The stretches of steps, begin and end, in which one rank is late in most."""
    if len(late) < steps.LEAST_STEPS:
        return []
    width = min(_WINDOW_STEPS, len(late))
    windows = np.lib.stride_tricks.sliding_window_view(late, width)
    usual = np.percentile(windows, 25, axis=1) > floor_ns
    # The window around each step; near the ends the first and the last one.
    is_late = usual[np.clip(np.arange(len(late)) - width // 2, 0, len(usual) - 1)]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_late, [False]])))
    found: list[tuple[int, int]] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        begin, end = _exact_ends(late, begin, end)
        if found and begin - found[-1][1] <= _WINDOW_STEPS:
            begin = found.pop()[0]
        found.append((begin, end))
    return [run for run in found if _by_chance(late[slice(*run)] > floor_ns, len(late)) < _LARGEST_CHANCE]


def _by_chance(is_late: NDArray[np.bool_], places: int) -> float:
    """How likely a rank that is late in half of all steps is late that often at one of the places."""
    count, late = len(is_late), int(np.count_nonzero(is_late))
    ways = total = math.comb(count, late)
    for k in range(late + 1, count + 1):
        ways = ways * (count - k + 1) // k
        total += ways
    return float(places * total / 2**count)


def _exact_ends(late: Floats, begin: int, end: int) -> tuple[int, int]:
    """Move the ends of a stretch to where the lateness begins and ends."""
    enough = _LEAST_SHARE_OF_MEDIAN_LATENESS * float(np.median(late[begin:end]))
    while begin > 0 and late[begin - 1] > enough:
        begin -= 1
    while begin < end - 1 and late[begin] <= enough:
        begin += 1
    while end < len(late) and late[end] > enough:
        end += 1
    while end > begin + 1 and late[end - 1] <= enough:
        end -= 1
    return begin, end
