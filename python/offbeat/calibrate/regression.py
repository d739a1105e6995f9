# SPDX-License-Identifier: BSD-3-Clause
"""Non-negative quantile regression, breakpoints, and bootstrap intervals.

Least squares can give a negative latency, and one interrupted message can move it by any amount. So each fit
is a linear program: coefficients of at least zero that minimise the sum of the *relative* errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from offbeat.arrays import Floats
from offbeat.calibrate.probes import Result

REPLICATES = 200
_SAMPLE_QUANTILE = 0.25  # of the samples of a probe: whatever disturbs a message makes it longer
_LOW, _HIGH = 2.5, 97.5
_LEAST_POINTS_PER_SEGMENT = 6  # of a segment
_MOST_CANDIDATES = 12
_LEAST_BIC_DIFFERENCE = 10.0  # very strong evidence, by Kass and Raftery (1995)


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """The interval times a factor."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def inverse(self) -> Interval:
        """One divided by it. An interval that reaches zero has no upper limit."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low if self.low > 0 else math.inf)


def quantile(result: Result, *, received: bool = False) -> float:
    """The quantile of a probe's samples that stands for the probe, in microseconds."""
    return float(np.quantile(result.receive_us if received else result.us, _SAMPLE_QUANTILE))


def median_interval(values: Floats, groups: Sequence[int]) -> Interval:
    """The median of values, with its interval."""
    return bootstrap(groups, lambda numbers: np.array([np.median(values[numbers])])).intervals()[0]


def fit(columns: Floats, values: Floats) -> Floats:
    """The coefficients of at least 0 with the smallest sum of ``|columns @ x - values| / values``.

    This solves the dual program, which has as many constraints as coefficients; they are its multipliers.
    """
    relative = columns / values[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1
    count = columns.shape[1]
    found = linprog(
        -np.ones(len(values)), A_ub=(relative / scale).T, b_ub=np.zeros(count), bounds=(-1, 1), method="highs"
    )
    if not found.success:
        raise ArithmeticError(found.message)
    coefficients: Floats = np.maximum(np.asarray(-found.ineqlin.marginals, dtype=float), 0) / scale
    return coefficients


def relative_errors(columns: Floats, values: Floats, coefficients: Floats) -> Floats:
    """How far the fit is from each value, as a share of the value."""
    return np.asarray((columns @ coefficients - values) / values)


@dataclass(frozen=True)
class Draws:
    """Estimates from all points, and from each draw of them: a row per draw, and a column per parameter."""

    value: Floats
    drawn: Floats

    def interval(self, weights: Sequence[float] | Floats) -> Interval:
        """The weighted sum of the parameters, with its interval."""
        weighted = np.asarray(weights, dtype=float)
        value = float(self.value @ weighted)
        if len(self.drawn) < REPLICATES // 2:
            return Interval(value, 0.0, math.inf)
        low, high = np.percentile(self.drawn @ weighted, [_LOW, _HIGH])
        return Interval(value, min(float(low), value), max(float(high), value))

    def intervals(self) -> list[Interval]:
        """The interval of each coefficient."""
        return [self.interval(row) for row in np.eye(len(self.value))]


def bootstrap(
    groups: Sequence[int], estimate: Callable[[npt.NDArray[np.intp]], Floats], *, seed: int = 1
) -> Draws:
    """Estimate from all points, and from points that are drawn with replacement.

    Whole groups are drawn, because what one round measured has the noise of that moment in common.
    ``estimate`` gets the numbers of the points that it may use, each as often as it was drawn.
    """
    by_group: dict[int, list[int]] = {}
    for point, group in enumerate(groups):
        by_group.setdefault(group, []).append(point)
    members = [np.array(points, dtype=np.intp) for points in by_group.values()]
    value = estimate(np.arange(len(groups), dtype=np.intp))
    random = np.random.default_rng(seed)
    found = []
    for _ in range(REPLICATES):
        drawn = random.integers(len(members), size=len(members))
        try:
            found.append(estimate(np.concatenate([members[number] for number in drawn])))
        except (ArithmeticError, ValueError):
            continue  # a draw that has too few different points
    return Draws(value, np.array(found).reshape(-1, len(value)))


def breakpoints(sizes: Floats, values: Floats, fixed: Sequence[int], most: int = 2) -> list[int]:
    """Where the line ``latency + bytes x rate`` changes, as first sizes of segments: ``fixed``, and others.

    Others are added while the Bayesian information criterion says that they are worth their parameters.
    """
    found = [point for point in fixed if _parts_are_long(sizes, [point])]
    score = _bic(sizes, values, found)
    candidates = np.unique(np.quantile(sizes, np.linspace(0.1, 0.9, _MOST_CANDIDATES)).astype(int))
    for _ in range(most):
        tries = [sorted({*found, int(point)}) for point in candidates if int(point) not in found]
        scored = [(_bic(sizes, values, points), points) for points in tries if _parts_are_long(sizes, points)]
        if not scored:
            break
        best, points = min(scored)
        if best > score - _LEAST_BIC_DIFFERENCE:
            break
        score, found = best, points
    return found


def _parts_are_long(sizes: Floats, points: Sequence[int]) -> bool:
    numbers = np.searchsorted(np.array(points), sizes, side="right")
    counts = np.bincount(numbers, minlength=len(points) + 1)
    return bool(counts.min() >= _LEAST_POINTS_PER_SEGMENT)


def _bic(sizes: Floats, values: Floats, points: Sequence[int]) -> float:
    errors = 0.0
    numbers = np.searchsorted(np.array(points), sizes, side="right")
    for number in range(len(points) + 1):
        here = numbers == number
        columns = fit_line(sizes[here])
        errors += float(np.abs(relative_errors(columns, values[here], fit(columns, values[here]))).sum())
    count = len(sizes)
    parameters = 3 * len(points) + 2
    # The likelihood of errors with a Laplace distribution, which fits of absolute errors assume.
    return 2 * count * math.log(max(errors / count, 1e-9)) + parameters * math.log(count)


def fit_line(sizes: Floats) -> Floats:
    """The columns of ``latency + bytes x rate``."""
    return np.column_stack([np.ones_like(sizes), sizes])
