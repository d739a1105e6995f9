# SPDX-License-Identifier: BSD-3-Clause
"""The values that a shell completes, for options whose values have names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offbeat import _core
from offbeat.bench import arrival_patterns, plan

Completion = Callable[[str], list[str]]


def _comma_list_completion(names: Sequence[str]) -> Completion:
    """Completes the last part of a list with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]

    return complete


collectives = _comma_list_completion(plan.COLLECTIVES)
all_collectives = _comma_list_completion([each["name"] for each in _core.collectives()])
patterns = _comma_list_completion(list(arrival_patterns.PATTERNS))
types = _comma_list_completion(list(plan.TYPES))
operations = _comma_list_completion(plan.OPERATIONS)
hosts = _comma_list_completion(_core.hosts())
