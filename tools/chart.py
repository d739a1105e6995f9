# SPDX-License-Identifier: BSD-3-Clause
"""Draw charts as SVG: lines over an axis, pairs of dots under headings, and groups of bars.

The axis of values is logarithmic, except that of bars.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from offbeat.units import format_size

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 44, 48  # the right margin has the names of the lines
COLOURS = ("#1a7f74", "#b3261e", "#2f6db5", "#8250df", "#9a6700")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4")
PANEL = 250  # the height of a panel of bars
SHARES = (0.25, 0.5, 0.75, 1.0)  # the marks beside bars
AXES = {"size_bytes": "message", "nodes": "nodes"}

# By name: the points of a line.
Lines = Mapping[str, Sequence[tuple[float, float]]]
# By heading, and by name: the two values that are compared, the earlier one first.
Pairs = Mapping[str, Mapping[str, tuple[float, float]]]


@dataclass(frozen=True)
class Bar:
    """A bar as high as `middle`, with a line from `least` to `most`."""

    middle: float
    least: float
    most: float


# By the title of a panel, by heading, and by name.
Panels = Mapping[str, Mapping[str, Mapping[str, Bar]]]


def opening(title: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13"'
        ' font-family="system-ui, sans-serif">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
    ]


def ticks(least: float, most: float) -> list[float]:
    """1, 2 and 5 times powers of ten; only the powers if these are enough."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    inside = [power for power in powers if least <= 10**power <= most]
    factors = (1, 2, 5) if len(inside) < 3 else (1,)
    marks = [factor * 10**power for power in powers for factor in factors]
    return [mark for mark in marks if least <= mark <= most]


