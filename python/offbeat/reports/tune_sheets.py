# SPDX-License-Identifier: BSD-3-Clause
"""The summary of a tuning: what changed against the rules in force, and what that brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from offbeat.reports.sheet import Cell, Sheet, Tone
from offbeat.rules.spelling import bytes_text
from offbeat.tune.by_simulation import NATIVE, SimulatedRow
from offbeat.tune.decisions import Decision, Row, mean_ratio
from offbeat.units import format_us

NOTE = "Last delays and their quotients are geometric means over the arrival patterns; below 1 is faster."
SIMULATED_NOTE = (
    "of the MPI's: the last delay divided by that of what the MPI runs by default, in the simulator; a "
    "geometric mean over machines, numbers of nodes, sizes and arrival patterns. "
    "native: nothing is faster everywhere."
)
_NOTICED = 0.03  # a smaller difference counts as none
_UNCERTAIN = 0.25


def sheet(rows: Sequence[Row]) -> Sheet:
    """A table with one row for each rule, of one collective on one number of ranks."""
    first = rows[0].first
    place = first.place
    where = f"{place.ranks} ranks" + (f" on {place.nodes} nodes" if place.nodes > 1 else "")
    return Sheet(
        caption=f"{first.collective} on {where}",
        columns=("bytes", "algorithm", "before", "last delay", "of native's", "of before"),
        rows=[
            [
                Cell(bytes_text(row.least, row.most)),
                Cell(row.first.algorithm),
                Cell(", ".join(dict.fromkeys(_before(each) for each in row.decisions))),
                Cell(_delays(row.decisions)),
                _ratio(mean_ratio(each.of_native for each in row.decisions)),
                _ratio(mean_ratio(each.of_before for each in row.decisions)),
            ]
            for row in rows
        ],
        left=frozenset({0, 1, 2}),
    )


def simulated(rows: Sequence[SimulatedRow], hosts: Sequence[str]) -> Iterator[Sheet]:
    """A table for each collective and number of ranks on a node, with one row for each rule."""
    for (collective, ppn), of in groupby(rows, key=lambda row: (row.collective, row.ppn)):
        yield Sheet(
            caption=f"{collective}, {ppn} rank{'s' if ppn > 1 else ''} on each node",
            columns=("nodes", "MPI", "bytes", "algorithm", "of the MPI's"),
            rows=[
                [
                    Cell(row.fields()[2]),
                    Cell("any" if row.host == "*" else row.host),
                    Cell(row.fields()[4]),
                    Cell(row.algorithm, Tone.DIM if row.algorithm == NATIVE else Tone.PLAIN),
                    _ratio(row.of_host([row.host] if row.host != "*" else hosts)),
                ]
                for row in of
            ],
            left=frozenset({0, 1, 2, 3}),
        )


def _before(decision: Decision) -> str:
    return "same" if decision.before == decision.algorithm else decision.before


def _delays(decisions: Sequence[Decision]) -> str:
    delays = [each.us for each in decisions]
    least, most = min(delays), max(delays)
    return format_us(least) if len(delays) == 1 else f"{format_us(least)} .. {format_us(most)}"


def _ratio(ratio: float | None) -> Cell:
    if ratio is None:
        return Cell("-", Tone.DIM)
    tone = Tone.GOOD if ratio < 1 - _NOTICED else Tone.BAD if ratio > 1 + _NOTICED else Tone.PLAIN
    return Cell(f"{ratio:.2f}", tone)


def verdict(decisions: Sequence[Decision]) -> str:
    """One line: how many choices change, and what that brings."""
    changed = [each for each in decisions if each.changes]
    sizes = f"{len(decisions)} choice{'' if len(decisions) == 1 else 's'}"
    found = f"{len(changed)} of {sizes} change"
    if (gain := mean_ratio(each.of_before for each in changed)) is not None:
        found += f": there the last delay is {gain:.2f} of what it was (geometric mean)"
    if (native := mean_ratio(each.of_native for each in decisions)) is not None:
        found += f"; over all it is {native:.2f} of native's"
    stale = sum(not each.fresh for each in decisions if each.algorithm != "native")
    if stale:
        found += f"; {stale} without a second measurement, because the budget was spent"
    doubtful = sum(each.uncertainty > _UNCERTAIN for each in decisions)
    if doubtful:
        found += f"; {doubtful} with figures that are uncertain by more than 25%: the machine was too busy"
    return found
