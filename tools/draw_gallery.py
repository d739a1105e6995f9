#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Simulate or look up the figures of docs/gallery/ and draw them as SVG.

    build/venv/bin/python tools/draw_gallery.py                all figures, some minutes
    build/venv/bin/python tools/draw_gallery.py late_node      this one
    build/venv/bin/python tools/draw_gallery.py --from-data    draw again what the .json files have

A figure of `offbeat simulate` has NAME.json, with the commands and the last delays in microseconds, and
NAME.svg. The others have NAME.svg; docs/measured.py takes their data from benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import chart
from offbeat.units import format_size

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import measured  # noqa: E402

FOLDER = ROOT / "docs" / "gallery"


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    x: str  # the column of the results along the axis: `nodes` or `size_bytes`
    commands: tuple[str, ...]


MIF_20 = (("8", "10.0us"), ("1KiB", "12.0us"), ("16KiB", "42.8us"), ("64KiB", "141us"))
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

RATIO = "times as fast as the best native"


def over_sizes(title: str, found: measured.Ratios) -> str:
    return chart.lines_over(title, "size_bytes", RATIO, found.lines, hollow=found.few_samples, has_one=True)


def over_patterns(ranks: int) -> str:
    size, pairs = measured.board_pairs(ranks)
    title = f"allreduce of {format_size(size)} on {ranks} ranks: natively (ring) and with offbeat (dot)"
    return chart.pairs_under(title, "arrival", "last delay, µs", pairs)


@dataclass(frozen=True)
class Measured:
    """A figure that is drawn from a file in benchmarks/results/."""

    result: str
    draw: Callable[[], str]


def of_board(ranks: int) -> Measured:
    title = f"allreduce on one node, {ranks} ranks"
    return Measured("board", lambda: over_sizes(title, measured.board_ratios(ranks)))


def of_nodes(shape: str, title: str) -> Measured:
    return Measured("nodes", lambda: over_sizes(title, measured.nodes_ratios(shape)))


def bars(panels: Mapping[str, Mapping[str, Mapping[str, float]]]) -> chart.Panels:
    """Bars without a line from least to most."""
    return {
        title: {
            heading: {name: chart.Bar(value, value, value) for name, value in group.items()}
            for heading, group in groups.items()
        }
        for title, groups in panels.items()
    }


MEASURED = {
    "board_2_ranks": of_board(2),
    "board_4_ranks": of_board(4),
    "board_patterns": Measured("board", lambda: over_patterns(2)),
    "nodes_8x1": of_nodes("8x1", "allreduce on 8 hosts of 1 rank"),
    "nodes_4x2": of_nodes("4x2", "allreduce on 4 hosts of 2 ranks"),
    "training": Measured("paper_training", measured.training_figure),
    "paper_0_nodes": Measured(
        "paper_0",
        lambda: chart.lines_over(
            "Paper 0, table 3: allreduce on 32 nodes of 4 ranks, random arrival",
            "size_bytes",
            "times as fast as flat rabenseifner",
            measured.paper_0_figure(),
            has_one=True,
        ),
    ),
    "paper_1": Measured(
        "paper_1",
        lambda: chart.lines_over(
            "Paper 1, figure 3: allreduce on 9 nodes of 1 rank",
            "size_bytes",
            "MB/s",
            measured.paper_1_figure(),
        ),
    ),
    "paper_0_training": Measured(
        "paper_0",
        lambda: chart.bars_under(bars(measured.paper_0_trainings()), "share of images/s"),
    ),
    "paper_1_collectives": Measured(
        "paper_1",
        lambda: chart.pairs_under(
            "Paper 1, figures 5 to 7: 256 MiB whole (ring) and in 4 (dot)",
            "collective",
            "MB/s",
            measured.paper_1_collectives(),
        ),
    ),
    "paper_1_networks": Measured(
        "paper_1",
        lambda: chart.pairs_under(
            "Paper 1, figures 3 and 11 to 14: 256 MiB whole (ring) and in 4 (dot)",
            "nodes and network",
            "MB/s",
            measured.paper_1_networks(),
        ),
    ),
    "paper_2": Measured(
        "paper_2",
        lambda: chart.lines_over(
            "Paper 2, figure 8: allreduce of one rank on each node",
            "nodes",
            "times as fast as Open MPI's choice",
            measured.paper_2_figure(),
            has_one=True,
        ),
    ),
    "paper_4": Measured(
        "paper_4_alltoall",
        lambda: chart.pairs_under(
            "Paper 4: alltoall of 32 KiB, nobody late (ring) and under the pattern (dot)",
            "arrival",
            "last delay, ms",
            measured.paper_4_figure(),
        ),
    ),
}
if measured.has_ft():
    MEASURED[measured.FT] = Measured(
        measured.FT,
        lambda: chart.bars_under(
            bars({"Paper 4, figure 9: FT, predicted run time": measured.paper_4_ft_figure()}),
            "of the measured one",
        ),
    )
NAMES = (*(figure.name for figure in FIGURES), *MEASURED)

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


def drawn(figure: Figure, lines: chart.Lines) -> str:
    return chart.lines_over(figure.title, figure.x, "last delay, µs", lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="FIGURE", help=", ".join(NAMES))
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
    for name, figure_of_results in MEASURED.items():
        if not chosen.names or name in chosen.names:
            (FOLDER / f"{name}.svg").write_text(figure_of_results.draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
