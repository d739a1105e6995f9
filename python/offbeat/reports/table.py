# SPDX-License-Identifier: BSD-3-Clause
"""The tables of ``offbeat bench``. There is one for each collective, arrival pattern and skew; its lines are
sizes, its columns algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from offbeat.bench import arrival_patterns
from offbeat.bench.plan import DEFAULT_COLLECTIVE, NO_SKEW, Cell
from offbeat.bench.results import FEW_SAMPLES, NOT_SERVED, WRONG, Benchmark, Result
from offbeat.bench.samples import Delay, factors, is_unsure
from offbeat.units import format_size, format_us, parse_skew

LEGEND = (
    "Last delay, from the last arrival to the last exit: median, then p10 .. p90. "
    "The factor is native's median divided by this one: above 1 is faster than native."
)
HIDDEN_TIME_NOTE = (
    "Non-blocking calls: times do not include what ranks compute between a call and its wait. Hidden: the "
    "share of the call that runs beside the computation."
)
LATE_NOTE = (
    "~ the ranks rarely arrived as the pattern says (shared or busy cores); all iterations are counted."
)
UNSURE_NOTE = (
    "? the factor is uncertain by more than 2 times: the machine is too busy, or the --budget too short."
)
CUT_NOTE = f"! fewer than {FEW_SAMPLES} samples: the budget was spent."
_SIZE_WIDTH = 10
_CELL_WIDTH = 22


class _Group(NamedTuple):
    """What the cells of one table have in common."""

    collective: str
    pattern: str
    skew: str
    variant: str  # such as "int32, max"; usually empty


def render(benchmark: Benchmark, width: int) -> Group:
    """All tables. Algorithms that do not fit side by side go into further tables, which repeat native."""
    results = {(result.cell, result.algorithm): result for result in benchmark.results}
    cells = list(dict.fromkeys(result.cell for result in benchmark.results))
    per_table = max(1, (width - _SIZE_WIDTH) // _CELL_WIDTH - 1)
    parts: list[Table | Text] = []
    for group in dict.fromkeys(_group(cell) for cell in cells):
        rows = [cell for cell in cells if _group(cell) == group]
        names = [name for name in benchmark.plan.algorithms if any((row, name) in results for row in rows)]
        others = [name for name in names if name != "native"]
        for first in range(0, max(len(others), 1), per_table):
            parts.append(_title(group))
            parts.append(_table(results, rows, ["native", *others[first : first + per_table]]))
    return Group(*parts, *(Text(line, style="dim") for line in _legend(results)), *_wrong(benchmark))


def _group(cell: Cell) -> _Group:
    return _Group(cell.collective, cell.pattern, cell.skew, cell.variant)


def _legend(results: dict[tuple[Cell, str], Result]) -> list[str]:
    timed = [result for result in results.values() if result.last_delays_us]
    lines = [LEGEND] if timed else []
    if any(result.computing_us is not None for result in timed):
        lines.append(HIDDEN_TIME_NOTE)
    if any(not result.on_time for result in timed):
        lines.append(LATE_NOTE)
    if any(result.iterations < FEW_SAMPLES for result in timed):
        lines.append(CUT_NOTE)
    for result in timed:
        native = results.get((result.cell, "native"), result)
        if native.last_delays_us and is_unsure(native.last_delay, result.last_delay):
            return [*lines, UNSURE_NOTE]
    return lines


def _wrong(benchmark: Benchmark) -> list[Text]:
    return [Text(f"WRONG: {line}", style="bold red") for line in benchmark.wrong_results()]


def _title(group: _Group) -> Text:
    # This is not the table's own title, which would be folded to the width of the table.
    lateness = "" if group.skew == NO_SKEW.label else f" (skew {parse_skew(group.skew)})"
    collective = "" if group.collective == DEFAULT_COLLECTIVE else f"{group.collective}, "
    variant = f"{group.variant}, " if group.variant else ""
    summary = arrival_patterns.summary(group.pattern)
    return Text(f"{collective}{variant}{group.pattern} arrival: {summary}{lateness}", style="bold")


def _table(
    results: dict[tuple[Cell, str], Result], cells: Sequence[Cell], algorithms: Sequence[str]
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("size", justify="right", no_wrap=True)
    for algorithm in algorithms:
        table.add_column(Text(algorithm), justify="right")
    for cell in cells:
        native = results.get((cell, "native"))
        texts = [_text(results.get((cell, name)), native) for name in algorithms]
        table.add_row(format_size(cell.size_bytes), *texts)
    return table


def _text(result: Result | None, native: Result | None) -> Text:
    if result is None:
        return Text("-", style="dim")
    if result.status == WRONG:
        return Text("WRONG", style="bold red")
    if result.status == NOT_SERVED:
        return Text("served by native", style="dim")
    delay = result.last_delay
    marks = ("" if result.on_time else " ~") + (" !" if result.iterations < FEW_SAMPLES else "")
    text = Text(format_us(delay.median) + marks)
    if native is not None and native is not result and native.last_delays_us and delay.median > 0:
        text.append(" ").append(_factor(native.last_delay, delay))
    text.append(f"\n{format_us(delay.p10)} .. {format_us(delay.p90)}", style="dim")
    if result.hidden is not None:
        text.append(f"\n{100 * result.hidden:.0f}% hidden", style="dim")
    return text


def _factor(native: Delay, delay: Delay) -> Text:
    low, high = factors(native, delay)
    # Only a certain difference has a colour.
    style = "green" if low > 1 else "red" if high < 1 else ""
    mark = "?" if is_unsure(native, delay) else ""
    return Text(f"{native.median / delay.median:.2f}x{mark}", style=style)
