# SPDX-License-Identifier: BSD-3-Clause
"""What is at stake in a traced run: the part of it that collectives take, and the most that could be won."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from offbeat.trace import replay
from offbeat.trace.metrics import Calls
from offbeat.units import format_share, format_us

WORTH_IT = 0.01  # of the run: less is nothing to gain


class Verdict(Enum):
    """Where to look for time."""

    NOTHING = "nothing to gain"
    LATENESS = "even out the arrivals"
    ALGORITHMS = "try other algorithms"
    BOTH = "even out the arrivals, and try other algorithms"


@dataclass(frozen=True)
class Stakes:
    """Shares are parts of the ranks' time in the run, between 0 and 1; savings are seconds of the run."""

    run_s: float
    ranks: int  # that record
    every_call: int  # so many calls count for each that is recorded
    in_collectives: float
    waiting: float  # until the last rank arrived
    perfect_saves_s: float  # with perfect collectives: a rank leaves when the last rank it needs has arrived
    even_saves_s: float  # if, beside that, nobody were late

    @property
    def communicating(self) -> float:
        return max(self.in_collectives - self.waiting, 0.0)

    @property
    def perfect_saves(self) -> float:
        """As a part of the run."""
        return self.perfect_saves_s / self.run_s

    @property
    def even_saves(self) -> float:
        """As a part of the run."""
        return self.even_saves_s / self.run_s

    @property
    def verdict(self) -> Verdict:
        late, slow = self.even_saves >= WORTH_IT, self.perfect_saves >= WORTH_IT
        if late:
            return Verdict.BOTH if slow else Verdict.LATENESS
        return Verdict.ALGORITHMS if slow else Verdict.NOTHING

    @property
    def sentences(self) -> list[str]:
        """What matters first, in words."""
        run = format_us(1e6 * self.run_s)
        share = f"Collectives take {format_share(self.in_collectives)} of the run of {run}"
        if self.verdict is Verdict.NOTHING:
            if self.in_collectives < WORTH_IT:
                return [f"{share}: nothing to gain.", *self._sampled()]
            least = format_share(self.perfect_saves + self.even_saves)
            return [
                f"{share}, but perfect ones without any late rank would save only {least}: nothing to gain.",
                *self._sampled(),
            ]
        waiting, communicating = format_share(self.waiting), format_share(self.communicating)
        perfect, even = format_share(self.perfect_saves), format_share(self.even_saves)
        perfect_s, even_s = (format_us(1e6 * s) for s in (self.perfect_saves_s, self.even_saves_s))
        found = [
            f"{share}: {waiting} waiting for the last rank, {communicating} communicating.",
            "Perfect collectives, in which a rank only waits for the ranks it needs, would save at most "
            f"{perfect} of the run ({perfect_s}). If then no rank were late, {even} more ({even_s}).",
        ]
        inherited = self.waiting - self.even_saves
        if inherited >= WORTH_IT:
            found.append(
                f"Of the waiting, {format_share(inherited)} of the run is for ranks that are late because "
                "they left other collectives late."
            )
        return [*found, self._what_to_do(), *self._sampled()]

    def _what_to_do(self) -> str:
        if self.verdict is Verdict.LATENESS:
            return "No algorithm helps much: find out why ranks are late."
        if self.verdict is Verdict.ALGORITHMS:
            return "Only faster algorithms help: the program makes no rank late."
        if self.perfect_saves >= self.even_saves:
            return "Try other algorithms first; then find out why ranks are late."
        return "Find out why ranks are late first; then try other algorithms."

    def _sampled(self) -> list[str]:
        if self.every_call == 1:
            return []
        return [f"One of {self.every_call} calls is recorded, and counts {self.every_call} times here."]


def of_calls(calls: Calls) -> Stakes | None:
    """None if no call was recorded on two ranks or more."""
    whole = calls.whole
    if not len(whole):
        return None
    trace = calls.trace
    taken = replay.of_calls(calls)
    perfect = taken.run(np.zeros((1, len(taken.rows))), aside=False)
    run_ns = max(taken.recorded_ns, 1.0)
    ranks, every = len(trace.recording), trace.every_call

    def share(of_all_ranks: float) -> float:
        return min(every * of_all_ranks / ranks / run_ns, 1.0)

    return Stakes(
        run_ns / 1e9,
        ranks,
        every,
        share(float(whole["in_call"].sum())),
        share(float(whole["waiting"].sum())),
        share(ranks * max(taken.recorded_ns - float(perfect.run_ns[0]), 0.0)) * run_ns / 1e9,
        share(float(perfect.waited_ns[0])) * run_ns / 1e9,
    )
