# SPDX-License-Identifier: BSD-3-Clause
"""Arrival patterns: how late each rank is, as a fraction of the skew.

A pattern is a list of rounds, one delay per rank in each; iterations take the
rounds in turn. All patterns but ``random`` are a single round.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from offbeat.errors import CommandError

Rounds = list[list[float]]

_RANDOM_ROUNDS = 1024


def _balanced(ranks: int, seed: int) -> Rounds:
    """all ranks arrive together"""
    return [[0.0] * ranks]


def _last_delayed(ranks: int, seed: int) -> Rounds:
    """the last rank is late by the skew"""
    return [[0.0] * (ranks - 1) + [1.0]]


def _first_delayed(ranks: int, seed: int) -> Rounds:
    """rank 0 is late by the skew"""
    return [[1.0] + [0.0] * (ranks - 1)]


def _ascending(ranks: int, seed: int) -> Rounds:
    """rank 0 arrives first, the others at equal steps"""
    return [[rank / max(ranks - 1, 1) for rank in range(ranks)]]


def _descending(ranks: int, seed: int) -> Rounds:
    """the last rank arrives first, the others at equal steps"""
    return [list(reversed(_ascending(ranks, seed)[0]))]


def _random(ranks: int, seed: int) -> Rounds:
    """each rank is late by a random part of the skew, drawn anew each time"""
    generator = random.Random(seed)
    return [[generator.random() for _ in range(ranks)] for _ in range(_RANDOM_ROUNDS)]


PATTERNS: dict[str, Callable[[int, int], Rounds]] = {
    "balanced": _balanced,
    "last_delayed": _last_delayed,
    "first_delayed": _first_delayed,
    "ascending": _ascending,
    "descending": _descending,
    "random": _random,
}


def describe(name: str) -> str:
    """One line on a pattern."""
    return PATTERNS[name].__doc__ or ""


def parse_names(text: str) -> list[str]:
    """Split ``balanced,random`` and refuse names that are not patterns."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PATTERNS:
            raise CommandError(f"unknown arrival pattern '{name}'; the patterns are {', '.join(PATTERNS)}")
    return list(dict.fromkeys(names))


def rounds(name: str, ranks: int, seed: int) -> Rounds:
    """The delays of a pattern; the same seed gives the same delays on every machine."""
    return PATTERNS[name](ranks, seed)


def as_text(names: list[str], ranks: int, seed: int) -> str:
    """The patterns in the form that src/mpi/bench/options.cpp reads."""
    lines = []
    for name in names:
        delays = rounds(name, ranks, seed)
        lines.append(f"{name} {len(delays)}")
        lines += [" ".join(f"{delay:.9f}" for delay in row) for row in delays]
    return "\n".join(lines) + "\n"
