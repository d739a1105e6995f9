# SPDX-License-Identifier: BSD-3-Clause
"""Recognise training with Horovod in a trace: its steps, its gradient calls, and the rank it waits for.

The arrival times do not name a slow rank, because a thread of its own makes all its calls. The polls do (see
``polls``). A rank has its first gradient of a step at the poll in which its first bit appears, and its last
gradient at the poll in which its last bit appears.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import formulas, polls
from offbeat.trace.layout import COLLECTIVES, Flag
from offbeat.trace.metrics import Calls
from offbeat.trace.polls import Polls
from offbeat.trace.reader import ranges
from offbeat.units import format_share

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_LEAST_STEPS = 5
_COVERED = 0.8  # steps are found if they have this share of the bytes of all gradient calls
_FEW_CALLS = 0.05
_FEW_OF_THE_BYTES = 0.005
_MOST_CANDIDATES = 32
_MOST_CALLS_OF_A_STEP = 64
_CALLS_LOOKED_AT = 4096
_MOST_STEPS_IN_ONE = 16
_CLEARLY_LONGER = 1.5

_WINDOW = 9  # a rank is slow in a step if it is late in three quarters of this many steps around it
_NEAR_THE_END = 8
_MOST_RUNS = 4
_CHANCE = 0.01  # a run is a finding if it is less likely than this among ranks that are late in turn
_LATE_POLLS = 2.0  # a rank is late by more than this many polls,
_LATE_SHARE = 0.02  # and by this share of a step
_SIMILAR = 1.5  # the last gradient is worth telling if it is later than the first by this factor
_LATEST = np.iinfo(np.int64).max
_MUCH = 0.5  # a step belongs to a run if the rank is late in it by this share of the run's median
_FROM_THE_BEGINNING = 2

_FEW_BYTES = 1 << 20  # gradient calls below this size are worth putting together
_MANY_CALLS = 4
_MUCH_TIME = 0.05
_LITTLE_TIME = 0.02
_BUFFER_BYTES = 32 << 20  # calls of this size that directly follow each other were cut by the threshold
_IRREGULAR = 3.0
_IRREGULAR_US = 2000.0


@dataclass(frozen=True)
class Slow:
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
        return f"Rank {self.ranks[0]}" if len(self.ranks) == 1 else f"Ranks {ranges(self.ranks)}"

    @property
    def where(self) -> str:
        """A phrase that compares the first gradient with the last one."""
        if self.in_backward_pass:
            return " Only the last gradient is late, not the first."
        if not 1 / _SIMILAR < self.last_ns / self.late_ns < _SIMILAR:
            return f" The last gradient is late by {_time(self.last_ns)}."
        return ""

    @property
    def when(self) -> str:
        if self.to_the_end:
            return "" if self.from_the_beginning else f", since step {self.first_step}"
        return f", in steps {self.first_step} to {self.last_step}"


@dataclass(frozen=True)
class Training:
    """What a trace says about a training. Times are medians over the steps."""

    framework: str
    polls: int
    poll_us: float  # from one poll to the next: the median
    poll_p90_us: float
    gradient_calls: int
    gradient_bytes: int
    steps: int  # 0: not found
    why_no_steps: str
    step_ns: float
    step_bytes: float
    calls_per_step: float
    gradient_ns: float  # in gradient calls, in a step; the mean over the ranks
    cut_calls: float  # the share of gradient calls that the fusion threshold has cut
    hides_ready: bool
    ranks: NDArray[np.int64]
    # Steps x ranks: how long after half of the ranks a rank has its first gradient, or its last one if only
    # that one tells ranks apart; nan if it is not known.
    late_ns: Floats
    slow: tuple[Slow, ...]

    @property
    def gradient_share(self) -> float:
        return self.gradient_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def bandwidth(self) -> float:
        """The bytes of the gradients per second in gradient calls."""
        return 1e9 * self.step_bytes / self.gradient_ns if self.gradient_ns > 0 else 0.0

    @property
    def spread_ns(self) -> float:
        """How long after half of the ranks the last one is ready: the median over the steps."""
        known = self.late_ns[~np.isnan(self.late_ns).any(axis=1)]
        return float(np.median(known.max(axis=1))) if len(known) else 0.0

    @property
    def sentences(self) -> list[str]:
        return [*self._what(), *self._who(), *self._gradients()]

    def _what(self) -> list[str]:
        polled = f"Looks like {self.framework}: {_count(self.polls, 'poll')}"
        if not self.steps:
            calls = _count(self.gradient_calls, "gradient call")
            return [f"{polled}, {calls}. The steps of the training cannot be found: {self.why_no_steps}."]
        return [
            f"{polled}, {_count(self.gradient_calls, 'gradient call')} in {_count(self.steps, 'step')}, "
            f"{_size(self.step_bytes)} a step."
        ]

    def _who(self) -> list[str]:
        if self.hides_ready:
            return ["Horovod's timeline hides which rank is ready: trace without HOROVOD_TIMELINE."]
        if not self.steps or not len(self.late_ns):
            return []
        if self.slow:
            return [self._of(each, first=number == 0) for number, each in enumerate(self.slow)]
        spread = f"the last rank is ready {_time(self.spread_ns)} (median) after the others"
        if self.spread_ns > _noise_ns(self.poll_us, self.step_ns):
            return [f"No rank is slow throughout, but {spread}: a different rank each time."]
        return [f"No rank is slow: {spread}."]

    def _of(self, slow: Slow, *, first: bool) -> str:
        verb = "is the slow one" if len(slow.ranks) == 1 else "are the slow ones"
        step = f" of {_time(self.step_ns)}" if first else ""
        return f"{slow.who} {verb}, by {_time(slow.late_ns)} a step{step}{slow.when}.{slow.where}"

    def _gradients(self) -> list[str]:
        if not self.steps:
            return []
        return [
            f"Gradient calls take {_time(self.gradient_ns)} of a step of {_time(self.step_ns)} "
            f"({format_share(self.gradient_share)}), at {_size(self.bandwidth)}/s."
        ]

    @property
    def advice(self) -> list[str]:
        """What to try, as far as the figures support it."""
        found = self._advice_on_slow()
        if not self.steps:
            return found
        if self.gradient_share < _LITTLE_TIME:
            found.append(
                "The fusion threshold and the cycle time hardly matter: gradient calls take too little."
            )
        elif self.cut_calls >= 1 / 2:
            found.append(
                "Gradients fill the fusion buffer: try a larger HOROVOD_FUSION_THRESHOLD, for fewer calls."
            )
        elif self._are_small:
            found.append(
                f"A step has {self.calls_per_step:.0f} gradient calls of {_size(self._mean_call)} on "
                f"average, and polls are {_time(1e3 * self.poll_us)} apart. With a larger "
                "HOROVOD_CYCLE_TIME more gradients travel together."
            )
        if self.poll_p90_us > max(_IRREGULAR * self.poll_us, _IRREGULAR_US):
            found.append(
                f"Polls are irregular: {_time(1e3 * self.poll_us)} apart (median), but over "
                f"{_time(1e3 * self.poll_p90_us)} in a tenth of them. Compute threads take the core of "
                "Horovod's thread: use fewer of them per rank, or leave it a core."
            )
        return found

    def _advice_on_slow(self) -> list[str]:
        ranks = sorted({rank for each in self.slow for rank in each.ranks})
        if not ranks:
            return []
        one = len(ranks) == 1
        who = f"rank {ranks[0]}" if one else f"ranks {ranges(ranks)}"
        its, does, computes = ("its", "does", "computes") if one else ("their", "do", "compute")
        if self.slow[0].in_backward_pass:
            return [
                f"{who.capitalize()} {computes} more slowly: look at the clock rate, and at what else runs "
                f"on {its} cores."
            ]
        return [
            f"Look at what {who} {does} before the backward pass: {its} input pipeline, logging and "
            f"checkpoints. Look at {its} share of the samples, and at what else runs on {its} cores."
        ]

    @property
    def _mean_call(self) -> float:
        return self.step_bytes / max(self.calls_per_step, 1.0)

    @property
    def _are_small(self) -> bool:
        small = self.calls_per_step >= _MANY_CALLS and self._mean_call < _FEW_BYTES
        return small and self.gradient_share >= _MUCH_TIME


def of_calls(calls: Calls) -> Training | None:
    """Recognise Horovod. None if nobody polls."""
    trace = calls.trace
    polled = [each for each in trace.communicators if not each.alone and polls.is_polled(trace, each)]
    if not polled:
        return None
    found = [_of_polls(calls, polls.of_communicator(trace, each)) for each in polled]
    return max(found, key=lambda each: (each.steps, each.gradient_bytes, each.polls))


def _of_polls(calls: Calls, polled: Polls) -> Training:
    gradients = _Gradients.of(calls, polled)
    steps = _steps(gradients.bytes, gradients.gap)
    apart = np.diff(polled.arrival[:, 0])[np.diff(polled.number) == 1] / 1e3
    poll_us, poll_p90_us = np.percentile(apart, (50, 90)) if len(apart) else (0.0, 0.0)
    step_ns = _median(np.diff([gradients.end[last] for _, last in steps]))
    sums = [slice(first, last + 1) for first, last in steps]
    gradient_ns = _median([gradients.in_call[each].sum() for each in sums])
    late = np.empty((0, len(polled.ranks)))
    slow: tuple[Slow, ...] = ()
    if steps and not polled.hides_ready:
        ready = _Ready.of(polled, gradients.number[[last for _, last in steps]])
        noise_ns = _noise_ns(float(poll_us), step_ns)
        # A rank that is slow before the backward pass also has its last gradient late, and often by more: its
        # computation shares the core with the calls, in which the others only wait.
        for late in ready:
            slow = _slow(late, ready.last, polled.ranks, noise_ns)
            if slow:
                break
    return Training(
        "Horovod",
        polled.count,
        float(poll_us),
        float(poll_p90_us),
        len(gradients.bytes),
        int(gradients.bytes.sum()),
        len(steps),
        _why_no_steps(calls, gradients),
        step_ns,
        _median([gradients.bytes[each].sum() for each in sums]),
        _median([last + 1 - first for first, last in steps]),
        gradient_ns,
        gradients.cut,
        polled.hides_ready,
        polled.ranks,
        late,
        slow,
    )


def _noise_ns(poll_us: float, step_ns: float) -> float:
    """Lateness up to this is noise."""
    return max(_LATE_POLLS * 1e3 * poll_us, _LATE_SHARE * step_ns)


def _why_no_steps(calls: Calls, gradients: _Gradients) -> str:
    if calls.trace.every_call > 1:
        return "not every call is recorded"
    if len(gradients.bytes) < _LEAST_STEPS:
        return "there are too few gradient calls"
    return "the sizes of the gradient calls do not repeat"


@dataclass(frozen=True)
class _Gradients:
    """The allreduces between the polls, in their order. Times are nanoseconds."""

    number: NDArray[np.uint64]
    bytes: NDArray[np.int64]
    end: NDArray[np.int64]  # when the last rank left
    gap: Floats  # from the end of the call before it
    in_call: Floats  # the mean over the ranks

    @classmethod
    def of(cls, calls: Calls, polled: Polls) -> _Gradients:
        table = calls.whole
        mine = table["communicator"] == polled.communicator.index
        mine &= (table["collective"] == COLLECTIVES.index("allreduce")) & (table["bytes"] > 0)
        table = table[mine & ((table["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0)]
        gap = np.zeros(len(table))
        gap[1:] = table["last"][1:] - table["end"][:-1]
        return cls(table["number"], table["bytes"], table["end"], gap, table["in_call"] / table["ranks"])

    @property
    def cut(self) -> float:
        """The share of the long calls that directly follow another one."""
        directly = np.diff(self.number) == 1
        most = int(self.bytes.max(initial=0))
        long = (self.bytes[:-1] >= _BUFFER_BYTES) & (self.bytes[:-1] >= most // 2)
        count = int(np.count_nonzero(self.bytes >= _BUFFER_BYTES))
        return float(np.count_nonzero(directly & long)) / max(count, 1)


# -- steps


def _steps(sizes: NDArray[np.int64], gap: Floats) -> list[tuple[int, int]]:
    """The first and the last gradient call of each step. Empty if there are no steps to be seen.

    How gradients are put together into calls differs from step to step, but their sum does not. So the size
    of a step is the sum that divides the calls into consecutive stretches with the fewest calls left over.
    """
    if len(sizes) < _LEAST_STEPS:
        return []
    head = sizes[:_CALLS_LOOKED_AT]
    candidates = _candidates(head)
    tilings = [_best_tiling(head, gap, candidate) for candidate in candidates]
    calls = np.array([_covered(np.ones_like(head), tiling) for tiling in tilings])
    in_bytes = np.array([_covered(head, tiling) for tiling in tilings])
    # Two steps together also repeat, so the smallest sum counts. Some calls may belong to no step: a program
    # may, for example, average its loss every now and then. A step without one of its gradients also repeats,
    # but leaves many calls over, or many bytes.
    good = (calls >= calls.max() - _FEW_CALLS) & (in_bytes >= in_bytes.max() - _FEW_OF_THE_BYTES)
    step = min((s for s, is_good in zip(candidates, good, strict=True) if is_good), default=0)
    if step == 0:
        return []
    found = _best_tiling(sizes, gap, step)
    if len(found) < _LEAST_STEPS or _covered(sizes, found) < _COVERED:
        return []
    return _together(found, gap)


def _covered(weights: NDArray[np.int64], tiling: Sequence[tuple[int, int]]) -> float:
    """The share of the calls, each with a weight, in a tiling."""
    ends = np.concatenate([[0], np.cumsum(weights)])
    return float(sum(int(ends[last + 1] - ends[first]) for first, last in tiling)) / max(int(ends[-1]), 1)


def _candidates(sizes: NDArray[np.int64]) -> list[int]:
    """The most frequent sums of consecutive calls."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    most = min(_MOST_CALLS_OF_A_STEP, len(ends) - 1)
    sums = np.concatenate([ends[length:] - ends[:-length] for length in range(1, most + 1)])
    values, counts = np.unique(sums, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:_MOST_CANDIDATES]
    return [int(value) for value in values[often]]


