# SPDX-License-Identifier: BSD-3-Clause
"""What a new tuning measures by its objective: the cells, and a plan for each number of ranks.

``robust`` counts all arrival patterns of the user, ``balanced`` only ranks that arrive together, and
``trace:FOLDER`` the calls and arrivals of a recorded program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from offbeat.bench import arrival_patterns
from offbeat.bench.plan import Cell, Plan
from offbeat.bench.ranking import BALANCED
from offbeat.errors import CommandError
from offbeat.tune import recorded
from offbeat.tune.course import Goal
from offbeat.tune.recorded import RecordedCell

ROBUST = "robust"
MOST_RECORDED_CELLS = 64
_TRACE = "trace:"


def trace_of(objective: str) -> Path | None:
    """The folder of ``trace:FOLDER``, or None for ``robust`` and ``balanced``. Refuses anything else."""
    if objective in (ROBUST, BALANCED):
        return None
    folder = objective.removeprefix(_TRACE)
    if folder in (objective, ""):
        raise CommandError(f"--objective {objective}: write robust, balanced or trace:FOLDER")
    return Path(folder)


def recorded_cells(
    folder: Path, collectives: Collection[str] | None, ranks: Collection[int] | None
) -> list[RecordedCell]:
    """The cells of a trace, those first that took most time. None means all collectives, or all ranks.

    Raises CommandError if there are none.
    """
    found = [
        cell
        for cell in recorded.cells_of(folder)
        if (collectives is None or cell.collective in collectives) and (ranks is None or cell.ranks in ranks)
    ]
    if not found:
        raise CommandError(f"{folder} has no call of these collectives on communicators of that size")
    return found


def plans(goal: Goal, common: Plan, cells: Sequence[RecordedCell] | None, arrivals: Path) -> list[Plan]:
    """A plan for each number of ranks, fewest ranks first.

    ``common`` is what they share. ``cells`` are those of a trace, whose arrivals are written to the folder
    ``arrivals``; None for the other objectives.
    """
    if cells is not None:
        by_ranks = recorded.with_patterns(cells, arrivals)
        return [plan_of(ranks, of, common) for ranks, of in sorted(by_ranks.items())]
    names = [BALANCED] if goal.objective == BALANCED else common.patterns
    return [
        plan_of(ranks, None, replace(common, patterns=distinct_patterns(names, ranks, common.seed)))
        for ranks in goal.ranks
    ]


def plan_of(ranks: int, cells: Sequence[Cell] | None, common: Plan) -> Plan:
    """The plan on one number of ranks. ``cells`` None means every combination."""
    if cells is None:
        return replace(common, ranks=ranks)
    return replace(
        common,
        ranks=ranks,
        collectives=_each(cell.collective for cell in cells),
        sizes_bytes=_each(cell.size_bytes for cell in cells),
        patterns=_each(cell.pattern for cell in cells),
        chosen_cells=[list(cell) for cell in cells],
    )


def _each(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def distinct_patterns(names: Sequence[str], ranks: int, seed: int) -> list[str]:
    """The patterns without those that mean the same on so few ranks as another one before."""
    seen: dict[str, str] = {}
    for name in names:
        rounds = arrival_patterns.rounds(name, ranks, seed)
        seen.setdefault(repr(rounds), name)
    return list(seen.values())
