# SPDX-License-Identifier: BSD-3-Clause
"""What a diagnosis finds, and how it is said: which ranks are late, in which calls, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import COLLECTIVES
from offbeat.trace.contention import Contention
from offbeat.trace.metrics import Group
from offbeat.trace.reader import ranges
from offbeat.trace.stakes import Stakes
from offbeat.trace.training import Training
from offbeat.units import format_count, format_share, format_size_range, format_us, formatted_alike, ordinal

_ALWAYS_LATE_SHARE = 0.95  # ranks that are late in fewer calls of a kind are mostly late
_LATE_EVERYWHERE_SHARE = 0.75  # so are those that are late in fewer calls of all kinds in which they are late
_MOST_OCCURRENCES = 4  # how many a finding lists


@dataclass(frozen=True)
class Period:
    """Every ``step``-th call, beginning with number ``first``."""

    step: int
    first: int

    def __str__(self) -> str:
        return "every" if self.step == 1 else f"every {ordinal(self.step)}"


class Kind(Enum):
    """Why ranks wait."""

    LATE = "some ranks are late"
    VARYING = "a different rank is late each time"
    SPREAD = "the ranks arrive one after the other"


@dataclass(frozen=True)
class Occurrence:
    """The calls of one group in which ranks wait for the same reason."""

    group: Group
    rows: NDArray[np.intp]  # rows of Calls.table: the late calls, the longest wait first
    numbers: NDArray[np.uint64]  # the numbers of these calls on their communicator, ascending
    lateness_us: tuple[float, float, float]  # p10, median, p90
    waited_s: float  # the sum over all other ranks
    of_kind: Period | None  # the period among the calls of this group
    of_communicator: Period | None  # the period among all calls of the communicator

    @property
    def call(self) -> str:
        """The collective, the sizes and the communicator in words."""
        sizes = format_size_range(self.group.least_bytes, self.group.most_bytes)
        return f"{COLLECTIVES[self.group.collective]} of {sizes} on {self.group.communicator}"

    @property
    def when(self) -> str:
        """A phrase that says which of these calls are late."""
        count = f"{len(self.rows)} of {len(self.group.calls)} such calls"
        if len(self.rows) == 1:
            return f"in one call (number {self.numbers[0]})"
        listed = ", ".join(str(number) for number in self.numbers[:3])
        dots = ", ..." if len(self.numbers) > 3 else ""
        numbers = f"call number{'s' * (len(self.numbers) > 1)} {listed}{dots}"
        if self.of_kind is not None and self.of_kind.step == 1:
            return f"in {count}"
        period = f"{self.of_kind} such call" if self.of_kind else ""
        if self.of_communicator is not None and (
            self.of_kind is None or self.of_communicator.step != self.of_kind.step
        ):
            whole = f"{self.of_communicator} call on the communicator"
            period = f"{period}, which is {whole}" if period else whole
        return f"before {period} ({numbers}; {count})" if period else f"in {count}, irregularly ({numbers})"

    @property
    def lateness(self) -> str:
        """How late the ranks are: the median and the middle 80%."""
        if len(self.rows) == 1:
            return format_us(self.lateness_us[1])
        low, median, high = formatted_alike(self.lateness_us)
        return f"{median} (median; {low} .. {high} in the middle 80%)"


@dataclass(frozen=True)
class Finding:
    """One reason why ranks wait, and the calls in which they do."""

    kind: Kind
    ranks: tuple[int, ...]  # the late ranks; empty: a different one each time
    host: str | None  # the host, if these are all of its ranks
    occurrences: tuple[Occurrence, ...]  # the longest wait first
    share: float  # the wait as a share of the time of all ranks in collectives
    share_of_run: float  # the wait as a share of the run of the ranks that wait, their mean

    @property
    def waited_s(self) -> float:
        """The sum of the waiting of all other ranks in all these calls."""
        return sum(occurrence.waited_s for occurrence in self.occurrences)

    @property
    def worst(self) -> int:
        """The row of the call with the longest wait, in the first of ``occurrences``."""
        return int(self.occurrences[0].rows[0])

    @property
    def who(self) -> str:
        """The late ranks, as the subject of a sentence."""
        if self.kind is Kind.VARYING:
            return "A different rank each time"
        if self.kind is Kind.SPREAD:
            return "The ranks, one after the other"
        if self.host is not None:
            return f"All ranks on {self.host} ({ranges(self.ranks)})"
        return f"Rank {self.ranks[0]}" if len(self.ranks) == 1 else f"Ranks {ranges(self.ranks)}"

    @property
    def sentence(self) -> str:
        """Who is late, when, by how much, and what it costs."""
        cost = (
            f"{format_share(self.share_of_run)} of their run ({format_us(1e6 * self.waited_s)} of all of "
            "them together)"
        )
        first = self.occurrences[0]
        alone = len(self.occurrences) == 1
        where = f"at {first.call}, {first.when}" if alone else f"at {len(self.occurrences)} kinds of call"
        if self.kind is Kind.SPREAD:
            last = f"{'rank' if len(self.ranks) == 1 else 'ranks'} {ranges(self.ranks)} last"
            order = f"mostly in the same order, {last}" if self.ranks else "in any order"
            spread = f", spread over {first.lateness}," if alone else ""
            return f"The ranks arrive {order}{spread} {where}. They wait for the last one for {cost}."
        verb, it = ("are", "them") if len(self.ranks) > 1 else ("is", "it")
        late = f" by {first.lateness}" if alone else ""
        return f"{self.who} {verb} late{late} {where}. The others wait for {it} for {cost}."

    @property
    def details(self) -> list[str]:
        """One line for each kind of call, if there are several."""
        if len(self.occurrences) == 1:
            return []
        by = "over" if self.kind is Kind.SPREAD else "by"
        lines = [
            f"{by} {each.lateness} at {each.call}, {each.when}: {format_us(1e6 * each.waited_s)}"
            for each in self.occurrences[:_MOST_OCCURRENCES]
        ]
        more = self.occurrences[_MOST_OCCURRENCES:]
        if more:
            waited = sum(occurrence.waited_s for occurrence in more)
            lines.append(f"and at {format_count(len(more), 'more kind')} of call: {format_us(1e6 * waited)}")
        return lines

    @property
    def advice(self) -> str:
        """What the user should look at."""
        if self.kind is Kind.VARYING:
            return (
                "No single rank is to blame. This is noise, such as interrupts, other jobs, garbage "
                "collection, or ranks that share cores. Pin the ranks, leave a core to the system, and make "
                "fewer, larger calls."
            )
        if self.kind is Kind.SPREAD:
            if not self.ranks:
                return (
                    "The work between the calls differs each time. Balance it, or make fewer, larger calls."
                )
            return (
                "The work between the calls differs from rank to rank: balance it. If the ranks form a chain "
                "in which each waits for its neighbour, start the chain earlier."
            )
        if self.host is not None:
            return f"Look at node {self.host}: its clock rate, memory, other jobs, and its share of the work."
        occurrence = self.occurrences[0]
        period = occurrence.of_kind or occurrence.of_communicator
        one = len(self.ranks) == 1
        who = f"rank {self.ranks[0]}" if one else "these ranks"
        core = "its core" if one else "their cores"
        if period is None:
            return f"Look at what interrupts {who} now and then: I/O, allocation, other processes on {core}."
        if period.step > 1 and len(occurrence.rows) < len(occurrence.group.calls):
            return (
                f"Look at what {who} alone {'does' if one else 'do'} before {period} such call: output, "
                "a checkpoint, logging, garbage collection. Let the ranks take turns, or do this work beside "
                "the computation."
            )
        arrives = "arrives last: give it" if one else "arrive last: give them"
        slower = f"{core} {'is' if one else 'are'} slower or shared"
        is_always = len(occurrence.rows) >= _ALWAYS_LATE_SHARE * len(occurrence.group.calls)
        # Its other kinds of calls may contradict.
        late, calls = (
            sum(map(len, each))
            for each in zip(*((each.rows, each.group.calls) for each in self.occurrences), strict=True)
        )
        often = "always" if is_always and late >= _LATE_EVERYWHERE_SHARE * calls else "mostly"
        return f"{who.capitalize()} {often} {arrives} less work, or check whether {slower}."


@dataclass(frozen=True)
class Diagnosis:
    """The findings, the longest wait first, and how much of the waiting they explain."""

    findings: list[Finding]
    stakes: Stakes | None  # None: the trace has nothing to compare
    waiting_s: float  # the sum over all ranks
    explained_s: float  # how much of it the findings explain
    training: Training | None = None  # None: no framework is recognised
    contention: Contention | None = None  # None: no rank waited for a core

    @property
    def summary(self) -> str:
        """The most important sentences as one paragraph."""
        return " ".join([*self.first, self.rest])

    @property
    def first(self) -> list[str]:
        """The most important sentences: how much time collectives take, and how much could be saved."""
        crowded = [self.contention.sentence] if self.contention is not None else []
        if self.training is not None:
            return [*crowded, *self.training.sentences, *self.training.advice]
        if self.stakes is None:
            return [*crowded, "No call was recorded on two or more ranks, so there is nothing to compare."]
        said = self.stakes.sentences
        if crowded:  # which comes before anything else that a user may do
            said = [line for line in said if line != self.stakes.what_to_do]
        return [*crowded, *said]

    @property
    def advice(self) -> list[str]:
        """The advice for each finding. Advice that repeats an earlier one only refers to it.

        A trace does not know the line of a late rank. Only a rank that waits can ask for it, and under the
        tracer the host MPI waits.
        """
        said: dict[str, int] = {}
        found = []
        for number, finding in enumerate(self.findings, start=1):
            before = said.setdefault(finding.advice, number)
            found.append(finding.advice if before == number else f"As for finding {before}.")
        late = [number for number, finding in enumerate(self.findings) if finding.kind is Kind.LATE]
        if late and self.training is None:
            rank = self.findings[late[0]].ranks[0]
            found[late[0]] += (
                f" To see in which line rank {rank} is then, start the program with `offbeat run`, and type "
                f"`offbeat top --where {rank} --seconds 10s` while it runs."
            )
        return found

    @property
    def rest(self) -> str:
        """A sentence that says how much of the waiting the findings explain."""
        if self.stakes is None:
            return ""
        where, without = "", ""
        if self.training is not None:
            where, without = self.training.slow_rank_of_framework
        if not self.findings:
            if self.training is not None and self.training.slow and not without:
                return ""  # that rank stands out
            if self.stakes.waits_are_unknown:
                return ""
            return f"{without}No rank is late often enough{where}, or by enough, to stand out."
        explained = 100 * min(self.explained_s / max(self.waiting_s, 1e-12), 1.0)
        below = "finding below explains" if len(self.findings) == 1 else "findings below explain"
        return f"{without}The {below} {explained:.0f}% of the waiting{where}."
