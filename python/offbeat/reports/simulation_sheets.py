# SPDX-License-Identifier: BSD-3-Clause
"""The tables of a simulation: the time of each expression, and which ranks wait for which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from offbeat.bench import arrival_patterns
from offbeat.bench.plan import NO_SKEW
from offbeat.reports.sheet import Cell, Sheet, Tone
from offbeat.simulate.simulation import Cell as Line
from offbeat.simulate.simulation import Result, Simulation
from offbeat.units import format_count, format_size, format_us, parse_skew

_LEAST_NAMED_SHARE = 0.1  # a rank is named if it caused this share of the waiting
_MOST_NAMED = 3
_EXPRESSIONS_PER_TABLE = 4  # expressions in one table; their names are long
_NEGLIGIBLE_WAITING_SHARE = 0.01  # waiting up to this share of the delay counts as none


def sheets(found: Simulation) -> list[Sheet]:
    """For each arrival pattern and skew: tables of times, of waiting, and of the max-rate model."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in found.results:
        groups.setdefault((result.cell.pattern, result.cell.skew), []).append(result)
    return [sheet for results in groups.values() for sheet in _sheets_of_group(found, results)]


def _sheets_of_group(found: Simulation, results: Sequence[Result]) -> Iterator[Sheet]:
    by_key = {(result.cell, result.algorithm): result for result in results}
    lines = list(dict.fromkeys(result.cell for result in results))
    names = found.plan.algorithms
    first = {line: by_key[line, names[0]] for line in lines}
    best = {line: min(by_key[line, name].last_delay.median for name in names) for line in lines}
    title = _title(found, lines[0])

    def of_each(
        what: str, cell: Callable[[Line, Result], Cell], note: str, *, words: bool = False
    ) -> list[Sheet]:
        made = []
        for number in range(0, len(names), _EXPRESSIONS_PER_TABLE):
            some = names[number : number + _EXPRESSIONS_PER_TABLE]
            rows = [
                [*_table_head(line), *(cell(line, by_key[line, name]) for name in some)] for line in lines
            ]
            columns = ["nodes x ranks", "size", *some]
            left = frozenset(range(len(columns))) if words else frozenset({0})
            made.append(Sheet(f"{title}: {what}", columns, rows, note, left))
        return made

    yield from of_each(
        "last delay",
        lambda line, result: _time(result, first[line], best[line]),
        f"From the last arrival to the last exit{_draws(results)}. In brackets: the delay of {names[0]} "
        "divided by this one. ▼: the least in this line.",
    )
    yield from of_each(
        "who waits for whom",
        lambda _, result: _waiting(result),
        "How long a rank waits, on average, for an operation that another rank has not begun, and which "
        "ranks cause this: those that were late by themselves, including when others passed the delay on. In "
        "brackets: their share of the longest waits of all ranks. -: hardly any waiting.",
        words=True,
    )
    if any(result.model_us is not None for result in results):
        yield from of_each(
            "the max-rate model",
            lambda _, result: _model(result),
            "In brackets: the difference from the simulated delay.",
        )


def _table_head(line: Line) -> list[Cell]:
    return [Cell(str(line.shape)), Cell(format_size(line.size_bytes))]


def _title(found: Simulation, line: Line) -> str:
    lateness = "" if line.skew == NO_SKEW.label else f", skew {_skew(line.skew)}"
    return (
        f"{found.plan.collective}, {line.pattern} arrival "
        f"({arrival_patterns.summary(line.pattern)}{lateness})"
    )


def _skew(label: str) -> str:
    parsed = parse_skew(label)
    return f"{parsed.factor:g} x the mean" if parsed.factor is not None else str(parsed)


def _draws(results: Sequence[Result]) -> str:
    draws = len(results[0].last_delays_us)
    return f", the median of {draws} draws" if draws > 1 else ""


def _time(result: Result, first: Result, best: float) -> Cell:
    mine = result.last_delay.median
    text = format_us(mine)
    if result is not first and mine > 0:
        text += f" ({first.last_delay.median / mine:.2f}x)"
    return Cell(text, Tone.GOOD if mine == best else Tone.PLAIN)


def _model(result: Result) -> Cell:
    if result.model_us is None:
        return Cell("-", Tone.DIM)
    off = result.model_us / result.last_delay.median - 1
    return Cell(f"{format_us(result.model_us)} ({100 * off:+.2f}%)")


def _waiting(result: Result) -> Cell:
    if result.waiting_us < _NEGLIGIBLE_WAITING_SHARE * result.total_delays_us[0]:
        return Cell("-", Tone.DIM)
    parts = [(cause.rank, cause.waiting_us / result.longest_waits_us) for cause in result.causes]
    named = [
        f"rank {rank} ({100 * part:.0f}%)" for rank, part in parts[:_MOST_NAMED] if part >= _LEAST_NAMED_SHARE
    ]
    for_whom = ", ".join(named) or format_count(result.ranks_waited_for, "rank")
    return Cell(f"{format_us(result.waiting_us)} for {for_whom}")
