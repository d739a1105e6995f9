# SPDX-License-Identifier: BSD-3-Clause
"""Arrival patterns: how late each rank is, as a fraction of the skew.

A pattern is a list of rounds, one delay per rank in each; iterations take the
rounds in turn. All patterns but ``random`` are a single round.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from offbeat.errors import CommandError

Rounds = list[list[float]]

_RANDOM_ROUNDS = 1024


def _equal_steps(ranks: int) -> list[float]:
    return [rank / max(ranks - 1, 1) for rank in range(ranks)]


def _random(ranks: int, seed: int) -> Rounds:
    generator = random.Random(seed)
    return [[generator.random() for _ in range(ranks)] for _ in range(_RANDOM_ROUNDS)]


@dataclass(frozen=True)
class Pattern:
    """What is said about a pattern, and its delays for a number of ranks and a seed."""

    summary: str
    rounds: Callable[[int, int], Rounds]


PATTERNS: dict[str, Pattern] = {
    "balanced": Pattern("all ranks arrive together", lambda ranks, _: [[0.0] * ranks]),
    "last_delayed": Pattern(
        "the last rank is late by the skew", lambda ranks, _: [[0.0] * (ranks - 1) + [1.0]]
    ),
    "first_delayed": Pattern("rank 0 is late by the skew", lambda ranks, _: [[1.0] + [0.0] * (ranks - 1)]),
    "ascending": Pattern(
        "rank 0 arrives first, the others follow at equal steps", lambda ranks, _: [_equal_steps(ranks)]
    ),
    "descending": Pattern(
        "the last rank arrives first, the others at equal steps", lambda ranks, _: [_equal_steps(ranks)[::-1]]
    ),
    "random": Pattern("each rank is late by a random part of the skew, drawn anew each time", _random),
}


def parse_names(text: str) -> list[str]:
    """Split ``balanced,random`` and refuse names that are not patterns."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PATTERNS:
            raise CommandError(f"unknown arrival pattern '{name}'; the patterns are {', '.join(PATTERNS)}")
    return list(dict.fromkeys(names))


def summary(name: str) -> str:
    """What is said about a pattern."""
    return PATTERNS[name].summary


def rounds(name: str, ranks: int, seed: int) -> Rounds:
    """The delays of each rank; calls take the rounds in turn."""
    return PATTERNS[name].rounds(ranks, seed)


def is_skewed(name: str, ranks: int) -> bool:
    """Whether anybody is late at all."""
    return any(delay > 0 for row in rounds(name, ranks, 1) for delay in row)


def as_text(names: list[str], ranks: int, seed: int) -> str:
    """The patterns as src/mpi/bench/options.cpp reads them; a seed means the same everywhere."""
    lines = []
    for name in names:
        delays = PATTERNS[name].rounds(ranks, seed)
        lines.append(f"{name} {len(delays)}")
        lines += [" ".join(f"{delay:.9f}" for delay in row) for row in delays]
    return "\n".join(lines) + "\n"
