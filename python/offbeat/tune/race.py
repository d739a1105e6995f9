# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of a race: scores of algorithms from noisy times, who is behind, and who wins.

Every median is a ``Timing``: the logarithm of a median last delay, with its standard error. A race compares
algorithms in one or more cells, which differ in the arrival pattern. The score of an algorithm is the mean,
over the cells, of its delay divided by the least delay of the cell (paper 4, section V.C). 1 is the best
score that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import NamedTuple

TIE = 1.03  # scores within this factor of the best are tied
CONFIDENCE = 0.95  # of all tests of a race together
# What the samples of one job do not show, such as where its memory lies. The relative error of each median.
_JOB_ERROR = 0.01
# With fewer samples, an interval misses noise that lasts for several samples (samples.py), so the error is at
# least _FEW_ERROR.
ENOUGH_SAMPLES = 50
_FEW_ERROR = 0.1
_FIT_STEPS = 30
_OF_95 = 2 * NormalDist().inv_cdf(0.975)  # the width of a 95% interval, in standard errors


class Timing(NamedTuple):
    """The median delay of an algorithm in one cell, as one job measured it."""

    job: int
    algorithm: str
    log_us: float
    error: float  # standard error of log_us


def timing(job: int, algorithm: str, median: float, low: float, high: float, samples: int) -> Timing | None:
    """The logarithm of a median, with its standard error from the 95% interval. All three are in µs.

    None if the median or ``low`` is not positive, or ``high`` is not finite.
    """
    if min(median, low) <= 0 or not math.isfinite(high):
        return None
    error = max(math.log(high / low) / _OF_95, _JOB_ERROR if samples >= ENOUGH_SAMPLES else _FEW_ERROR)
    return Timing(job, algorithm, math.log(median), math.hypot(error, _JOB_ERROR))


@dataclass(frozen=True)
class Estimate:
    """The delay of an algorithm in a cell, from all jobs that measured it."""

    log_us: float
    error: float

    @property
    def us(self) -> float:
        """The time in microseconds."""
        return math.exp(self.log_us)


def estimates(timings: Sequence[Timing]) -> dict[str, Estimate]:
    """The delay of each algorithm in one cell.

    A machine may be slower during a whole job. So the fit has a factor for each job, beside the delay of each
    algorithm (weighted least squares of the logarithms). Algorithms of different jobs are compared through
    the algorithms that both jobs measured.
    """
    by_algorithm: dict[str, list[Timing]] = {}
    by_job: dict[int, list[Timing]] = {}
    for each in timings:
        by_algorithm.setdefault(each.algorithm, []).append(each)
        by_job.setdefault(each.job, []).append(each)
    if not by_job:
        return {}
    main = max(by_job, key=lambda job: len(by_job[job]))  # the job to which the others are compared
    factor = dict.fromkeys(by_job, 0.0)
    found: dict[str, float] = {}
    for _ in range(_FIT_STEPS if len(by_job) > 1 else 1):
        found = {
            name: _mean((each.log_us - factor[each.job], each.error) for each in of)
            for name, of in by_algorithm.items()
        }
        for job, of in by_job.items():
            shared = [each for each in of if len(by_algorithm[each.algorithm]) > 1]
            if job != main and shared:
                factor[job] = _mean((each.log_us - found[each.algorithm], each.error) for each in shared)
    spread = max(factor.values()) - min(factor.values())
    unsure = {
        job: _factor_error(of, by_algorithm, spread) if job != main else 0.0 for job, of in by_job.items()
    }
    return {
        name: Estimate(found[name], _error(of, [unsure[each.job] for each in of], factor, found[name]))
        for name, of in by_algorithm.items()
    }


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """The mean of values with standard errors, weighted by their precision."""
    weighted = [(value, 1 / error**2) for value, error in values]
    total = sum(weight for _, weight in weighted)
    return sum(value * weight for value, weight in weighted) / total


def _factor_error(
    timings: Sequence[Timing], by_algorithm: Mapping[str, Sequence[Timing]], spread: float
) -> float:
    """The standard error of a job's factor, from those of its algorithms that other jobs measured, too.

    If there is at most one, it may have been measured in a slow moment. Then the error is at least the
    ``spread`` of the factors: if jobs differ much, so do moments.
    """
    shared = [each for each in timings if len(by_algorithm[each.algorithm]) > 1]
    error = 1 / math.sqrt(sum(1 / each.error**2 for each in shared)) if shared else 0.0
    return error if len(shared) > 1 else math.hypot(error, spread)


