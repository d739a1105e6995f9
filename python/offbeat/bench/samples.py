# SPDX-License-Identifier: BSD-3-Clause
"""Summarise a series of delays. src/mpi/bench/statistics.hpp computes the same interval, to decide when to
stop."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_BATCH_COUNT = 10
_LEAST_SAMPLES_FOR_BATCHES = 50
_STUDENT_T = 2.262  # two-sided 95%, 9 degrees of freedom


@dataclass(frozen=True)
class Delay:
    """A delay over all counted samples, in microseconds."""

    median: float
    mean: float
    p10: float
    p25: float
    p75: float
    p90: float
    ci95_low: float
    ci95_high: float


_UNSURE_INTERVAL_RATIO = 2.0


def factors(native: Delay, delay: Delay) -> tuple[float, float]:
    """The least and the largest factor that the 95% intervals of the two medians allow."""
    low = max(native.ci95_low, 0.0) / max(delay.ci95_high, 1e-9)
    return low, native.ci95_high / max(delay.ci95_low, 1e-9)


def is_unsure(native: Delay, delay: Delay) -> bool:
    """Whether the two can hardly be compared. Tables then have a `?`."""
    low, high = factors(native, delay)
    return high > _UNSURE_INTERVAL_RATIO * low


def summarize(samples: Sequence[float]) -> Delay:
    """Summarise ``samples``, which are in the order of measuring. There must be at least one."""
    ordered = sorted(samples)
    last = len(ordered) - 1

    def at(position: float) -> float:
        position = min(max(position, 0.0), last)
        below = int(position)
        above = min(below + 1, last)
        return ordered[below] + (position - below) * (ordered[above] - ordered[below])

    median = at(0.5 * last)
    # The number of samples below the median is binomial(n, 1/2), with deviation sqrt(n) / 2. 0.98 = 1.96 / 2.
    half = 0.98 * math.sqrt(len(ordered))
    batches = _half_width_of_batches(samples)
    return Delay(
        median=median,
        mean=statistics.fmean(samples),
        p10=at(0.1 * last),
        p25=at(0.25 * last),
        p75=at(0.75 * last),
        p90=at(0.9 * last),
        ci95_low=min(at(math.floor(0.5 * last - half)), median - batches),
        ci95_high=max(at(math.ceil(0.5 * last + half)), median + batches),
    )


def _half_width_of_batches(samples: Sequence[float]) -> float:
    """Half of the 95% interval by the medians of consecutive batches.

    Order statistics miss noise that lasts for many samples; these medians see it.
    """
    if len(samples) < _LEAST_SAMPLES_FOR_BATCHES:
        return 0.0
    length = len(samples) // _BATCH_COUNT
    batches = [samples[b * length : (b + 1) * length] for b in range(_BATCH_COUNT)]
    medians = [sorted(batch)[length // 2] for batch in batches]
    return _STUDENT_T * statistics.stdev(medians) / math.sqrt(_BATCH_COUNT)
