# SPDX-License-Identifier: BSD-3-Clause
"""The result of a tuning as JSON (docs/how-to/tune.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offbeat.reports import tune_sheets
from offbeat.rules.spelling import FIELDS
from offbeat.tune.decisions import Row
from offbeat.tune.tuning import Tuning


def document(work: Tuning, rows: Sequence[Row], budget_s: float, date: str) -> dict[str, Any]:
    """What ``offbeat tune --json`` prints. ``date`` is that of the rules."""
    courses = work.courses
    return {
        "objective": courses[0].goal.objective,
        "results": [str(course.path) for course in courses],
        "seconds": round(work.seconds, 1),
        "budget_s": budget_s,
        "core_seconds": round(work.core_seconds(), 1),
        "rules": [
            {**dict(zip(FIELDS, row.fields(), strict=True)), "reason": row.reason(date)} for row in rows
        ],
        "missing": tune_sheets.missing(courses),
        "not_used": tune_sheets.dropped(courses),
    }