def _error(
    timings: Sequence[Timing], unsure: Sequence[float], factor: Mapping[int, float], log_us: float
) -> float:
    """The standard error of an estimate: what the jobs say, or how far they disagree if that is more."""
    errors = [math.hypot(each.error, more) for each, more in zip(timings, unsure, strict=True)]
    expected = 1 / math.sqrt(sum(1 / error**2 for error in errors))
    if len(timings) < 2:
        return expected
    squares = sum((each.log_us - factor[each.job] - log_us) ** 2 for each in timings)
    return max(expected, math.sqrt(squares / (len(timings) - 1) / len(timings)))


# -- scores


@dataclass(frozen=True)
class Score:
    """The score of an algorithm and its standard error."""

    value: float
    error: float


Rows = Sequence[Mapping[str, Estimate]]  # the estimates in each cell of a race


def scores(rows: Rows, algorithms: Collection[str]) -> dict[str, Score]:
    """The scores of those of the algorithms that were measured in all cells."""
    complete = [name for name in algorithms if rows and all(name in row for row in rows)]
    if not complete:
        return {}
    least = [min(row[name].log_us for name in complete) for row in rows]
    found = {}
    for name in complete:
        ratios = [math.exp(row[name].log_us - best) for row, best in zip(rows, least, strict=True)]
        squares = sum((ratio * row[name].error) ** 2 for ratio, row in zip(ratios, rows, strict=True))
        found[name] = Score(fmean(ratios), math.sqrt(squares) / len(rows))
    return found


def _deviations(tests: int) -> float:
    """How many standard errors a difference needs, so that all tests hold together (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / max(tests, 1))


def behind(found: Mapping[str, Score], tests: int) -> set[str]:
    """The algorithms that are behind the leader with certainty.

    An algorithm is behind if its score exceeds the least score by more than the standard error of the
    difference times a normal quantile. The quantile is one-sided, for 5% divided by ``tests``, the number of
    such comparisons in the whole race. So the best algorithm is stopped in at most 5% of the races.
    """
    if not found:
        return set()
    leader = min(found.values(), key=lambda score: score.value)
    needed = _deviations(tests)
    return {
        name
        for name, score in found.items()
        if score.value - leader.value > needed * _error_between(score, leader)
    }


def is_decided(found: Mapping[str, Score], chosen: str, tests: int) -> bool:
    """Whether no other algorithm is better than ``chosen`` by more than a tie, with certainty."""
    needed = _deviations(tests)
    mine = found[chosen]
    return all(
        mine.value - TIE * score.value + needed * math.hypot(mine.error, TIE * score.error) < 0
        for name, score in found.items()
        if name != chosen
    )


def choose(found: Mapping[str, Score], native: str, in_force: Iterable[str], neighbour: str | None) -> str:
    """The algorithm that a rule should have.

    Of those that tie with the best score: ``native``, if the tie is no accident of noise; the rule in force;
    the choice at the neighbouring size; the best. If the rule in force does not tie, another one replaces it
    only if that is better with certainty (one-sided, 95%).
    """
    best = min(found, key=lambda name: found[name].value)
    tied = [name for name in found if found[name].value <= TIE * found[best].value]
    if native in tied and _error_between(found[native], found[best]) <= (TIE - 1) * found[best].value:
        return native
    stays = min((name for name in in_force if name in found), key=lambda n: found[n].value, default=None)
    better = neighbour if neighbour in tied and neighbour is not None else best
    if stays is None:
        return better
    return better if is_better(found[better], found[stays]) else stays


def is_better(one: Score, other: Score) -> bool:
    """Whether a score is better than another one by more than a tie, and better with certainty."""
    # By logarithms: a large error is a factor, not a sum.
    error = math.hypot(one.error / one.value, other.error / other.value)
    return math.log(other.value / one.value) > max(math.log(TIE), _deviations(1) * error)


def _error_between(one: Score, other: Score) -> float:
    return math.hypot(one.error, other.error)
