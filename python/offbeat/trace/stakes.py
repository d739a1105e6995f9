# SPDX-License-Identifier: BSD-3-Clause
"""What is at stake in a traced run: the share of the time in collectives, and how much could be saved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from offbeat.trace import replay
from offbeat.trace.metrics import Calls
from offbeat.units import format_share, format_us

WORTH_IT = 0.01  # a saving below this share of the run counts as nothing to gain
_MUCH_UNDER_WAY = 0.1  # of the run, from which on waiting for non-blocking calls may matter


class Verdict(Enum):
    """Where to look for time."""

    NOTHING = "nothing to gain"
    LATENESS = "even out the arrivals"
    ALGORITHMS = "try other algorithms"
    LATENESS_AND_ALGORITHMS = "even out the arrivals, and try other algorithms"


@dataclass(frozen=True)
class Stakes:
    """The time that could be saved. Shares are of the time of all ranks in the run, between 0 and 1."""

    run_s: float
    ranks: int  # how many ranks record
    every_call: int  # each recorded call stands for this many calls
    in_collectives: float  # the share of the time in collectives
    waiting: float  # the share of the time before the last rank arrived
    perfect_saves_s: (
        float  # seconds of the run; a rank leaves as soon as the ranks that it needs have arrived
    )
    even_saves_s: float  # further seconds of the run, if in addition no rank is late
    under_way: float = 0.0  # the share of the time in which non-blocking calls were under way, at most 1

    @property
    def communicating(self) -> float:
        """The share of the time in collectives that is not waiting."""
        return max(self.in_collectives - self.waiting, 0.0)

    @property
    def perfect_saves(self) -> float:
        """``perfect_saves_s`` as a share of the run."""
        return self.perfect_saves_s / self.run_s

    @property
    def even_saves(self) -> float:
        """``even_saves_s`` as a share of the run."""
        return self.even_saves_s / self.run_s

    @property
    def verdict(self) -> Verdict:
        """Where to look for time."""
        late, slow = self.even_saves >= WORTH_IT, self.perfect_saves >= WORTH_IT
        if late:
            return Verdict.LATENESS_AND_ALGORITHMS if slow else Verdict.LATENESS
        return Verdict.ALGORITHMS if slow else Verdict.NOTHING

    @property
    def waits_are_unknown(self) -> bool:
        """Whether non-blocking calls take so much of the run that waiting for them may matter."""
        return self.verdict is Verdict.NOTHING and self.under_way >= _MUCH_UNDER_WAY

    @property
    def sentences(self) -> list[str]:
        """The stakes in words, the most important first."""
        run = format_us(1e6 * self.run_s)
        share = f"Collectives take {format_share(self.in_collectives)} of the run of {run}"
        if self.waits_are_unknown:
            return [
                f"{share}, and non-blocking ones, as PyTorch's all are, are under way for "
                f"{format_share(self.under_way)} of it. The trace does not say how much of that the program "
                "waits. Look at which ranks arrive last, and by how much.",
                *self._sampled(),
            ]
        if self.verdict is Verdict.NOTHING:
            if self.in_collectives < WORTH_IT:
                return [f"{share}: nothing to gain.", *self._sampled()]
            least = format_share(self.perfect_saves + self.even_saves)
            return [
                f"{share}, but perfect ones without a late rank would save only {least}: nothing to gain.",
                *self._sampled(),
            ]
        waiting, communicating = format_share(self.waiting), format_share(self.communicating)
        perfect, even = format_share(self.perfect_saves), format_share(self.even_saves)
        perfect_s, even_s = (format_us(1e6 * s) for s in (self.perfect_saves_s, self.even_saves_s))
        found = [
            f"{share}: {waiting} waiting for the last rank, {communicating} communicating.",
            "Perfect collectives, in which a rank only waits for the ranks it needs, would save at most "
            f"{perfect} of the run ({perfect_s}). If in addition no rank were late, that "
            f"would save {even} more ({even_s}).",
        ]
        inherited = self.waiting - self.even_saves
        if inherited >= WORTH_IT:
            found.append(
                f"{format_share(inherited)} of the run is waiting for ranks that are late only because they "
                "left other collectives late."
            )
        return [*found, self.what_to_do, *self._sampled()]

    @property
    def what_to_do(self) -> str:
        """Where to look for time, in words, if there is any to gain."""
        if self.verdict is Verdict.LATENESS:
            return "No algorithm helps much: find out why ranks are late."
        if self.verdict is Verdict.ALGORITHMS:
            return "Only faster algorithms help: ranks are hardly late by their own work."
        if self.perfect_saves >= self.even_saves:
            return "Try other algorithms first; then find out why ranks are late."
        return "Find out why ranks are late first; then try other algorithms."

    def _sampled(self) -> list[str]:
        if self.every_call == 1:
            return []
        return [f"One in {self.every_call} calls is recorded, so each counts {self.every_call} times here."]


def stakes_of_calls(calls: Calls) -> Stakes | None:
    """Compute the stakes of a trace. None if no call was recorded on two or more ranks."""
    whole = calls.whole
    if not len(whole):
        return None
    trace = calls.trace
    taken = replay.replay_of_calls(calls)
    perfect = taken.run(np.zeros((1, len(taken.rows))), independent=False)
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
        share(float(whole["under_way"].sum())),
    )
