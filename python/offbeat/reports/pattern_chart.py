# SPDX-License-Identifier: BSD-3-Clause
"""Show arrival patterns in the terminal: one as bars, or all as small pictures."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from offbeat.bench.arrival_patterns import PATTERNS
from offbeat.units import format_us

_BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
_RANKS_IN_PICTURE = 16
_MOST_BARS = 64
_TIME_WIDTH = 12


def chart(name: str, summary: str, delays_us: Sequence[float], width: int) -> Group:
    """One pattern as bars, one per rank. If there are many ranks, a bar shows the latest of several."""
    per_bar = -(-len(delays_us) // _MOST_BARS)
    labels, latest = [], []
    for first in range(0, len(delays_us), per_bar):
        last = min(first + per_bar, len(delays_us)) - 1
        labels.append(f"{first}" if first == last else f"{first}..{last}")
        latest.append(max(delays_us[first : last + 1]))
    label_width = max(map(len, labels))
    room = max(width - label_width - _TIME_WIDTH - 2, 8)
    longest = max(latest)
    lines = [Text(f"{name}: {summary}", style="bold")]
    if per_bar > 1:
        lines.append(Text(f"each bar is the latest of {per_bar} ranks", style="dim"))
    for label, delay in zip(labels, latest, strict=True):
        bar = "█" * round(room * delay / longest) if longest > 0 else ""
        lines.append(Text(f"{label:>{label_width}} {format_us(delay):>{_TIME_WIDTH - 1}} {bar or '▏'}"))
    return Group(*lines)


def overview(seed: int) -> Table:
    """A table of all patterns."""
    table = Table(title="Arrival patterns", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                  pad_edge=False)  # fmt: skip
    table.add_column("name", no_wrap=True)
    table.add_column(f"on {_RANKS_IN_PICTURE} ranks", no_wrap=True)
    table.add_column("which ranks are late", overflow="fold")
    table.add_column("delay of rank i, x = i / (p - 1)", overflow="fold")
    for name, pattern in PATTERNS.items():
        delays = pattern.rounds(_RANKS_IN_PICTURE, seed)[0]
        picture = "".join(_BAR_CHARACTERS[round(delay * (len(_BAR_CHARACTERS) - 1))] for delay in delays)
        table.add_row(name, picture, pattern.summary, Text(pattern.formula))
    return table
