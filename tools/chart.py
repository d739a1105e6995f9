# SPDX-License-Identifier: BSD-3-Clause
"""Draw charts as SVG: lines over an axis, and pairs of dots under headings. Values have logarithmic axes."""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping, Sequence

from offbeat.units import format_size

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 44, 48  # the right margin has the names of the lines
COLOURS = ("#1a7f74", "#b3261e", "#2f6db5", "#8250df", "#9a6700")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4")
AXES = {"size_bytes": "message", "nodes": "nodes"}

# By name: the points of a line.
Lines = Mapping[str, Sequence[tuple[float, float]]]
# By heading, and by name: the two values that are compared, the earlier one first.
Pairs = Mapping[str, Mapping[str, tuple[float, float]]]


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
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="13"'
            ' font-family="system-ui, sans-serif">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
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

    for place in xs:
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
