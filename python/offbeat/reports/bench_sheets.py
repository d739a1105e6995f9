# SPDX-License-Identifier: BSD-3-Clause
"""The tables of a benchmark under arrival patterns, as in paper 4."""

from __future__ import annotations

from collections.abc import Sequence

from offbeat.bench import ranking
from offbeat.bench.ranking import Row
from offbeat.reports.sheet import Cell, Sheet, Tone
from offbeat.units import format_size, format_us


def sheets(rows: Sequence[Row]) -> list[Sheet]:
    """All tables of a benchmark, collective by collective."""
    found = []
    for collective in ranking.collectives_of(rows):
        sizes = ranking.sizes_of(rows, collective)
        found.append(best_algorithm_sheet(rows, collective, sizes))
        found += [delays(rows, collective, size) for size in sizes]
        if any(row.balanced for row in rows) and len(ranking.patterns_of(rows, collective)) > 1:
            found += [robustness(rows, collective, size) for size in sizes]
        found += [normalised(rows, collective, size) for size in sizes]
        found.append(recommended_algorithm_sheet(rows, collective, sizes))
    return found


def best_algorithm_sheet(rows: Sequence[Row], collective: str, sizes: Sequence[int]) -> Sheet:
    """Figure 4: the best algorithm for each arrival pattern and size."""
    by_cell = {(row.pattern, row.size_bytes): row for row in rows if row.collective == collective}
    lines = []
    for pattern in ranking.patterns_of(rows, collective):
        line = [Cell(pattern)]
        for size in sizes:
            row = by_cell.get((pattern, size))
            line.append(_best_cell(row, rows) if row is not None else _EMPTY_CELL)
        lines.append(line)
    return Sheet(
        f"{collective}: the best algorithm for each arrival pattern and size",
        ("arrival", *map(format_size, sizes)),
        lines,
        "The number is its last delay divided by that of the algorithm that is best if no rank is late. "
        "▼: choosing by a balanced benchmark costs 5% or more.",
        left=frozenset(range(len(sizes) + 1)),
    )


def _best_cell(row: Row, rows: Sequence[Row]) -> Cell:
    found = ranking.winner(row, rows)
    if found is None:
        return _EMPTY_CELL
    if found.ratio is None:
        return Cell(found.algorithm)
    gains = found.ratio <= 1 - ranking.GOOD_WITHIN
    return Cell(f"{found.algorithm} {found.ratio:.2f}", Tone.GOOD if gains else Tone.PLAIN)


def delays(rows: Sequence[Row], collective: str, size: int) -> Sheet:
    """Figure 5: the last delays at one size, and which are as good as the least."""
    algorithms = ranking.algorithms_of(rows, collective)
    lines = []
    for row in ranking.rows_at(rows, collective, size):
        good = ranking.nearly_fastest(row)
        line = [Cell(row.pattern)]
        for name in algorithms:
            delay = row.delays.get(name)
            tone = Tone.GOOD if name in good else Tone.PLAIN
            line.append(Cell(format_us(delay.median), tone) if delay is not None else _EMPTY_CELL)
        lines.append(line)
    return Sheet(
        f"{collective} of {format_size(size)}: last delay of each algorithm",
        ("arrival", *algorithms),
        lines,
        "Median of the time from the last arrival to the last exit. ▼: at most 5% slower than the fastest in "
        "this line.",
    )


def robustness(rows: Sequence[Row], collective: str, size: int) -> Sheet:
    """Figure 6: how much each pattern changes the delay of each algorithm."""
    algorithms = ranking.algorithms_of(rows, collective)
    lines = []
    for row in ranking.rows_at(rows, collective, size):
        if row.balanced:
            continue
        changes = ranking.robustness(row, rows)
        line = [Cell(row.pattern)]
        for name in algorithms:
            line.append(_change_text(changes[name]) if name in changes else _EMPTY_CELL)
        lines.append(line)
    return Sheet(
        f"{collective} of {format_size(size)}: robustness against lateness",
        ("arrival", *algorithms),
        lines,
        "Last delay under the pattern divided by the balanced one, minus 1. ▼ (below -0.25): the algorithm "
        "absorbs lateness. ▲ (above 0.25): it suffers from lateness.",
    )


def _change_text(change: float) -> Cell:
    tone = (
        Tone.GOOD
        if change < -ranking.UNCHANGED_WITHIN
        else Tone.BAD
        if change > ranking.UNCHANGED_WITHIN
        else Tone.PLAIN
    )
    return Cell(f"{change:+.2f}", tone)


def normalised(rows: Sequence[Row], collective: str, size: int) -> Sheet:
    """Figure 8 for one size: delays divided by the least in their line, and the scores."""
    mine = ranking.rows_at(rows, collective, size)
    algorithms = ranking.algorithms_of(rows, collective)
    scores = ranking.scores(mine)
    lines = []
    for row in mine:
        values = ranking.normalised(row)
        line = [Cell(row.pattern)]
        for name in algorithms:
            line.append(_normalised_cell(values[name], row.times[name]) if name in values else _EMPTY_CELL)
        lines.append(line)
    least = min(scores.values(), default=0.0)
    average = [Cell("average")]
    for name in algorithms:
        if name in scores:
            average.append(Cell(f"{scores[name]:.2f}", Tone.GOOD if scores[name] == least else Tone.PLAIN))
        else:
            average.append(_EMPTY_CELL)
    return Sheet(
        f"{collective} of {format_size(size)}: last delay divided by the least in its line",
        ("arrival", *algorithms),
        [*lines, average],
        "In brackets: the last delay. The average is the score. ▼: the best choice over all patterns.",
    )


def _normalised_cell(value: float, microseconds: float) -> Cell:
    return Cell(f"{value:.2f} ({format_us(microseconds)})", Tone.GOOD if value == 1 else Tone.PLAIN)


def recommended_algorithm_sheet(rows: Sequence[Row], collective: str, sizes: Sequence[int]) -> Sheet:
    """The algorithm to use, size by size."""
    lines = []
    for size in sizes:
        mine = ranking.rows_at(rows, collective, size)
        scores = ranking.scores(mine)
        if not scores:
            continue
        chosen = min(scores, key=scores.__getitem__)
        balanced = next((row.best for row in mine if row.balanced), None)
        lines.append(
            [
                Cell(format_size(size)),
                Cell(chosen),
                Cell(f"{scores[chosen]:.2f}"),
                Cell(balanced or "not measured"),
                Cell(f"{scores[balanced]:.2f}" if balanced in scores else "-"),
            ]
        )
    return Sheet(
        f"{collective}: what to use",
        ("size", "best over all patterns", "score", "best when balanced", "its score"),
        lines,
        "Score: the delay divided by the least, averaged over the patterns. 1: best under every pattern.",
        left=frozenset({0, 1, 3}),
    )


_EMPTY_CELL = Cell("-", Tone.DIM)
