# SPDX-License-Identifier: BSD-3-Clause
"""Groups of bars as SVG, in the style of docs/gallery."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 720, 250, 64, 150, 44, 44
COLOURS = ("#8c959f", "#d0a215", "#b3261e", "#1a7f74", "#2f6db5", "#8250df")
TICKS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Bar:
    middle: float
    least: float
    most: float


@dataclass(frozen=True)
class Panel:
    title: str
    groups: Mapping[str, Mapping[str, Bar]]  # by the name below the group, by the name of the way


def drawn(panels: Sequence[Panel], axis: str) -> str:
    """The panels below each other. A bar has a line from the least to the largest value."""
    height = PANEL * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13"'
        ' font-family="system-ui, sans-serif">',
        f"<title>{html.escape(panels[0].title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        parts += panel_at(panel, number * PANEL, axis)
    return "\n".join([*parts, "</svg>", ""])


def panel_at(panel: Panel, top: float, axis: str) -> list[str]:
    ways = list(dict.fromkeys(way for group in panel.groups.values() for way in group))
    most = max(1.0, *(bar.most for group in panel.groups.values() for bar in group.values()))
    base, room = top + PANEL - BOTTOM, PANEL - TOP - BOTTOM
    wide = (WIDTH - LEFT - RIGHT) / len(panel.groups)
    bar_wide = min(0.8 * wide / len(ways), 26)

    def down(value: float) -> float:
        return base - value / most * room

    parts = [f'<text x="{LEFT}" y="{top + 24}" font-weight="600">{html.escape(panel.title)}</text>']
    for tick in TICKS:
        parts.append(f'<path d="M{LEFT} {down(tick):.1f}H{WIDTH - RIGHT}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>')
    turned = f"translate(16 {top + PANEL / 2:.0f}) rotate(-90)"
    parts.append(f'<text transform="{turned}" text-anchor="middle">{html.escape(axis)}</text>')
    for number, (name, group) in enumerate(panel.groups.items()):
        middle = LEFT + (number + 0.5) * wide
        place = f'x="{middle:.1f}" y="{base + 18:.1f}"'
        parts.append(f'<text {place} text-anchor="middle" font-size="11">{html.escape(name)}</text>')
        left = middle - bar_wide * len(group) / 2
        for way, bar in group.items():
            colour = COLOURS[ways.index(way) % len(COLOURS)]
            parts.append(
                f'<rect x="{left:.1f}" y="{down(bar.middle):.1f}" width="{bar_wide - 2:.1f}"'
                f' height="{base - down(bar.middle):.1f}" fill="{colour}"/>'
            )
            line = f"M{left + bar_wide / 2 - 1:.1f} {down(bar.least):.1f}V{down(bar.most):.1f}"
            parts.append(f'<path d="{line}" stroke="#1f2328"/>')
            left += bar_wide
    for number, way in enumerate(ways):
        y = top + TOP + 12 + 18 * number
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{y}">{html.escape(way)}</text>')
    return parts
