# SPDX-License-Identifier: BSD-3-Clause
"""The formulas for one collective call: imbalance of arrival, delays, waiting.

Each function takes one call or many. The last axis is the ranks, and ``present`` says which of them arrived.
a_i is the arrival of rank i, and e_i its exit, or its completion if the call is non-blocking. Paper 0 is
Alizadeh et al., EuroMPI 2022; paper 4 is Salimi Beni, Cosenza, Hunold, Cluster 2024.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats


def worst_imbalance(arrival: Any, present: Any = True) -> Floats:
    """Omega = max a_i - min a_i, in the unit of the arrivals (paper 0, section 2.2, equation 2.1)."""
    return np.asarray(last(arrival, present) - first(arrival, present))


def average_imbalance(arrival: Any, present: Any = True) -> Floats:
    """Delta-bar = mean of |a_i - mean a|, in the unit of the arrivals (paper 0, equations 2.2 and 2.3)."""
    present = np.broadcast_to(present, np.shape(arrival))
    count = np.maximum(np.count_nonzero(present, axis=-1), 1)
    # Times count from the first arrival here, because doubles lack the digits for nanoseconds of a long run.
    since_first = np.where(present, arrival - first(arrival, present)[..., None], 0.0)
    mean = since_first.sum(axis=-1) / count
    distance = np.where(present, np.abs(since_first - mean[..., None]), 0.0)
    return np.asarray(distance.sum(axis=-1) / count, dtype=np.float64)


def node_wide(metric: Any, arrival: Any, nodes: NDArray[np.intp], present: Any = True) -> Floats:
    """A metric within each node, averaged over the nodes (paper 0, section 4.3.2).

    ``nodes`` has the node of each rank as a number from 0. Nodes with fewer than two ranks present do not
    count.
    """
    present = np.broadcast_to(present, np.shape(arrival))
    total = np.zeros(np.shape(arrival)[:-1])
    counted = np.zeros(np.shape(arrival)[:-1])
    for node in range(int(nodes.max()) + 1 if len(nodes) else 0):
        here = nodes == node
        enough = np.count_nonzero(present[..., here], axis=-1) >= 2
        if enough.any():
            total += np.where(enough, metric(arrival[..., here], present[..., here]), 0.0)
            counted += enough
    return np.asarray(total / np.maximum(counted, 1), dtype=np.float64)


def total_delay(arrival: Any, end: Any, present: Any = True) -> Floats:
    """d* = max e_i - min a_i (paper 4, section II.A, equation 1)."""
    return np.asarray(last(end, present) - first(arrival, present))


def last_delay(arrival: Any, end: Any, present: Any = True) -> Floats:
    """d-hat = max e_i - max a_i (paper 4, section II.A, equation 2)."""
    return np.asarray(last(end, present) - last(arrival, present))


def waiting(arrival: Any, end: Any, present: Any = True) -> Floats:
    """The time of each rank in the call before the last rank arrived. The rest is communicating."""
    present = np.broadcast_to(present, np.shape(arrival))
    until = np.minimum(end, last(arrival, present)[..., None])
    return np.asarray(np.where(present, np.maximum(until - arrival, 0), 0), dtype=np.float64)


def skew(arrival: Any, present: Any = True) -> Floats:
    """The skew of each rank, a_i - min a (paper 4, section V.A)."""
    present = np.broadcast_to(present, np.shape(arrival))
    since_first = arrival - first(arrival, present)[..., None]
    return np.asarray(np.where(present, since_first, 0), dtype=np.float64)


def usual_arrival(arrival: Any, present: Any = True) -> NDArray[Any]:
    """The lower median of the arrivals, at which half of the ranks have arrived. Lateness counts from it."""
    present = np.broadcast_to(present, np.shape(arrival))
    ordered = np.sort(np.where(present, arrival, _after_all(arrival)), axis=-1)
    middle = (np.maximum(np.count_nonzero(present, axis=-1), 1) - 1) // 2
    return np.take_along_axis(ordered, middle[..., None], axis=-1)[..., 0]


def first(arrival: Any, present: Any) -> NDArray[Any]:
    """The first arrival."""
    return np.asarray(np.min(arrival, axis=-1, where=present, initial=_after_all(arrival)))


def last(times: Any, present: Any) -> NDArray[Any]:
    """The last arrival or exit."""
    return np.asarray(np.max(times, axis=-1, where=present, initial=_before_all(times)))


def _after_all(times: Any) -> Any:
    kind = np.asarray(times).dtype
    return np.iinfo(kind).max if kind.kind == "i" else np.inf


def _before_all(times: Any) -> Any:
    kind = np.asarray(times).dtype
    return np.iinfo(kind).min if kind.kind == "i" else -np.inf
