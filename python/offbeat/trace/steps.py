# SPDX-License-Identifier: BSD-3-Clause
"""Find the steps of a training in the sizes of its gradient calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats

LEAST_STEPS = 5
_LEAST_SHARE_OF_BYTES = 0.8  # steps are found if they have this share of the bytes of all gradient calls
_FEW_CALLS_SHARE = 0.05
_FEW_BYTES_SHARE = 0.005
_MAX_CANDIDATES = 32
_MAX_CALLS_PER_STEP = 64
_MAX_CALLS_EXAMINED = 4096
_MAX_STEPS_MERGED = 16
_LONGER_PAUSE_RATIO = 1.5


def find(sizes: NDArray[np.int64], gap: Floats) -> list[tuple[int, int]]:
    """The first and the last gradient call of each step. Empty if there are none.

    ``gap`` is the pause before each call.

    How gradients are put together into calls differs from step to step, but their sum does not. So the size
    of a step is the sum that divides the calls into consecutive stretches with the fewest calls left over.
    """
    if len(sizes) < LEAST_STEPS:
        return []
    head = sizes[:_MAX_CALLS_EXAMINED]
    candidates = _candidates(head)
    tilings = [_best_tiling(head, gap, candidate) for candidate in candidates]
    calls = np.array([_covered_share(np.ones_like(head), tiling) for tiling in tilings])
    in_bytes = np.array([_covered_share(head, tiling) for tiling in tilings])
    # Two steps together also repeat, so the smallest sum counts. Some calls may belong to no step: a program
    # may, for example, average its loss every now and then. A step without one of its gradients also repeats,
    # but leaves many calls over, or many bytes.
    good = (calls >= calls.max() - _FEW_CALLS_SHARE) & (in_bytes >= in_bytes.max() - _FEW_BYTES_SHARE)
    step = min((s for s, is_good in zip(candidates, good, strict=True) if is_good), default=0)
    if step == 0:
        return []
    found = _best_tiling(sizes, gap, step)
    if len(found) < LEAST_STEPS or _covered_share(sizes, found) < _LEAST_SHARE_OF_BYTES:
        return []
    return _merge_close_steps(found, gap)


def _covered_share(weights: NDArray[np.int64], tiling: Sequence[tuple[int, int]]) -> float:
    """The share of the calls, each with a weight, in a tiling."""
    ends = np.concatenate([[0], np.cumsum(weights)])
    return float(sum(int(ends[last + 1] - ends[first]) for first, last in tiling)) / max(int(ends[-1]), 1)


def _candidates(sizes: NDArray[np.int64]) -> list[int]:
    """The most frequent sums of consecutive calls."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    most = min(_MAX_CALLS_PER_STEP, len(ends) - 1)
    sums = np.concatenate([ends[length:] - ends[:-length] for length in range(1, most + 1)])
    values, counts = np.unique(sums, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:_MAX_CANDIDATES]
    return [int(value) for value in values[often]]


def _best_tiling(sizes: NDArray[np.int64], gap: Floats, step: int) -> list[tuple[int, int]]:
    """The stretches of calls with the sum ``step``. The pauses between them should be long."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    after = np.searchsorted(ends, ends[:-1] + step)  # where a stretch that begins with a call would end
    fits = np.zeros(len(sizes), dtype=bool)
    inside = after < len(ends)
    fits[inside] = ends[after[inside]] == ends[:-1][inside] + step
    tilings = {}
    longest = int(np.max((after - np.arange(len(sizes)))[fits], initial=1))  # in calls
    for offset in range(min(longest, len(sizes))):  # the trace may begin in the middle of a stretch
        tiling, at = [], offset
        while at < len(sizes):
            if fits[at]:
                tiling.append((at, int(after[at]) - 1))
                at = int(after[at])
            else:
                at += 1
        pause = float(np.median(gap[[first for first, _ in tiling]])) if tiling else 0.0
        tilings[round(_covered_share(sizes, tiling), 2), pause] = tiling
    return tilings[max(tilings)]


def _merge_close_steps(steps: list[tuple[int, int]], gap: Floats) -> list[tuple[int, int]]:
    """Put steps together that are parts of one, because the pauses between them are short."""
    pause = gap[[first for first, _ in steps]]
    for parts in range(2, min(_MAX_STEPS_MERGED, len(steps) // LEAST_STEPS) + 1):
        for begin in range(parts):
            is_first = np.arange(len(steps)) % parts == begin
            short, long = pause[1:][~is_first[1:]], pause[1:][is_first[1:]]
            if np.percentile(long, 10) > _LONGER_PAUSE_RATIO * np.percentile(short, 90):
                firsts = range(begin, len(steps) - parts + 1, parts)
                return [(steps[first][0], steps[first + parts - 1][1]) for first in firsts]
    return steps
