# SPDX-License-Identifier: BSD-3-Clause
"""Read the JSON file of ``offbeat bench`` (docs/bench-format.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offbeat.errors import CommandError
from offbeat.ranking import Delay, Row

FORMAT = "offbeat bench"
VERSION = 1
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class BenchFile:
    """What was measured, where."""

    path: Path
    rows: list[Row]
    facts: list[tuple[str, str]]
    warnings: list[str]  # what is missing, or not as it should be


def looks_like_one(path: Path) -> bool:
    """Whether a file is JSON rather than a trace."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def read(path: Path) -> BenchFile:
    """A result file; anything else gives one line that says what is wrong with it."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CommandError(f"{path} is too large to be a result of offbeat bench")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{path} is not a result of offbeat bench: no JSON, or cut off") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CommandError(f"{path} is not a result of offbeat bench")
    if document.get("version") != VERSION:
        raise CommandError(
            f"{path}: its format has version {document.get('version')!r:.20}, this offbeat reads {VERSION}"
        )
    try:
        return _from_document(path, document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise CommandError(f"{path} is a damaged result of offbeat bench") from None


def _from_document(path: Path, document: Mapping[str, Any]) -> BenchFile:
    plan, machine, mpi = document["plan"], document["machine"], document["mpi"]
    facts = [
        ("benchmark", f"offbeat {document['offbeat']['version']}, {document['started']}"),
        ("machine", f"{machine['processor']}, {machine['cores']} cores, {machine['host']}"),
        ("MPI", f"{mpi['vendor']} {mpi['version']}"),
        ("ranks", f"{plan['ranks']}"),
        ("skew", ", ".join(map(str, plan["skews"]))),
        ("seed", f"{plan['seed']}"),
    ]
    cells = document["cells"]
    warnings = [] if document["complete"] else ["not all cells of the plan were measured"]
    late = sum(1 for cell in cells if cell["status"] == "measured" and not cell["on_time"])
    if late:
        warnings.append(f"in {late} of {len(cells)} cells the ranks rarely arrived as the pattern says")
    warnings += [
        f"WRONG result of {cell['algorithm']}: {cell['collective']} of {cell['size_bytes']} B, left out"
        for cell in cells
        if cell["status"] == "wrong"
    ]
    return BenchFile(path, _rows(cells), facts, list(dict.fromkeys(warnings)))


def _rows(cells: list[Mapping[str, Any]]) -> list[Row]:
    measured = [cell for cell in cells if cell["status"] == "measured"]
    skews: dict[str, set[str]] = {}
    for cell in measured:
        skews.setdefault(str(cell["pattern"]), set()).add(str(cell["skew"]))
    found: dict[tuple[str, int, str], dict[str, Delay]] = {}
    for cell in measured:
        pattern = str(cell["pattern"])
        label = f"{pattern}, {cell['skew']}" if len(skews[pattern]) > 1 else pattern
        key = (str(cell["collective"]), int(cell["size_bytes"]), label)
        found.setdefault(key, {})[str(cell["algorithm"])] = _delay(cell["last_delay_us"])
    return [Row(collective, size, pattern, delays) for (collective, size, pattern), delays in found.items()]


def _delay(raw: Mapping[str, Any]) -> Delay:
    delay = Delay(float(raw["median"]), float(raw["ci95_low"]), float(raw["ci95_high"]))
    if not all(math.isfinite(value) for value in (delay.median, delay.ci95_low, delay.ci95_high)):
        raise ValueError("not a number")
    return delay
