# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts of this folder share: simulations, tables in Markdown, and the JSON file."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offbeat import __version__
from offbeat.bench.ranking import BALANCED
from offbeat.simulate import simulation
from offbeat.simulate.machine import Machine
from offbeat.simulate.simulation import Plan, Shape, Simulation
from offbeat.units import Skew

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import markdown_table

VERDICT_HEADINGS = ("what", "paper", "here, simulated", "beaten, or why not")


@dataclass(frozen=True)
class Verdict:
    """A number of a paper beside ours, and whether ours is better, or why not."""

    what: str
    paper: str
    here: str
    says: str

    @property
    def row(self) -> list[str]:
        return [self.what, self.paper, self.here, self.says]


def beaten(is_better: bool, reason: str) -> str:
    return "beaten" if is_better else reason


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all scripts have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to this file")
    return made


def simulate(
    machine: Machine,
    shape: Shape,
    collective: str,
    sizes_bytes: Sequence[int],
    algorithms: Sequence[str],
    patterns: Sequence[str] = (BALANCED,),
    skew: Skew | None = None,
) -> Simulation:
    """Simulate each algorithm at each size under each pattern."""
    plan = Plan(
        machine=machine,
        shapes=[shape],
        collective=collective,
        sizes_bytes=sizes_bytes,
        algorithms=algorithms,
        patterns=patterns,
        skews=[skew or Skew(factor=1.0)],
    )
    return simulation.run_plan(plan, lambda what, done, events: None)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as the pages have it."""
    print(f"\n{title}\n")
    print(markdown_table.table(head, rows), flush=True)


def digits(value: float, most: int = 3) -> str:
    """A number with ``most`` significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = most - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def write_json(path: Path | None, machine: Machine, figures: Mapping[str, Any]) -> None:
    """Write what a script found, with the machine and the command."""
    if path is None:
        return
    document = {
        "command": shlex.join(["python", *sys.argv]),
        "offbeat": __version__,
        "machine": json.loads(json.dumps(asdict(machine)), parse_constant=lambda _: None),  # no Infinity
        **figures,
    }
    lines = [f" {json.dumps(name)}: {_indented(value)}" for name, value in document.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _indented(value: Any) -> str:
    """One line for each element of a list, so that files can be compared."""
    if not isinstance(value, list):
        return json.dumps(value, allow_nan=False)
    return "[\n  " + ",\n  ".join(json.dumps(each, allow_nan=False) for each in value) + "\n ]"
