# SPDX-License-Identifier: BSD-3-Clause
"""offbeat compare: compare two files of offbeat bench."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from offbeat.bench import compare as comparing
from offbeat.bench.results import read
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.output import new_console, print_json
from offbeat.errors import ANSWER_NO, CommandError
from offbeat.reports import comparison


def compare(
    first: Annotated[Path, Argument(metavar="A", help="A file of offbeat bench --json.")],
    second: Annotated[Path, Argument(metavar="B", help="Another one.")],
    threshold: Annotated[str, Option(metavar="PERCENT", help="Ignore differences up to this.")] = "5%",
    relative: Annotated[
        bool,
        Option("--relative", help="Compare times divided by native's of the same cell and file."),
    ] = False,
    everything: Annotated[bool, Option("--all", help="Also show the cells without a difference.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> int:
    """Compare two results of offbeat bench.

    This says which cells are certainly faster or slower in B than in A. The exit code is 1 if a cell is
    slower or wrong.

    offbeat compare before.json after.json
    offbeat compare --relative --threshold 10% before.json after.json
    """
    before, after = read(first), read(second)
    comparisons = comparing.compare(
        before, after, threshold=_threshold_as_fraction(threshold), relative=relative
    )
    differences = comparing.conditions(before, after)
    if as_json:
        cells = [
            {**c.cell._asdict(), **{k: v for k, v in asdict(c).items() if k != "cell"}} for c in comparisons
        ]
        print_json({"differences": differences, "cells": cells})
    else:
        console = new_console(width=120)
        console.print(comparison.render(comparisons, differences, everything=everything))
    wrong = after.wrong_results()
    if wrong:
        raise CommandError(f"{second} has wrong results, the first: {wrong[0]}", ANSWER_NO)
    return ANSWER_NO if any(c.verdict == comparing.SLOWER for c in comparisons) else 0


def _threshold_as_fraction(text: str) -> float:
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < float("inf"):
        raise CommandError(f"--threshold {text}: write a percentage of at least 0, such as 5%")
    return percent / 100


COMMAND = Command(compare)
