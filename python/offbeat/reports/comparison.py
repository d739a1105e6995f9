# SPDX-License-Identifier: BSD-3-Clause
"""The table of ``offbeat compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from offbeat.bench.compare import FASTER, NO_DIFFERENCE, SLOWER, Comparison
from offbeat.bench.plan import NO_SKEW
from offbeat.units import format_count, format_size, format_us

_STYLES = {FASTER: "green", SLOWER: "red", NO_DIFFERENCE: "dim"}
LEGEND = (
    "Medians of the last delay. B/A above 1: B is slower. The interval holds with 95% confidence for all "
    "cells together. It covers only the noise within each file."
)


def render(
    comparisons: Sequence[Comparison], differences: Sequence[str], *, everything: bool = False
) -> Group:
    """The output of ``offbeat compare``: conditions that differ, cells that differ (or all), and counts."""
    shown = [c for c in comparisons if everything or c.verdict != NO_DIFFERENCE]
    counts = Counter(c.verdict for c in comparisons)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (FASTER, SLOWER, NO_DIFFERENCE))
    parts: list[Table | Text] = [Text(f"differs: {line}") for line in differences]
    if shown:
        parts += [_table(shown), Text(LEGEND, style="dim")]
    return Group(*parts, Text(f"{format_count(len(comparisons), 'cell')}: {total}"))


def _table(comparisons: Sequence[Comparison]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("cell", "algorithm"):
        table.add_column(name)
    for name in ("size", "A", "B", "B/A", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for c in comparisons:
        variant = f", {c.cell.variant}" if c.cell.variant else ""
        lateness = "" if c.cell.skew == NO_SKEW.label else f" {c.cell.skew}"
        table.add_row(
            f"{c.cell.collective}{variant}, {c.cell.pattern}{lateness}",
            Text(c.algorithm),
            format_size(c.cell.size_bytes),
            format_us(c.first.median),
            format_us(c.second.median),
            f"{c.ratio:.2f}",
            f"{c.low:.2f} .. {c.high:.2f}" if c.high < 1e3 else "unknown",
            Text(c.verdict, style=_STYLES[c.verdict]),
        )
    return table
