# SPDX-License-Identifier: BSD-3-Clause
"""The values that a shell completes, for options whose values have names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offbeat import _core
from offbeat.bench import arrival_patterns, plan

Completion = Callable[[str], list[str]]


def _listed(names: Sequence[str]) -> Completion:
    """Completes the last part of a list with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]

    return complete


collectives = _listed(plan.COLLECTIVES)
all_collectives = _listed([each["name"] for each in _core.collectives()])
patterns = _listed(list(arrival_patterns.PATTERNS))
types = _listed(list(plan.TYPES))
operations = _listed(plan.OPERATIONS)
hosts = _listed(_core.hosts())
