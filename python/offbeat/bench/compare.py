# SPDX-License-Identifier: BSD-3-Clause
"""Compare two benchmarks cell by cell, and say which differences are certain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from offbeat.bench.plan import Cell
from offbeat.bench.results import MEASURED, Benchmark, Result
from offbeat.bench.samples import Delay
from offbeat.errors import CommandError

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference seen"
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """The last delays of one algorithm in one cell of both files, and their ratio."""

    cell: Cell
    algorithm: str
    first: Delay
    second: Delay
    ratio: float  # second / first: above 1 is slower
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class _Log:
    """The logarithm of a median, or of a quotient of medians, with its standard error."""

    value: float
    error: float

    def __sub__(self, other: _Log) -> _Log:
        return _Log(self.value - other.value, math.hypot(self.error, other.error))


def _log(delay: Delay) -> _Log:
    if min(delay.median, delay.ci95_low) <= 0:
        return _Log(math.log(max(delay.median, 1e-9)), math.inf)
    return _Log(
        math.log(delay.median), math.log(delay.ci95_high / delay.ci95_low) / (2 * NormalDist().inv_cdf(0.975))
    )


def compare(
    first: Benchmark, second: Benchmark, *, threshold: float, relative: bool = False
) -> list[Comparison]:
    """Compare every cell that both files have. Differences up to ``threshold``, such as 0.05, do not count.

    With ``relative`` each time is first divided by native's time in the same cell of the same file. That
    removes the effect of a machine that is slower as a whole. The intervals hold for all cells together,
    with 95% confidence.
    """
    befores, afters = _measured(first), _measured(second)
    keys = [key for key in befores if key in afters and not (relative and key[1] == "native")]
    if relative:
        keys = [key for key in keys if (key[0], "native") in befores and (key[0], "native") in afters]
    if not keys:
        raise CommandError("the two files have no cell in common (call, pattern, skew, algorithm)")
    # Bonferroni correction: without it, some of many cells would differ by chance.
    deviations = NormalDist().inv_cdf(1 - (1 - _CONFIDENCE) / (2 * len(keys)))
    comparisons = []
    for cell, algorithm in keys:
        before, after = befores[cell, algorithm], afters[cell, algorithm]
        quotient = _log(after.last_delay) - _log(before.last_delay)
        if relative:
            native = _log(afters[cell, "native"].last_delay) - _log(befores[cell, "native"].last_delay)
            quotient = quotient - native
        low, high = (_exp(quotient.value + sign * deviations * quotient.error) for sign in (-1, 1))
        verdict = SLOWER if low > 1 + threshold else FASTER if high < 1 / (1 + threshold) else NO_DIFFERENCE
        comparisons.append(
            Comparison(
                cell, algorithm, before.last_delay, after.last_delay, _exp(quotient.value), low, high, verdict
            )
        )
    return comparisons


def _exp(value: float) -> float:
    return math.exp(min(max(value, -700.0), 700.0))


def _measured(benchmark: Benchmark) -> dict[tuple[Cell, str], Result]:
    return {(r.cell, r.algorithm): r for r in benchmark.results if r.status == MEASURED}


def conditions(first: Benchmark, second: Benchmark) -> list[str]:
    """One line for each condition that differs between the files, and so may explain a difference."""
    lines: list[str] = []
    for field in ("machine", "mpi", "offbeat", "binding", "environment"):
        ours, theirs = first.about.get(field) or {}, second.about.get(field) or {}
        lines += _differences(field, ours, theirs)
    for name in (
        "ranks",
        "seed",
        "same_buffers",
        "computing",
        "asleep",
        "warm_up",
        "mpirun_arguments",
        "launcher",
    ):
        ours, theirs = getattr(first.plan, name), getattr(second.plan, name)
        if ours != theirs:
            lines.append(f"{name}: {ours}, {theirs}")
    return lines


def _differences(field: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Sequence[str]:
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    # The values of a sha256 mean nothing to a reader, so only the fact that they differ is shown.
    return [
        f"{field}, {name}: {'differs' if name == 'sha256' else f'{first.get(name)}, {second.get(name)}'}"
        for name in names
        if name not in ("library", "libmpi", "mpirun")
    ]
