# SPDX-License-Identifier: BSD-3-Clause
"""What a tuning decides, what that brings, and the rules that say so.

A range of a rule ends at the geometric middle between two measured sizes. The rules end at half of the least
measured size, or at 0 if it is at most one cache line, and at twice the greatest. The earlier rules decide
outside, and where a size was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import NormalDist, fmean

from offbeat.bench.plan import NATIVE
from offbeat.rules.spelling import bytes_text
from offbeat.tune.candidates import Place, has_lengths, rule_bytes
from offbeat.tune.course import Contest, Course
from offbeat.tune.race import Estimate
from offbeat.units import format_count

_CACHE_LINE = 64  # shorter calls take as long as one byte does
_TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Decision:
    """The algorithm that a race chose, and its times compared with others."""

    collective: str
    size_bytes: int
    place: Place
    algorithm: str
    before: str  # the rule in force
    of_native: float | None  # its time divided by native's: the geometric mean over the cells
    of_before: float | None  # and by that of the rule in force
    us: float  # its last delay, the geometric mean over the cells
    cells: int
    fresh: bool  # whether the figures are those of the final round, after the choice
    uncertainty: float = 0.0  # half of the 95% interval of the logarithm of ``of_native`` or of ``us``

    @property
    def changes(self) -> bool:
        """Whether the rule in force would run something else; it may have alternatives."""
        return self.algorithm not in self.before.split(" | ")


@dataclass(frozen=True)
class Row:
    """A rule for neighbouring sizes that one algorithm wins."""

    least: int
    most: int | None
    decisions: Sequence[Decision]

    @property
    def first(self) -> Decision:
        """The decision for the smallest size."""
        return self.decisions[0]

    def fields(self) -> list[str]:
        """The six fields of the rule, as a file of rules has them."""
        place = self.first.place
        bytes_ = bytes_text(self.least, self.most)
        where = [place.host, str(place.nodes), str(place.ppn)]
        return [self.first.collective, *where, bytes_, self.first.algorithm]

    def reason(self, date: str) -> str:
        """The figures, in one line."""
        sizes, cells = len(self.decisions), sum(each.cells for each in self.decisions)
        over = f"{format_count(sizes, 'size')}, {format_count(cells, 'cell')}"
        found = []
        if self.first.algorithm != NATIVE and (ratio := mean_ratio(d.of_native for d in self.decisions)):
            found.append(f"{ratio:.2f} of native's time")
        if any(each.changes for each in self.decisions) and (
            ratio := mean_ratio(d.of_before for d in self.decisions)
        ):
            found.append(f"{ratio:.2f} of the earlier rule's")
        figures = ", ".join(found) or "as before"
        return f"tuned {date} on {format_count(self.first.place.ranks, 'rank')}: {figures} ({over})"


def mean_ratio(ratios: Iterable[float | None]) -> float | None:
    """The geometric mean of the ratios that are known."""
    known = [ratio for ratio in ratios if ratio]
    return math.exp(fmean(map(math.log, known))) if known else None


def decide(course: Course) -> list[Decision]:
    """The decisions of the races in which enough was measured, in the order of their sizes."""
    found = (
        _decision(course, contest, raced)
        for contest, raced in zip(course.contests, course.leaders(), strict=True)
    )
    return [decision for decision in found if decision is not None]


def _decision(course: Course, contest: Contest, raced: str | None) -> Decision | None:
    place = course.place
    if raced is None or place is None:
        return None
    # The final round compares the winner with native and the rule in force. Its samples had no part in the
    # choice.
    fresh = course.scores(contest, [raced], final=True) != {}
    chosen = course.leader(contest, raced, final=True) if fresh else raced
    rows = course.rows(contest, final=fresh)
    before = [name for name in contest.in_force if all(name in row for row in rows)]
    logs = {name: _mean_log(rows, name) for name in {chosen or raced, NATIVE, *before}}
    mine = logs[chosen or raced]
    if mine is None:
        return None
    earlier = [log for name in before if (log := logs[name]) is not None]
    native = logs[NATIVE]
    usable = course.usable(contest)
    if native is None and not earlier and any(name in usable for name in (NATIVE, *contest.in_force)):
        return None  # the budget was spent before it was compared with anything that runs today
    return Decision(
        contest.collective,
        contest.size_bytes,
        place,
        chosen or raced,
        " | ".join(contest.in_force),
        math.exp(mine - native) if native is not None else None,
        math.exp(mine - min(earlier)) if earlier else None,
        math.exp(mine),
        len(contest.cells),
        fresh,
        _TWO_SIDED_95 * _error(rows, {chosen or raced, NATIVE} if native is not None else {chosen or raced}),
    )


def _mean_log(rows: Sequence[dict[str, Estimate]], name: str) -> float | None:
    return fmean(row[name].log_us for row in rows) if rows and all(name in row for row in rows) else None


def _error(rows: Sequence[dict[str, Estimate]], names: Collection[str]) -> float:
    """The standard error of a mean over the cells of a quotient of these algorithms."""
    return math.sqrt(sum(row[name].error ** 2 for row in rows for name in names)) / len(rows)


def rules_of(course: Course) -> list[list[Row]]:
    """The rules of a course, collective by collective."""
    decided = decide(course)
    found = []
    for collective in dict.fromkeys(decision.collective for decision in decided):
        sizes = {contest.size_bytes for contest in course.contests if contest.collective == collective}
        found.append(rows_of([d for d in decided if d.collective == collective], sorted(sizes)))
    return found


def rows_of(decisions: Sequence[Decision], sizes: Sequence[int]) -> list[Row]:
    """The rules for one collective on one number of ranks. ``sizes`` are all that were to be measured."""
    if not decisions:
        return []
    first = decisions[0]
    if not has_lengths(first.collective):
        return [Row(0, None, decisions)]
    lengths = [rule_bytes(first.collective, size, first.place.ranks) for size in sorted(sizes)]
    edges = limits(lengths)
    by_length = {rule_bytes(d.collective, d.size_bytes, d.place.ranks): d for d in decisions}
    found: list[Row] = []
    # A size that was not measured ends a range.
    for algorithm, group in groupby(
        range(len(lengths)),
        key=lambda k: by_length[lengths[k]].algorithm if lengths[k] in by_length else None,
    ):
        numbers = list(group)
        if algorithm is not None:
            within = [by_length[lengths[k]] for k in numbers]
            found.append(Row(edges[numbers[0]], edges[numbers[-1] + 1] - 1, within))
    return found


def limits(lengths: Sequence[int]) -> list[int]:
    """Where the range of each length begins, and where the last one ends."""
    middles = [math.ceil(math.sqrt(one * other)) for one, other in pairwise(lengths)]
    least = 0 if lengths[0] <= _CACHE_LINE else math.ceil(lengths[0] / 2)
    return [least, *middles, 2 * lengths[-1] + 1]