class Frame:
    """The title, the value axis and the names at the right of a chart."""

    def __init__(self, title: str, x: str, y: str, values: Sequence[float], *, has_one: bool = False) -> None:
        self._low, self._high = math.log(min(values) / 1.15), math.log(max(values) * 1.15)
        middle = (LEFT + WIDTH - RIGHT) / 2
        self.parts = [
            *opening(title, HEIGHT),
            f'<text x="{LEFT}" y="24" font-weight="600">{html.escape(title)}</text>',
        ]
        for value in ticks(math.exp(self._low), math.exp(self._high)):
            colour = "#57606a" if has_one and value == 1 else "#d8dee4"
            at = self.down(value)
            self.parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="{colour}"/>')
            self.parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
        self._axes = [
            f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{x}</text>',
            f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{y}</text>',
        ]

    def down(self, value: float) -> float:
        share = (math.log(value) - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def label(self, x: float, text: str) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{html.escape(text)}</text>'
        )

    def label_axes(self) -> None:
        self.parts += self._axes

    def dot(self, x: float, y: float, colour: str, *, hollow: bool = False) -> None:
        fill = f'fill="#fff" stroke="{colour}" stroke-width="2"' if hollow else f'fill="{colour}"'
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {fill}/>')

    def name(self, y: float, text: str, colour: str) -> None:
        self.parts.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{y + 4:.1f}" fill="{colour}">{html.escape(text)}</text>'
        )

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def lines_over(
    title: str,
    x: str,
    y: str,
    lines: Lines,
    *,
    hollow: Collection[tuple[str, float]] = (),
    has_one: bool = False,
) -> str:
    """Lines over `nodes` or `size_bytes`, on a logarithmic axis. Each line has its name at its end.

    :param hollow: names and places of the points that are drawn as rings
    :param has_one: whether the chart has a line at 1 that stands out
    """
    xs = sorted({place for points in lines.values() for place, _ in points})
    values = [value for each in lines.values() for _, value in each]
    frame = Frame(title, AXES[x], y, [*values, *[1.0] * has_one], has_one=has_one)

    def across(place: float) -> float:
        share = (math.log(place) - math.log(xs[0])) / (math.log(xs[-1]) - math.log(xs[0]))
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    every = 2 if x == "size_bytes" and len(xs) > 10 else 1  # names must not overlap
    for place in xs[::every]:
        frame.label(across(place), format_size(int(place)) if x == "size_bytes" else f"{place:,}")
    frame.label_axes()
    ends = sorted((frame.down(points[-1][1]), name) for name, points in lines.items())
    labels: dict[str, float] = {}
    for end, name in ends:  # names must not overlap
        labels[name] = max([end, *(label + 16 for label in labels.values())])
    for number, (name, points) in enumerate(lines.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        path = " ".join(f"{across(place):.1f},{frame.down(value):.1f}" for place, value in points)
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        frame.parts.append(f'<polyline points="{path}" {style}/>')
        for place, value in points:
            frame.dot(across(place), frame.down(value), colour, hollow=(name, place) in hollow)
        frame.name(labels[name], name, colour)
    return frame.svg()


def pairs_under(title: str, x: str, y: str, pairs: Pairs) -> str:
    """For each heading and name a ring for the first value, a dot for the second, and a line between them."""
    names = list(dict.fromkeys(name for each in pairs.values() for name in each))
    every = [value for each in pairs.values() for pair in each.values() for value in pair]
    frame = Frame(title, x, y, every)
    column = (WIDTH - LEFT - RIGHT) / len(pairs)
    for number, (heading, each) in enumerate(pairs.items()):
        middle = LEFT + (number + 0.5) * column
        frame.label(middle, heading)
        for name, (before, after) in each.items():
            place = names.index(name)
            colour = COLOURS[place % len(COLOURS)]
            at = middle + (place - (len(names) - 1) / 2) * min(24, column / (len(names) + 1))
            above, below = frame.down(before), frame.down(after)
            frame.parts.append(
                f'<path d="M{at:.1f} {above:.1f}V{below:.1f}" stroke="{colour}" stroke-width="2"/>'
            )
            frame.dot(at, below, colour)
            frame.dot(at, above, colour, hollow=True)
    frame.label_axes()
    for place, name in enumerate(names):
        frame.name(TOP + 20 + 20 * place, name, COLOURS[place % len(COLOURS)])
    return frame.svg()


def bars_under(panels: Panels, y: str) -> str:
    """Panels below each other, each with a group of bars for each heading."""
    parts = opening(next(iter(panels)), PANEL * len(panels))
    for number, (title, groups) in enumerate(panels.items()):
        parts += _panel(title, groups, number * PANEL, y)
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, groups: Mapping[str, Mapping[str, Bar]], top: float, y: str) -> list[str]:
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    most = max(1.0, *(bar.most for group in groups.values() for bar in group.values()))
    base, room = top + PANEL - BOTTOM, PANEL - TOP - BOTTOM
    column = (WIDTH - LEFT - RIGHT) / len(groups)
    wide = min(0.8 * column / len(names), 26)

    def down(value: float) -> float:
        return base - value / most * room

    parts = [f'<text x="{LEFT}" y="{top + 24}" font-weight="600">{html.escape(title)}</text>']
    for share in SHARES:
        parts.append(f'<path d="M{LEFT} {down(share):.1f}H{WIDTH - RIGHT}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    turned = f"translate(16 {top + PANEL / 2:.0f}) rotate(-90)"
    parts.append(f'<text transform="{turned}" text-anchor="middle">{html.escape(y)}</text>')
    for number, (heading, group) in enumerate(groups.items()):
        middle = LEFT + (number + 0.5) * column
        place = f'x="{middle:.1f}" y="{base + 18:.1f}"'
        parts.append(f'<text {place} text-anchor="middle" font-size="11">{html.escape(heading)}</text>')
        left = middle - wide * len(group) / 2
        for name, bar in group.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            parts.append(
                f'<rect x="{left:.1f}" y="{down(bar.middle):.1f}" width="{wide - 2:.1f}"'
                f' height="{base - down(bar.middle):.1f}" fill="{colour}"/>'
            )
            line = f"M{left + wide / 2 - 1:.1f} {down(bar.least):.1f}V{down(bar.most):.1f}"
            parts.append(f'<path d="{line}" stroke="#1f2328"/>')
            left += wide
    for number, name in enumerate(names):
        at = top + TOP + 12 + 18 * number
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{at - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{at}">{html.escape(name)}</text>')
    return parts
