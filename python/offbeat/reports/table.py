# SPDX-License-Identifier: BSD-3-Clause
"""The tables of ``offbeat bench``: one for each arrival pattern, sizes down, algorithms across."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from offbeat import arrival
from offbeat.records import Check, Delay, Records, Result
from offbeat.units import format_size, format_us

LEGEND = (
    "Last delay, from the last arrival to the last exit: median, then p10 .. p90. "
    "The factor is native's median divided by this one: above 1 is faster than native."
)
LATE = "~ the ranks rarely arrived as the pattern says (shared or busy cores); all iterations are counted."
UNSURE = "? the factor is uncertain by more than 2: the machine is too busy, or the --budget too short."
_UNSURE_SPREAD = 2.0
_SIZE_WIDTH = 10
_CELL_WIDTH = 22


def render(records: Records, algorithms: Sequence[str], skew: str, width: int) -> Group:
    """All tables; algorithms that do not fit side by side continue in further tables, native in each."""
    others = [name for name in algorithms if name != "native"]
    per_table = max(1, (width - _SIZE_WIDTH) // _CELL_WIDTH - 1)
    parts: list[Table | Text] = []
    for pattern in dict.fromkeys(result.pattern for result in records.results):
        for first in range(0, max(len(others), 1), per_table):
            parts.append(_title(pattern, skew))
            parts.append(_pattern_table(records, pattern, ["native", *others[first : first + per_table]]))
    parts.append(Text(LEGEND, style="dim"))
    if any(not result.on_time for result in records.results):
        parts.append(Text(LATE, style="dim"))
    if _any_unsure(records):
        parts.append(Text(UNSURE, style="dim"))
    for line in records.wrong_results():
        parts.append(Text(f"WRONG: {line}", style="bold red"))
    return Group(*parts)


def _any_unsure(records: Records) -> bool:
    natives = {(r.size_bytes, r.pattern): r.last_delay for r in records.results if r.algorithm == "native"}
    return any(
        _is_unsure(natives[r.size_bytes, r.pattern], r.last_delay)
        for r in records.results
        if r.algorithm != "native" and (r.size_bytes, r.pattern) in natives
    )


def _title(pattern: str, skew: str) -> Text:
    # Not the table's own title: that is folded to the table's width.
    lateness = "" if pattern == "balanced" else f" (skew {skew})"
    return Text(f"{pattern} arrival: {arrival.PATTERNS[pattern].summary}{lateness}", style="bold")


def _pattern_table(records: Records, pattern: str, algorithms: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("size", justify="right", no_wrap=True)
    for algorithm in algorithms:
        table.add_column(Text(algorithm), justify="right")
    results = {(r.size_bytes, r.algorithm): r for r in records.results if r.pattern == pattern}
    checks = {(c.size_bytes, c.algorithm): c for c in records.checks}
    for size in dict.fromkeys(check.size_bytes for check in records.checks):
        native = results.get((size, "native"))
        cells = [_cell(results.get((size, name)), checks.get((size, name)), native) for name in algorithms]
        table.add_row(format_size(size), *cells)
    return table


def _cell(result: Result | None, check: Check | None, native: Result | None) -> Text:
    if (check is not None and check.wrong is not None) or (result is not None and result.wrong is not None):
        return Text("WRONG", style="bold red")
    if result is None:
        if check is not None and not check.served and check.algorithm != "native":
            return Text("served by native", style="dim")
        return Text("-", style="dim")
    delay = result.last_delay
    text = Text(format_us(delay.median) + ("" if result.on_time else " ~"))
    if native is not None and native is not result and delay.median > 0:
        text.append(" ").append(_factor(native.last_delay, delay))
    text.append(f"\n{format_us(delay.p10)} .. {format_us(delay.p90)}", style="dim")
    return text


def _interval(native: Delay, delay: Delay) -> tuple[float, float]:
    """What the 95% intervals of the two medians leave open about the factor."""
    return native.ci95_low / max(delay.ci95_high, 1e-9), native.ci95_high / max(delay.ci95_low, 1e-9)


def _is_unsure(native: Delay, delay: Delay) -> bool:
    low, high = _interval(native, delay)
    return high > _UNSURE_SPREAD * low


def _factor(native: Delay, delay: Delay) -> Text:
    low, high = _interval(native, delay)
    # Colour only what is certain.
    style = "green" if low > 1 else "red" if high < 1 else ""
    mark = "?" if _is_unsure(native, delay) else ""
    return Text(f"{native.median / delay.median:.2f}x{mark}", style=style)
