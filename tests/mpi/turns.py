# SPDX-License-Identifier: BSD-3-Clause
"""Which tests of a run take their turn; all others wait for another commit.

Some tests have many cases that differ little, such as the same calls on six MPIs, and a run makes only some
of them. Which ones follows from a number, the seed. By default the seed follows from the commit: runs of one
commit make the same cases, and runs of another commit make others. `--seed` repeats an earlier choice.
`--deep` makes all cases.
"""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # ./test imports this before there is a pytest
    import pytest

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


def seed_of_commit() -> int:
    """A number that follows from the commit; 0 outside of a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(done.stdout[:6], 16)


def in_turn(choices: Iterable[T], count: int, seed: int, case: str) -> list[T]:
    """Returns `count` of the choices, in their order. Each case has a choice of its own."""
    known: Sequence[T] = list(choices)
    places = random.Random(f"{seed} {case}").sample(range(len(known)), min(count, len(known)))
    return [known[place] for place in sorted(places)]


def tests_in_turn(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Returns the tests without those that wait for their turn.

    A test with the marker `in_turn(count, *names)` runs with `count` of the values that these parameters have
    together, for each combination of its other parameters.
    """
    alike: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("in_turn")
        if marker is not None and hasattr(item, "callspec"):
            others = [f"{k}={v}" for k, v in item.callspec.params.items() if k not in marker.args[1:]]
            alike[" ".join([item.nodeid.partition("[")[0], *others])].append(item)
        else:
            alike[item.nodeid].append(item)
    kept: set[pytest.Item] = set()
    for case, those in alike.items():
        marker = those[0].get_closest_marker("in_turn")
        kept.update(in_turn(those, marker.args[0] if marker else 1, seed, str(case)))
    return [item for item in items if item in kept]
