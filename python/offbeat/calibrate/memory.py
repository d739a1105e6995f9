# SPDX-License-Identifier: BSD-3-Clause
"""The speed of cores and of the memory that they share: caches, windows of the board, and a node's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from offbeat.arrays import Floats
from offbeat.calibrate.probes import Result
from offbeat.calibrate.regression import (
    Draws,
    Interval,
    bootstrap,
    fit,
    fit_line,
    median_interval,
    quantile,
)

_LINE_BYTES = 64
_LEAST_SLOWDOWN_OF_LIMIT = 0.05  # many at once count as limited if they are slower than one alone by more
_VECTORS = {"combine": 3, "copy": 2}  # vectors that a core reads and writes
_MOST_CACHES = 3
_LEAST_POINTS = 6  # on each side of a limit
_LEAST_SLOWDOWN = 1.3  # beyond a cache
_LEAST_GAIN = 0.1  # of the error, by one more limit
_MOST_CANDIDATES = 40


@dataclass
class CoreSpeeds:
    """What cores take, from the smallest cache on."""

    cache_bytes: int = 0  # data that exceed this cache take these times; 0: no cache is exceeded
    values: dict[str, Interval] = field(default_factory=dict)  # by key of the machine file


@dataclass
class SharedMemory:
    """What a calibration found about the cores and the memory of a node."""

    cores: list[CoreSpeeds]
    board: dict[str, Interval]  # by key of the machine file
    refused: list[str]  # one line for each parameter that is left out


def fit_memory(results: Sequence[Result]) -> SharedMemory:
    """Fit everything from the probes of one node."""
    found = SharedMemory([], {}, [])
    limits = _cache_limits(results)
    for least, most in zip([0, *limits], [*limits, None], strict=True):
        found.cores.append(_speeds(results, least, most))
    _memory_limit(results, found)
    _fit_board(results, found)
    return found


def _data_bytes(result: Result) -> int:
    """The bytes that a core reads and writes in a probe."""
    return _VECTORS[result.kind] * result.size_bytes


def _ns_per_byte(result: Result) -> float:
    return quantile(result) * 1e3 / result.size_bytes


def _of_cores(results: Sequence[Result], kind: str, *, alone: bool) -> list[Result]:
    return [r for r in results if r.kind == kind and (len(r.ranks) == 1) == alone]


def _cache_limits(results: Sequence[Result]) -> list[int]:
    """How many bytes the caches of a core hold, if all cores of the node work at once."""
    points = _of_cores(results, "combine", alone=False) or _of_cores(results, "combine", alone=True)
    points.sort(key=_data_bytes)
    data = np.array([_data_bytes(result) for result in points], dtype=float)
    logs = np.log([_ns_per_byte(result) for result in points])
    cuts: list[int] = []
    for _ in range(_MOST_CACHES):
        error = _spread(logs, cuts)
        every = max(1, len(points) // _MOST_CANDIDATES)
        tries = [sorted({*cuts, cut}) for cut in range(0, len(points), every)]
        scored = [(_spread(logs, each), each) for each in tries if _is_slower_each_time(logs, each)]
        if not scored or min(scored)[0] > (1 - _LEAST_GAIN) * error:
            break
        cuts = min(scored)[1]
    return [round(float(np.sqrt(data[cut - 1] * data[cut]))) for cut in cuts]


def _spread(logs: Floats, cuts: Sequence[int]) -> float:
    return float(
        sum(np.abs(part - np.median(part)).sum() for part in np.split(logs, list(cuts)) if len(part))
    )


def _is_slower_each_time(logs: Floats, cuts: Sequence[int]) -> bool:
    parts = np.split(logs, list(cuts))
    if min(map(len, parts)) < _LEAST_POINTS:
        return False
    return bool((np.diff([float(np.median(part)) for part in parts]) > np.log(_LEAST_SLOWDOWN)).all())


def _speeds(results: Sequence[Result], least: int, most: int | None) -> CoreSpeeds:
    """What cores take for data of more than ``least`` bytes, and of at most ``most``."""
    here = [
        r for r in results
        if r.kind in _VECTORS and _data_bytes(r) > least and (most is None or _data_bytes(r) <= most)
    ]  # fmt: skip
    found = CoreSpeeds(least)
    for kind in _VECTORS:
        alone = _of_cores(here, kind, alone=True)
        if alone:
            rates = np.array([_ns_per_byte(result) for result in alone])
            found.values[f"{kind}_ns_per_byte"] = median_interval(rates, [result.round for result in alone])
    return found


def _memory_limit(results: Sequence[Result], found: SharedMemory) -> None:
    """The memory bandwidth of all cores together, if they combine slower than one alone beyond all caches."""
    last = found.cores[-1]
    one = {(r.round, r.size_bytes): quantile(r) for r in _of_cores(results, "combine", alone=True)}
    together = [
        r for r in _of_cores(results, "combine", alone=False)
        if (r.round, r.size_bytes) in one and _data_bytes(r) > last.cache_bytes
    ]  # fmt: skip
    if not together:
        return
    groups = [result.round for result in together]
    ratios = np.array([quantile(r) / one[r.round, r.size_bytes] for r in together])
    if median_interval(ratios, groups).low <= 1 + _LEAST_SLOWDOWN_OF_LIMIT:
        found.refused.append(
            "core: node_memory_bandwidth_gb_per_s: all cores at once are not slower than one"
        )
        return
    rates = np.array([_data_bytes(r) * len(r.ranks) / quantile(r) * 1e-3 for r in together])
    last.values["node_memory_bandwidth_gb_per_s"] = median_interval(rates, groups)


def _fit_board(results: Sequence[Result], found: SharedMemory) -> None:
    """The time of a line from core to core, and what a line takes more than in the core's own cache."""
    lines = [result for result in results if result.kind == "line"]
    if not lines:
        return
    groups = [result.round for result in lines]
    bounce = median_interval(np.array([quantile(r) for r in lines]), groups).scaled(1e3)
    found.board["line_ns"] = bounce
    windows = [result for result in results if result.kind == "window" and result.receive_us]
    copy = found.cores[0].values.get("copy_ns_per_byte")
    if not windows or copy is None:
        return
    lines_of = {read: _latency_and_rate(windows, read=read) for read in (True, False)}
    for key, read in (("line_gap_ns", True), ("put_line_ns", False)):
        more = _more_per_line(lines_of[read].intervals()[1], copy.value)
        if more.low <= 0:
            found.refused.append(f"board: {key}: its interval holds 0")
        else:
            found.board[key] = more
    if "line_gap_ns" in found.board:  # then writing and reading a line take half of the way each
        found.board["line_ns"] = found.board["far_line_ns"] = bounce.scaled(0.5)
    # Each copy has a cold start, as in a collective. Both fixed times are two starts and a line's way.
    begin = [lines_of[read].intervals()[0].scaled(1e3) for read in (True, False)]
    step = Interval(*(
        (one + other - bounce.value) / 2
        for one, other in zip(_values(begin[0]), _values(begin[1]), strict=True)
    ))  # fmt: skip
    if step.low <= 0:
        found.refused.append("core: step_ns: its interval holds 0")
    else:
        found.cores[0].values["step_ns"] = step


def _values(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _latency_and_rate(windows: Sequence[Result], *, read: bool) -> Draws:
    columns = fit_line(np.array([result.size_bytes for result in windows], dtype=float))
    values = np.array([quantile(result, received=read) for result in windows])
    return bootstrap(
        [result.round for result in windows], lambda numbers: fit(columns[numbers], values[numbers])
    )


def _more_per_line(us_per_byte: Interval, copy_ns: float) -> Interval:
    return Interval(*(_LINE_BYTES * (1e3 * us - copy_ns) for us in _values(us_per_byte)))
