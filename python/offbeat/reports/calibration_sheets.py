# SPDX-License-Identifier: BSD-3-Clause
"""What a calibration found, as tables: parameters with their intervals, and the fits of algorithms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from offbeat.calibrate.hockney import LEAST_CASES, Hockney
from offbeat.calibrate.parameters import Calibrated, Messages
from offbeat.calibrate.regression import Interval
from offbeat.reports.sheet import Cell, Sheet
from offbeat.units import format_count, format_size


def sheets(found: Calibrated, algorithms: Sequence[Hockney]) -> Iterator[Sheet]:
    """The parameters, and the algorithms if any were fitted."""
    yield Sheet(
        caption="The machine: values with 95% intervals",
        columns=("of", "parameter", "value", "from", "to"),
        rows=[[Cell(of), Cell(key), *_interval_cells(interval)] for of, key, interval in parameters(found)],
        left=frozenset({0, 1}),
    )
    if algorithms:
        yield Sheet(
            caption="allreduce algorithms: Hockney's parameters, and the relative errors of the fits",
            columns=(
                "algorithm",
                "latency, µs",
                "from",
                "to",
                "GB/s",
                "from",
                "to",
                "error",
                "largest",
                "R²",
            ),
            rows=[
                [
                    Cell(each.expression),
                    *_interval_cells(each.latency_us),
                    *_interval_cells(each.bandwidth_gb_per_s),
                    Cell(f"{each.error:.0%}"),
                    Cell(f"{each.largest_error:.0%}"),
                    Cell(f"{each.r_squared:.3f}"),
                ]
                for each in algorithms
            ],
        )


def too_few_line(cases: Mapping[str, int]) -> str:
    """The line about algorithms for which the budget was too short, up to the command that measures more.

    ``cases`` has how many cases of each were measured.
    """
    least, most = min(cases.values()), max(cases.values())
    measured = f"{least} to {most} cases" if least < most else format_count(most, "case")
    each = " each" if len(cases) > 1 else ""
    were = "was" if least == most == 1 and not each else "were"
    return (
        f"Left out: {', '.join(cases)}: the budget was too short: {measured}{each} {were} measured, and a "
        f"fit needs {LEAST_CASES}. To measure more:"
    )


def parameters(found: Calibrated) -> Iterator[tuple[str, str, Interval]]:
    """Each parameter as the table of the machine file, its key, and its value."""
    for key, interval in found.core.items():
        yield "core", key, interval
    for speeds in found.beyond:
        for key, interval in speeds.values.items():
            yield f"core, beyond {format_size(speeds.cache_bytes)}", key, interval
    levels = (("within_node", found.within_node), ("between_nodes", found.between_nodes))
    for name, messages in levels:
        if messages is not None:
            yield from _level_rows(name, messages)
    if found.node_bandwidth_gb_per_s is not None:
        yield "between_nodes", "node_bandwidth_gb_per_s", found.node_bandwidth_gb_per_s
    for key, interval in found.board.items():
        yield "board", key, interval


def _level_rows(name: str, messages: Messages) -> Iterator[tuple[str, str, Interval]]:
    for segment in messages.segments:
        of = name if segment.from_bytes == 0 else f"{name}, from {format_size(segment.from_bytes)}"
        yield of, "latency_us", segment.latency_us
        yield of, "bandwidth_gb_per_s", segment.bandwidth_gb_per_s
        if name == "within_node":
            for key, interval in segment.copies.items():
                yield of, key, interval
    for key, interval in messages.overheads.items():
        yield name, key, interval


def _interval_cells(interval: Interval) -> list[Cell]:
    values = (interval.value, interval.low, interval.high)
    return [Cell(f"{value:.3g}" if math.isfinite(value) else "no limit") for value in values]
