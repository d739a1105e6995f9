#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate the figures of docs/gallery/ and draw them as SVG.

    build/venv/bin/python tools/draw_gallery.py                all figures, some minutes
    build/venv/bin/python tools/draw_gallery.py late_node      this one
    build/venv/bin/python tools/draw_gallery.py --from-data    draw again what the .json files have

Each figure has NAME.json, with the commands and the last delays in microseconds, and NAME.svg.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offbeat.units import format_size

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 44, 48  # the right margin has the names of the lines
COLOURS = ("#1a7f74", "#b3261e", "#2f6db5", "#8250df", "#9a6700")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4")


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    x: str  # the column of the results along the axis: `nodes` or `size_bytes`
    commands: tuple[str, ...]


MIF_20 = (("8", "8.02us"), ("1KiB", "10.56us"), ("16KiB", "48.96us"), ("64KiB", "171.84us"))
FIGURES = (
    Figure(
        "late_node",
        "Allreduce of 1 MiB, one node late by 1 s",
        "nodes",
        tuple(
            f"offbeat simulate --machine cluster --nodes {nodes} --ppn 1 --sizes 1MiB --skew 1s"
            " --patterns last_delayed"
            f" --algorithms 'ring, rabenseifner, straggler({nodes - 1}), arrival_owners'"
            for nodes in (8, 16, 32, 64, 128, 256)
        ),
    ),
    Figure(
        "paper_3_ranks",
        "Paper 3, figure 12: allreduce of 8 bytes, 16 ranks on each node",
        "nodes",
        (
            "offbeat simulate --machine blue_waters --nodes 1..2048 --sizes 8"
            " --algorithms recursive_doubling,smp,nap",
        ),
    ),
    Figure(
        "paper_3_sizes",
        "Paper 3, figure 14: allreduce on 2,048 nodes of 16 ranks",
        "size_bytes",
        (
            "offbeat simulate --machine blue_waters --nodes 2048"
            " --sizes 8,64,512,1KiB,2KiB,4KiB,8KiB,16KiB,64KiB --algorithms recursive_doubling,smp,nap",
        ),
    ),
    Figure(
        "paper_0",
        "Paper 0, figure 7: allreduce of 32 ranks on one node, random arrival, MIF 20",
        "size_bytes",
        tuple(
            f"offbeat simulate --machine docs/gallery/cedar.toml --nodes 1 --ppn 32 --sizes {size}"
            f" --patterns random --skew {skew} --draws 20"
            " --algorithms recursive_doubling,smp,arrival_leader,arrival_tree"
            for size, skew in MIF_20
        ),
    ),
)

# By algorithm: the points of its line.
Lines = dict[str, list[tuple[int, float]]]


def simulated(figure: Figure) -> Lines:
    lines: Lines = {}
    for command in figure.commands:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "results.json"
            words = [sys.executable, "-m", *shlex.split(command), "--json", str(file)]
            subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            for result in json.loads(file.read_text())["results"]:
                name = result["algorithm"].partition("(")[0]
                lines.setdefault(name, []).append((result[figure.x], result["last_delay_us"]))
    return lines


def written(figure: Figure, lines: Lines) -> str:
    """The data as JSON, with one algorithm in a line."""
    rounded = {name: [(x, float(f"{y:.4g}")) for x, y in points] for name, points in lines.items()}
    rows = [f"  {json.dumps(name)}: {json.dumps(points)}" for name, points in rounded.items()]
    commands = ",\n  ".join(json.dumps(command) for command in figure.commands)
    head = f'{{\n "commands": [\n  {commands}\n ],\n "x": "{figure.x}",\n "last_delay_us": {{\n'
    return head + ",\n".join(rows) + "\n }\n}\n"


def ticks(least: float, most: float) -> list[float]:
    """1, 2 and 5 times powers of ten; only the powers if these are enough."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    inside = [power for power in powers if least <= 10**power <= most]
    factors = (1, 2, 5) if len(inside) < 3 else (1,)
    marks = [factor * 10**power for power in powers for factor in factors]
    return [mark for mark in marks if least <= mark <= most]


def drawn(figure: Figure, lines: Lines) -> str:
    """The figure as SVG: both axes are logarithmic, and each line has its name at its end."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    ys = [y for points in lines.values() for _, y in points]
    low, high = math.log(min(ys) / 1.15), math.log(max(ys) * 1.15)

    def across(x: float) -> float:
        share = (math.log(x) - math.log(xs[0])) / (math.log(xs[-1]) - math.log(xs[0]))
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - (math.log(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="13"'
        ' font-family="system-ui, sans-serif">',
        f"<title>{html.escape(figure.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-weight="600">{html.escape(figure.title)}</text>',
    ]
    for y in ticks(math.exp(low), math.exp(high)):
        parts.append(f'<path d="M{LEFT} {down(y):.1f}H{WIDTH - RIGHT}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in xs:
        shown = format_size(x) if figure.x == "size_bytes" else f"{x:,}"
        parts.append(
            f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{shown}</text>'
        )
    axis = "message" if figure.x == "size_bytes" else "nodes"
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{axis}</text>')
    parts.append(
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">last delay, µs</text>'
    )
    ends = sorted((down(points[-1][1]), name) for name, points in lines.items())
    labels: dict[str, float] = {}
    for end, name in ends:  # names must not overlap
        labels[name] = max([end, *(label + 16 for label in labels.values())])
    for number, (name, points) in enumerate(lines.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{path}" {style}/>')
        parts += [
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="3" fill="{colour}"/>' for x, y in points
        ]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{labels[name] + 4:.1f}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="FIGURE", help=", ".join(each.name for each in FIGURES))
    parser.add_argument("--from-data", action="store_true", help="simulate nothing")
    chosen = parser.parse_args(arguments)
    for figure in FIGURES:
        if chosen.names and figure.name not in chosen.names:
            continue
        data = FOLDER / f"{figure.name}.json"
        if not chosen.from_data:
            data.write_text(written(figure, simulated(figure)))
        lines = json.loads(data.read_text())["last_delay_us"]
        data.with_suffix(".svg").write_text(drawn(figure, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