def _best_tiling(sizes: NDArray[np.int64], gap: Floats, step: int) -> list[tuple[int, int]]:
    """The stretches of calls with the sum ``step``. The pauses between them should be long."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    after = np.searchsorted(ends, ends[:-1] + step)  # where a stretch that begins with a call would end
    fits = np.zeros(len(sizes), dtype=bool)
    inside = after < len(ends)
    fits[inside] = ends[after[inside]] == ends[:-1][inside] + step
    tilings = {}
    longest = int(np.max((after - np.arange(len(sizes)))[fits], initial=1))  # in calls
    for offset in range(min(longest, len(sizes))):  # the trace may begin in the middle of a stretch
        tiling, at = [], offset
        while at < len(sizes):
            if fits[at]:
                tiling.append((at, int(after[at]) - 1))
                at = int(after[at])
            else:
                at += 1
        pause = float(np.median(gap[[first for first, _ in tiling]])) if tiling else 0.0
        tilings[round(_covered(sizes, tiling), 2), pause] = tiling
    return tilings[max(tilings)]


def _together(steps: list[tuple[int, int]], gap: Floats) -> list[tuple[int, int]]:
    """Put steps together that are parts of one, because the pauses between them are short."""
    pause = gap[[first for first, _ in steps]]
    for parts in range(2, min(_MOST_STEPS_IN_ONE, len(steps) // _LEAST_STEPS) + 1):
        for begin in range(parts):
            is_first = np.arange(len(steps)) % parts == begin
            short, long = pause[1:][~is_first[1:]], pause[1:][is_first[1:]]
            if np.percentile(long, 10) > _CLEARLY_LONGER * np.percentile(short, 90):
                firsts = range(begin, len(steps) - parts + 1, parts)
                return [(steps[first][0], steps[first + parts - 1][1]) for first in firsts]
    return steps


# -- slow ranks


class _Ready(NamedTuple):
    """How long after half of the ranks each rank has its gradients, in each step; nan if it is not known."""

    first: Floats
    last: Floats

    @classmethod
    def of(cls, polled: Polls, step_ends: NDArray[np.uint64]) -> _Ready:
        new = polled.ready.copy()
        new[1:] -= polled.waiting[:-1]  # what waits is ready in the next poll, too
        step = np.searchsorted(step_ends, polled.number)
        shape = (len(step_ends), len(polled.ranks))
        first, last = np.full(shape, _LATEST), np.full(shape, -_LATEST)
        for column in range(len(polled.ranks)):
            some = (new[:, column] > 0) & (step < len(step_ends))
            np.minimum.at(first[:, column], step[some], polled.arrival[some, column])
            np.maximum.at(last[:, column], step[some], polled.arrival[some, column])
        known = np.asarray((first < _LATEST).all(axis=1))
        return cls(_lateness(first, known), _lateness(last, known))


def _lateness(ready_at: NDArray[np.int64], known: NDArray[np.bool_]) -> Floats:
    late = np.full(ready_at.shape, np.nan)
    late[known] = np.maximum(ready_at[known] - formulas.usual_arrival(ready_at[known])[:, None], 0)
    return late


def _slow(late: Floats, last: Floats, ranks: NDArray[np.int64], floor_ns: float) -> tuple[Slow, ...]:
    """The runs of steps in which a rank is slow, those with the most lateness, in the order of the steps."""
    known = np.flatnonzero(~np.isnan(late).any(axis=1)) if len(late) else np.empty(0, dtype=np.intp)
    runs: dict[tuple[int, int], list[int]] = {}
    for column in range(len(ranks)):
        for begin, end in _runs(late[known, column], floor_ns):
            near = [run for run in runs if abs(run[0] - begin) <= _WINDOW and abs(run[1] - end) <= _WINDOW]
            runs.setdefault(near[0] if near else (begin, end), []).append(column)
    found = []
    for (begin, end), columns in runs.items():
        part = late[known[begin:end]][:, columns]
        late_ns = part.max(axis=1)
        last_ns = last[known[begin:end]][:, columns].max(axis=1)
        found.append(
            Slow(
                tuple(int(ranks[column]) for column in columns),
                int(known[begin]) + 1,
                int(known[end - 1]) + 1,
                int(np.count_nonzero(late_ns > floor_ns)),
                float(np.median(late_ns)),
                float(np.median(last_ns)),
                in_backward_pass=late is last,
                from_the_beginning=begin < _FROM_THE_BEGINNING,
                to_the_end=end > len(known) - _NEAR_THE_END,
            )
        )
    most = sorted(found, key=lambda slow: -slow.late_ns * slow.late_steps)[:_MOST_RUNS]
    return tuple(sorted(most, key=lambda slow: slow.first_step))


def _runs(late: Floats, floor_ns: float) -> list[tuple[int, int]]:
    """The stretches of steps, begin and end, in which one rank is late in most."""
    if len(late) < _LEAST_STEPS:
        return []
    width = min(_WINDOW, len(late))
    windows = np.lib.stride_tricks.sliding_window_view(late, width)
    usual = np.percentile(windows, 25, axis=1) > floor_ns
    # The window around each step; near the ends the first and the last one.
    is_late = usual[np.clip(np.arange(len(late)) - width // 2, 0, len(usual) - 1)]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_late, [False]])))
    found: list[tuple[int, int]] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        begin, end = _exact(late, begin, end)
        if found and begin - found[-1][1] <= _WINDOW:
            begin = found.pop()[0]
        found.append((begin, end))
    return [run for run in found if _by_chance(late[slice(*run)] > floor_ns, len(late)) < _CHANCE]


def _by_chance(is_late: NDArray[np.bool_], places: int) -> float:
    """How likely a rank that is late in half of all steps is late that often at one of the places."""
    steps, late = len(is_late), int(np.count_nonzero(is_late))
    return float(places * sum(math.comb(steps, k) for k in range(late, steps + 1)) / 2**steps)


def _exact(late: Floats, begin: int, end: int) -> tuple[int, int]:
    """Move the ends of a stretch to where the lateness begins and ends."""
    enough = _MUCH * float(np.median(late[begin:end]))
    while begin > 0 and late[begin - 1] > enough:
        begin -= 1
    while begin < end - 1 and late[begin] <= enough:
        begin += 1
    while end < len(late) and late[end] > enough:
        end += 1
    while end > begin + 1 and late[end - 1] <= enough:
        end -= 1
    return begin, end


# -- texts


def _median(values: Sequence[float] | Floats) -> float:
    return float(np.median(np.asarray(values, dtype=np.float64))) if len(values) else 0.0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _time(nanoseconds: float) -> str:
    """A time as people say it who train: ``19.3 ms``, ``0.64 ms`` or ``12 s``."""
    ms = nanoseconds / 1e6
    if ms >= 10_000:
        return f"{ms / 1e3:.3g} s"
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2g} ms"


def _size(size_bytes: float) -> str:
    """A size with two digits or three, such as ``2.7 MiB``."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            value = size_bytes / factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{size_bytes:.0f} B"
