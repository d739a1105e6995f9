# SPDX-License-Identifier: BSD-3-Clause
"""Which other ranks a rank needs in a collective. It could leave when they have arrived, if messages took no
time."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.trace.layout import COLLECTIVES


class Needs(IntEnum):
    """Which arrivals a rank needs before it can leave."""

    NOBODY = 0  # also if the trace does not say which ranks it needs
    ALL = 1
    ROOT = 2
    ALL_AT_ROOT = 3  # the root needs all ranks, the other ranks need no rank
    LOWER = 4  # the ranks below it in the communicator


_EVERY_RANK_WAITS_FOR_ALL = (
    "allreduce", "barrier", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter",
    "reduce_scatter_block",
)  # fmt: skip
_NEEDS_BY_NAME = {
    **dict.fromkeys(_EVERY_RANK_WAITS_FOR_ALL, Needs.ALL),
    **dict.fromkeys(("bcast", "scatter", "scatterv"), Needs.ROOT),
    **dict.fromkeys(("reduce", "gather", "gatherv"), Needs.ALL_AT_ROOT),
    **dict.fromkeys(("scan", "exscan"), Needs.LOWER),
}
# The needs by the number of the collective. A trace does not say which ranks are neighbours.
NEEDS_OF_COLLECTIVE = np.array(
    [_NEEDS_BY_NAME.get(name, Needs.NOBODY) for name in COLLECTIVES], dtype=np.uint8
)


def last_needed_arrival(arrival: NDArray[Any], needs: int, root: int = -1) -> NDArray[Any]:
    """The last arrival that each rank needs, including its own.

    The last axis is the ranks in the order of the communicator. ``root`` is the index of the root there, or
    -1 if its arrival is not known.
    """
    if needs == Needs.ALL:
        return np.broadcast_to(arrival.max(axis=-1, keepdims=True), arrival.shape)
    if needs == Needs.LOWER:
        return np.asarray(np.maximum.accumulate(arrival, axis=-1))
    if needs == Needs.ROOT and root >= 0:
        return np.asarray(np.maximum(arrival, arrival[..., root : root + 1]))
    if needs == Needs.ALL_AT_ROOT and root >= 0:
        found = arrival.copy()
        found[..., root] = arrival.max(axis=-1)
        return found
    return arrival
