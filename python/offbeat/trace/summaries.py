# SPDX-License-Identifier: BSD-3-Clause
"""Compute the contents of the tables of a trace, over its complete calls: shares, lateness and imbalance.

Paper 0 is Alizadeh et al., EuroMPI 2022; paper 4 is Salimi Beni, Cosenza, Hunold, Cluster 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import Flag
from offbeat.trace.message_time import MessageTime
from offbeat.trace.metrics import Calls

SMALL_BYTES = 1 << 10  # paper 0, section 6.1.1: MVAPICH uses shared memory up to this size
MEDIUM_BYTES = (
    64 << 10
)  # and the paper compares the arrival-aware algorithm for small messages up to this one
SIZE_CLASSES = ("small", "medium", "large")
_LAST_CALLS_OF_TRIAL = 32  # more than a trial that opens again measures of one alternative
SIZE_CLASS_MEANING = "small: up to 1 KiB, medium: up to 64 KiB, large: above"


def size_class(size: Any) -> NDArray[np.intp]:
    """The index of the class of a size in SIZE_CLASSES."""
    return np.asarray(np.digitize(size, [SMALL_BYTES + 1, MEDIUM_BYTES + 1]))


def blocking(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these calls are blocking: no other shows how long ranks waited."""
    return np.asarray((rows["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0)


@dataclass(frozen=True)
class Share:
    """The share that one kind of call has in all calls and in their time (paper 0, section 4.2)."""

    collective: int
    size_class: str
    calls: int
    call_share: float  # between 0 and 1
    time_ns: float  # the sum over all ranks
    time_share: float
    waiting_ns: float
    communicating_ns: float
    any_blocking: bool  # only blocking calls show waiting


def shares(calls: Calls) -> list[Share]:
    """The shares by collective and class of sizes, the most time first."""
    table = calls.whole
    total_time = max(float(table["in_call"].sum()), 1e-9)
    classes = size_class(table["bytes"])
    found = []
    for collective in np.unique(table["collective"]):
        for number, name in enumerate(SIZE_CLASSES):
            rows = table[(table["collective"] == collective) & (classes == number)]
            if not len(rows):
                continue
            time, wait = float(rows["in_call"].sum()), float(rows["waiting"].sum())
            found.append(
                Share(
                    int(collective),
                    name,
                    len(rows),
                    len(rows) / len(table),
                    time,
                    time / total_time,
                    wait,
                    max(time - wait, 0.0),
                    bool(blocking(rows).any()),
                )
            )
    return sorted(found, key=lambda share: -share.time_ns)


@dataclass(frozen=True)
class Alternative:
    """One of several algorithms that ran in the calls of a trial, which are alike."""

    algorithm: str
    calls: int
    last_delay_us: float  # from the last arrival to the last exit; the median over its calls
    is_pinned: bool  # it ran in most of the last calls


@dataclass(frozen=True)
class Trial:
    """Calls of one communicator, collective and power of two of bytes, which ran several algorithms."""

    collective: int
    is_nonblocking: bool
    ranks: int
    least_bytes: int
    most_bytes: int
    time_ns: float  # from the last arrival to the last exit, in all calls
    alternatives: tuple[Alternative, ...]  # in the order of their first calls


def trials(calls: Calls) -> list[Trial]:
    """The calls that ran several algorithms, the most time first, without persistent calls."""
    table = calls.whole[(calls.whole["flags"] & Flag.PERSISTENT) == 0]
    nonblocking = (table["flags"] & Flag.NONBLOCKING) != 0
    powers = np.frexp(table["bytes"].astype(np.float64))[1]
    keys = np.stack(
        [table["communicator"].astype(np.int64), table["collective"], nonblocking, powers], axis=1
    )
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    numbers = numbers.ravel()
    order = np.lexsort((table["number"], numbers))
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        mine = table[rows]
        if len(np.unique(mine["algorithm"])) < 2:
            continue
        sizes = mine["bytes"]
        found.append(
            Trial(
                int(mine["collective"][0]),
                bool(nonblocking[rows[0]]),
                int(mine["ranks"].max()),
                int(sizes.min()),
                int(sizes.max()),
                float((mine["end"] - mine["last"]).sum()),
                _alternatives(calls, mine),
            )
        )
    return sorted(found, key=lambda trial: -trial.time_ns)


def _alternatives(calls: Calls, table: NDArray[Any]) -> tuple[Alternative, ...]:
    recent = np.bincount(table["algorithm"][-_LAST_CALLS_OF_TRIAL:])
    found = []
    for number in dict.fromkeys(table["algorithm"].tolist()):
        mine = table[table["algorithm"] == number]
        delay = float(np.median(mine["end"] - mine["last"])) / 1e3
        name = calls.algorithms[number]
        found.append(Alternative(name, len(mine), delay, number == int(recent.argmax())))
    return tuple(found)


@dataclass(frozen=True)
class RankLateness:
    """How often a rank is the last to arrive, and by how much."""

    rank: int
    calls_last: int
    share_last: float  # as a share of the complete calls
    lateness_us: float  # from the usual arrival; the median over the calls in which it is the last
    lateness_p90_us: float
    waited_s: float  # how long all other ranks waited in these calls
    mean_skew_us: float  # the mean over all calls (paper 4, section V.A)
    shows_waiting: bool  # whether it was last in no call, or in a blocking one


def lateness(calls: Calls) -> list[RankLateness]:
    """The lateness of each recording rank, in the order of the ranks."""
    table = calls.whole
    order = np.argsort(table["last_rank"], kind="stable")
    by_rank = table[order]
    bounds = np.searchsorted(by_rank["last_rank"], calls.skew_ranks, side="left")
    ends = np.searchsorted(by_rank["last_rank"], calls.skew_ranks, side="right")
    found = []
    for rank, begin, end, skew_ns in zip(calls.skew_ranks, bounds, ends, calls.mean_skew, strict=True):
        rows = by_rank[begin:end]
        late = np.percentile(rows["lateness"], (50, 90)) / 1e3 if len(rows) else (0.0, 0.0)
        found.append(
            RankLateness(
                int(rank),
                len(rows),
                len(rows) / max(len(table), 1),
                float(late[0]),
                float(late[1]),
                float(rows["waiting"].sum()) / 1e9,
                float(skew_ns) / 1e3,
                not len(rows) or bool(blocking(rows).any()),
            )
        )
    return found


class Measure(NamedTuple):
    """A time, and the time divided by alpha, if alpha is known."""

    us: float
    factor: float | None


@dataclass(frozen=True)
class Imbalance:
    """Averages over the calls of one class of sizes (paper 0, tables 1 and 2)."""

    size_class: str
    calls: int
    worst: Measure
    average: Measure
    node_worst: Measure
    node_average: Measure


def imbalance(calls: Calls, alpha: MessageTime | None) -> list[Imbalance]:
    """One row for all sizes, then one per class. As in the paper, factors are averaged over the calls."""
    table = calls.whole
    classes = size_class(table["bytes"])
    chosen = [("all", np.ones(len(table), dtype=bool))]
    chosen += [(name, classes == number) for number, name in enumerate(SIZE_CLASSES)]
    found = []
    for name, mask in chosen:
        rows = table[mask]
        if not len(rows):
            continue
        fields = ("omega", "delta", "node_omega", "node_delta")
        times = [float(rows[field].mean()) / 1e3 for field in fields]
        factors: list[float | None] = [None] * 4
        if alpha is not None:
            message = np.maximum(alpha(rows["bytes"]), 1e-3)
            factors = [float((rows[field] / message).mean()) for field in fields]
        values = [Measure(time, factor) for time, factor in zip(times, factors, strict=True)]
        found.append(Imbalance(name, len(rows), *values))
    return found
