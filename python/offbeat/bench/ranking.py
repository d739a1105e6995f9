# SPDX-License-Identifier: BSD-3-Clause
"""Rank the algorithms of a benchmark under arrival patterns, as in the tables of paper 4.

Paper 4 is Salimi Beni, Cosenza, Hunold, Cluster 2024. All delays are last delays (d-hat), in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offbeat.bench.samples import Delay

BALANCED = "balanced"
GOOD_WITHIN = (
    0.05  # section IV.B: an algorithm up to this much slower than the fastest counts as equally good
)
UNCHANGED_WITHIN = 0.25  # section IV.C: a change under a pattern up to this size counts as no change


@dataclass(frozen=True)
class Row:
    """The delays of all algorithms under one pattern, at one size of one collective."""

    collective: str
    size_bytes: int
    pattern: str  # with its skew, if the benchmark has several
    delays: Mapping[str, Delay]

    @property
    def times(self) -> dict[str, float]:
        """The median of each algorithm in microseconds. Leaves out medians of 0."""
        return {algorithm: delay.median for algorithm, delay in self.delays.items() if delay.median > 0}

    @property
    def best(self) -> str | None:
        """The algorithm with the least delay."""
        return min(self.times, key=self.times.__getitem__, default=None)

    @property
    def balanced(self) -> bool:
        """Whether no rank is late under the pattern."""
        return self.pattern == BALANCED


@dataclass(frozen=True)
class Winner:
    """A cell of figure 4: the best algorithm under a pattern, compared with the balanced winner there."""

    algorithm: str
    ratio: float | None  # its delay divided by that of the balanced winner; None: that one was not measured


def winner(row: Row, rows: Sequence[Row]) -> Winner | None:
    """d-hat(best under the pattern) / d-hat(balanced winner under the pattern) (section III.C, figure 4)."""
    best = row.best
    if best is None:
        return None
    balanced = balanced_of(row, rows)
    chosen = balanced.best if balanced is not None else None
    ratio = row.times[best] / row.times[chosen] if chosen in row.times else None
    return Winner(best, ratio)


def balanced_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of the same collective and size in which no rank is late."""
    same = (
        r for r in rows if r.balanced and (r.collective, r.size_bytes) == (row.collective, row.size_bytes)
    )
    return next(same, None)


def nearly_fastest(row: Row) -> set[str]:
    """The algorithms at most 5% slower than the fastest (section IV.B, figure 5)."""
    times = row.times
    limit = (1 + GOOD_WITHIN) * min(times.values(), default=0.0)
    return {algorithm for algorithm, time in times.items() if time <= limit}


def robustness(row: Row, rows: Sequence[Row]) -> dict[str, float]:
    """The value d-hat(pattern) / d-hat(balanced) - 1 of each algorithm (section IV.C, figure 6).

    An algorithm below -0.25 absorbs skew, one above 0.25 suffers from it.
    """
    balanced = balanced_of(row, rows)
    before = balanced.times if balanced is not None else {}
    return {name: time / before[name] - 1 for name, time in row.times.items() if name in before}


def normalised(row: Row) -> dict[str, float]:
    """Each delay divided by the least delay of its row (section V.B, figure 8)."""
    return _normalised(row.times)


def _normalised(times: Mapping[str, float]) -> dict[str, float]:
    least = min(times.values(), default=1.0)
    return {algorithm: time / least for algorithm, time in times.items()}


def scores(rows: Iterable[Row]) -> dict[str, float]:
    """The score of each algorithm: the average of its normalised delays over the rows (section V.C).

    The paper chooses the algorithm with the least score. Only algorithms that were measured in all rows have
    one.
    """
    return scores_of_times(row.times for row in rows)


def scores_of_times(times_by_pattern: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The scores, as ``scores`` computes them, from the plain times under each pattern."""
    tables = [_normalised(times) for times in times_by_pattern]
    common = set(tables[0]).intersection(*tables[1:]) if tables else set()
    return {
        algorithm: sum(table[algorithm] for table in tables) / len(tables)
        for algorithm in (tables[0] if tables else ())
        if algorithm in common
    }


def sizes_of(rows: Sequence[Row], collective: str) -> list[int]:
    """The sizes of a collective in bytes, ascending."""
    return sorted({row.size_bytes for row in rows if row.collective == collective})


def collectives_of(rows: Sequence[Row]) -> list[str]:
    """The collectives, in the order of the rows."""
    return list(dict.fromkeys(row.collective for row in rows))


def patterns_of(rows: Sequence[Row], collective: str) -> list[str]:
    """The patterns of a collective, in the order of the rows."""
    return list(dict.fromkeys(row.pattern for row in rows if row.collective == collective))


def algorithms_of(rows: Sequence[Row], collective: str) -> list[str]:
    """The algorithms of a collective, in the order of the rows."""
    named = (name for row in rows if row.collective == collective for name in row.delays)
    return list(dict.fromkeys(named))


def rows_at(rows: Sequence[Row], collective: str, size_bytes: int) -> list[Row]:
    """The rows of a collective at one size."""
    return [row for row in rows if (row.collective, row.size_bytes) == (collective, size_bytes)]
