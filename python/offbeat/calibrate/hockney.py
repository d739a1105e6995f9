# SPDX-License-Identifier: BSD-3-Clause
"""Hockney's latency and rate of each algorithm, by regression on the algorithm's own cost formula (paper 2).

Paper 2 is Nuriyev et al., JPDC 2024. The same ping-pong parameters for all algorithms predict badly, because
algorithms use the network differently. So each gets its own, from its own times over ranks and bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from offbeat import _core
from offbeat.arrays import Floats
from offbeat.bench.results import MEASURED, Result
from offbeat.calibrate.regression import Interval, bootstrap, fit
from offbeat.mpi import host_algorithms
from offbeat.units import format_count

OWN_ALGORITHMS = ("linear", "binomial", "recursive_doubling", "ring", "ring_segmented(8KiB)", "rabenseifner")
# The formulas of native(NAME), where the MPI's name is not that of an algorithm of ours.
_COST_FORMULAS = {
    "nonoverlapping": "binomial",
    "reduce_bcast": "binomial",
    "ring_segmented": "ring_segmented(1MiB)",  # coll_tuned_allreduce_algorithm_segmentsize, by default
    "shumilin_ring": "ring",
}
LEAST_CASES = 6
_MAX_ITERATIONS = 12
_CONVERGED_CHANGE = 1e-4
# A formula counts as linear within these steps: relative, in µs, and in µs per byte.
_STEP, _LEAST_STEPS = 1e-3, (1e-3, 1e-9)
_LEAST_USEFUL_SHARE = 0.02  # a smaller part of a time says nothing of latency and rate


@dataclass(frozen=True)
class Case:
    """The time of one algorithm on ``ranks`` ranks with ``size_bytes`` bytes."""

    ranks: int
    size_bytes: int
    us: float


@dataclass(frozen=True)
class Hockney:
    """The parameters of one algorithm, and how well they fit."""

    expression: str
    latency_us: Interval
    bandwidth_gb_per_s: Interval
    error: float  # the median of the relative errors
    largest_error: float
    r_squared: float  # of the logarithms of the times
    cases: int


def formula_of(expression: str) -> str | None:
    """The expression whose cost formula an algorithm has, or None if there is none."""
    formula = expression
    if host_algorithms.is_native(expression):
        name = host_algorithms.name_in(expression)
        formula = _COST_FORMULAS.get(name or "", name or "")
    try:
        known = _core.cost("allreduce", formula, 4, 1024, a=1e-6, b=1e-9, c=1e-10)
    except _core.ExpressionError:
        return None
    return formula if known is not None else None


def usual_algorithms(vendor: str, version: str) -> list[str]:
    """The algorithms that paper 2 has: ours, and those of the MPI that have a formula and were checked."""
    names = host_algorithms.known_names(vendor, "allreduce")
    if (checked := host_algorithms.checked_names(vendor, version)) is not None:
        names = [name for name in names if name in checked.get("allreduce", [])]
    native = [f"native({name})" for name in names]
    return [*OWN_ALGORITHMS, *(name for name in native if formula_of(name) is not None)]


def cases_of(results: Sequence[Result], ranks: int, expression: str) -> list[Case]:
    """The times of one algorithm in a benchmark."""
    return [
        Case(ranks, result.cell.size_bytes, result.last_delay.p25)
        for result in results
        if result.status == MEASURED and result.algorithm == expression
    ]


def has_cost_formula(cases: Sequence[Case]) -> bool:
    """Whether these cases are enough for a fit."""
    return len(cases) >= LEAST_CASES and len({case.size_bytes for case in cases}) >= 3


def fit_algorithm(
    expression: str, cases: Sequence[Case], combine_ns_per_byte: float, eager_bytes: int
) -> Hockney | str:
    """The parameters of an algorithm, or why it has none: one line."""
    formula = formula_of(expression)
    if formula is None:
        return f"{expression}: no cost formula"
    if not has_cost_formula(cases):
        measured = f"{format_count(len(cases), 'case')} {'was' if len(cases) == 1 else 'were'} measured"
        return f"{expression}: only {measured}, and a fit needs {LEAST_CASES}"
    values = np.array([case.us for case in cases])
    cost = _Cost(formula, combine_ns_per_byte * 1e-9, eager_bytes)
    try:
        at = cost.fit(cases, values)
    except ArithmeticError as error:
        return f"{expression}: {error}"
    columns, constant = cost.linear_at(cases, at)

    def estimate(numbers: npt.NDArray[np.intp]) -> Floats:
        return _fit_remaining_time(columns[numbers], constant[numbers], values[numbers])

    latency, rate = replace(bootstrap(range(len(cases)), estimate), value=at).intervals()
    for each, name in ((latency, "latency_us"), (rate, "bandwidth_gb_per_s")):
        if each.low <= 0:
            return f"{expression}: {name}: its interval holds 0"
    predicted = np.array([cost(case, latency.value, rate.value) for case in cases])
    errors = np.abs(predicted / values - 1)
    logs = np.log(values)
    residual = float(((np.log(predicted) - logs) ** 2).sum())
    spread = float(((logs - logs.mean()) ** 2).sum())
    return Hockney(
        expression,
        latency,
        rate.inverse().scaled(1e-3),
        float(np.median(errors)),
        float(errors.max()),
        1 - residual / spread if spread > 0 else 0.0,
        len(cases),
    )


def _fit_remaining_time(columns: Floats, constant: Floats, values: Floats) -> Floats:
    """Fit what is left of the values without a constant part, such as the time that combining takes."""
    rest = values - constant
    some = rest > _LEAST_USEFUL_SHARE * values
    if some.sum() < 2:
        raise ArithmeticError("combining takes all of the time")
    return fit(columns[some], rest[some])


class _Cost:
    """A cost formula in microseconds, and per byte. It need not be linear: many formulas have a maximum."""

    def __init__(self, formula: str, combine_s: float, eager_bytes: int) -> None:
        self._formula = formula
        self._combine_s = combine_s
        self._eager_bytes = eager_bytes

    def __call__(self, case: Case, latency_us: float, us_per_byte: float) -> float:
        seconds = _core.cost(
            "allreduce",
            self._formula,
            case.ranks,
            case.size_bytes,
            a=latency_us * 1e-6,
            b=us_per_byte * 1e-6,
            c=self._combine_s,
            eager_bytes=self._eager_bytes,
        )
        assert seconds is not None
        return seconds * 1e6

    def fit(self, cases: Sequence[Case], values: Floats) -> Floats:
        """Gauss and Newton's method with the regression of each step: a formula is linear piece by piece."""
        at = self._starting_point(cases, values)
        best, error = at, self._error(cases, values, at)
        for _ in range(_MAX_ITERATIONS):
            found = _fit_remaining_time(*self.linear_at(cases, at), values)
            moved = np.abs(found - at).max() > _CONVERGED_CHANGE * max(
                float(np.abs(at).max()), min(_LEAST_STEPS)
            )
            at = found
            now = self._error(cases, values, at)
            if now < error:
                best, error = at, now
            if not moved:
                break
        return best

    def _starting_point(self, cases: Sequence[Case], values: Floats) -> Floats:
        short, long = int(np.argmin(values)), int(np.argmax(values))
        latency = values[short] / max(self(cases[short], 1, 0), 1e-9)
        rate = values[long] / max(self(cases[long], 0, 1), 1e-9)
        return np.array([latency, rate])

    def linear_at(self, cases: Sequence[Case], at: Floats) -> tuple[Floats, Floats]:
        base = np.array([self(case, *at) for case in cases])
        columns = []
        for number, least in enumerate(_LEAST_STEPS):
            further = at.copy()
            further[number] += max(at[number] * _STEP, least)
            moved = np.array([self(case, *further) for case in cases])
            columns.append((moved - base) / (further[number] - at[number]))
        matrix = np.maximum(np.column_stack(columns), 0)
        return matrix, base - matrix @ at

    def _error(self, cases: Sequence[Case], values: Floats, at: Floats) -> float:
        predicted = np.array([self(case, *at) for case in cases])
        return float(np.abs(predicted / values - 1).sum())
