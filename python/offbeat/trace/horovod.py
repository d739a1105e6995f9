# SPDX-License-Identifier: BSD-3-Clause
"""Recognise training with Horovod in a trace: its steps, its gradient calls, and the rank it waits for.

The arrival times do not name a slow rank, because on each rank a background thread makes all calls. The polls
do (see ``polls``). A rank has its first gradient of a step at the poll in which its first bit appears, and
its last gradient at the poll in which its last bit appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace import polls, slow_ranks, steps
from offbeat.trace.layout import COLLECTIVES, Flag
from offbeat.trace.metrics import Calls
from offbeat.trace.polls import Polls
from offbeat.trace.slow_ranks import SlowRanks
from offbeat.trace.training import LATE_SHARE, LITTLE_TIME, Training, median
from offbeat.units import format_as_ms, format_count, format_rounded_size

_END_OF_TIME_NS = np.iinfo(np.int64).max
_LATE_AFTER_POLLS = 2.0  # a rank is late by more than this many polls
_FUSION_BUFFER_BYTES = (
    32 << 20
)  # calls of this size that directly follow each other were cut by the threshold
_IRREGULAR_POLL_RATIO = 3.0
_IRREGULAR_POLL_LEAST_US = 2000.0


@dataclass(frozen=True)
class Horovod(Training):
    """A training with Horovod. ``gradient_ns`` is the mean over the ranks."""

    polls: int
    poll_us: float  # from one poll to the next: the median
    poll_p90_us: float
    cut_calls: float  # the share of gradient calls that the fusion threshold has cut
    hides_ready: bool

    @property
    def framework_evidence(self) -> str:
        return f"{format_count(self.polls, 'poll')}, "

    @property
    def slow_rank_of_framework(self) -> tuple[str, str]:
        return " in the other calls", "Polls are left out of what follows. "

    @property
    def lateness_precision(self) -> str:
        return " The polls tell it to within one poll."

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "polls": self.polls,
            "poll_interval_us": {"median": self.poll_us, "p90": self.poll_p90_us},
        }

    def _slow_rank_sentences(self) -> list[str]:
        if self.hides_ready:
            return ["Horovod's timeline hides which rank is ready: trace without HOROVOD_TIMELINE."]
        return super()._slow_rank_sentences()

    def _advice_on_calls(self) -> list[str]:
        found = []
        if self.gradient_share < LITTLE_TIME:
            found.append(
                "The fusion threshold and the cycle time hardly matter: gradient calls take too little."
            )
        elif self.cut_calls >= 1 / 2:
            found.append(
                "Gradients fill the fusion buffer: try a larger HOROVOD_FUSION_THRESHOLD, for fewer calls."
            )
        elif self.are_small:
            found.append(
                f"A step has {self.calls_per_step:.0f} gradient calls of "
                f"{format_rounded_size(self.mean_call)} on average, and polls are "
                f"{format_as_ms(1e3 * self.poll_us)} apart. With a larger HOROVOD_CYCLE_TIME more "
                "gradients travel together."
            )
        if self.poll_p90_us > max(_IRREGULAR_POLL_RATIO * self.poll_us, _IRREGULAR_POLL_LEAST_US):
            found.append(
                f"Polls are irregular: {format_as_ms(1e3 * self.poll_us)} apart (median), but over "
                f"{format_as_ms(1e3 * self.poll_p90_us)} in a tenth of them. Compute threads take the core "
                "of Horovod's thread: use fewer of them per rank, or leave it a core."
            )
        return found


def horovod_training_of_calls(calls: Calls) -> Horovod | None:
    """Recognise Horovod. None if no rank polls."""
    trace = calls.trace
    polled = [each for each in trace.communicators if not each.alone and polls.is_polled(trace, each)]
    if not polled:
        return None
    found = [_of_polls(calls, polls.polls_of_communicator(trace, each)) for each in polled]
    return max(found, key=lambda each: (each.steps, each.gradient_bytes, each.polls))


def _of_polls(calls: Calls, polled: Polls) -> Horovod:
    gradients = _Gradients.of(calls, polled)
    found = steps.find(gradients.bytes, gradients.gap)
    apart = np.diff(polled.arrival[:, 0])[np.diff(polled.number) == 1] / 1e3
    poll_us, poll_p90_us = map(float, np.percentile(apart, (50, 90))) if len(apart) else (0.0, 0.0)
    step_ns = median(np.diff([gradients.end[last] for _, last in found]))
    noise_ns = max(_LATE_AFTER_POLLS * 1e3 * poll_us, LATE_SHARE * step_ns)
    sums = [slice(first, last + 1) for first, last in found]
    late = np.empty((0, len(polled.ranks)))
    slow: tuple[SlowRanks, ...] = ()
    if found and not polled.hides_ready:
        ready = _Ready.of(polled, gradients.number[[last for _, last in found]])
        late, slow = slow_ranks.find(ready.first, ready.last, polled.ranks, noise_ns)
    return Horovod(
        framework="Horovod",
        gradient_calls=len(gradients.bytes),
        gradient_bytes=int(gradients.bytes.sum()),
        steps=len(found),
        why_no_steps=_why_no_steps(calls, gradients),
        step_ns=step_ns,
        step_bytes=median([gradients.bytes[each].sum() for each in sums]),
        calls_per_step=median([last + 1 - first for first, last in found]),
        gradient_ns=median([gradients.in_call[each].sum() for each in sums]),
        noise_ns=noise_ns,
        ranks=polled.ranks,
        late_ns=late,
        slow=slow,
        polls=polled.count,
        poll_us=poll_us,
        poll_p90_us=poll_p90_us,
        cut_calls=gradients.cut,
        hides_ready=polled.hides_ready,
    )


def _why_no_steps(calls: Calls, gradients: _Gradients) -> str:
    if calls.trace.every_call > 1:
        return "not every call is recorded"
    if len(gradients.bytes) < steps.LEAST_STEPS:
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
        long = (self.bytes[:-1] >= _FUSION_BUFFER_BYTES) & (self.bytes[:-1] >= most // 2)
        count = int(np.count_nonzero(self.bytes >= _FUSION_BUFFER_BYTES))
        return float(np.count_nonzero(directly & long)) / max(count, 1)


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
        first, last = np.full(shape, _END_OF_TIME_NS), np.full(shape, -_END_OF_TIME_NS)
        for column in range(len(polled.ranks)):
            some = (new[:, column] > 0) & (step < len(step_ends))
            np.minimum.at(first[:, column], step[some], polled.arrival[some, column])
            np.maximum.at(last[:, column], step[some], polled.arrival[some, column])
        known = np.asarray((first < _END_OF_TIME_NS).all(axis=1))
        return cls(slow_ranks.lateness(first, known), slow_ranks.lateness(last, known))
