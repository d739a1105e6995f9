# SPDX-License-Identifier: BSD-3-Clause
"""Whom each rank needs in a collective: when the rank could leave if messages took no time."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.trace.layout import COLLECTIVES


class Needs(IntEnum):
    """Whose arrival a rank needs before it can leave."""

    NOBODY = 0  # or the trace does not know whom
    ALL = 1
    ROOT = 2
    ALL_AT_ROOT = 3  # the root needs all ranks, every other rank nobody
    LOWER = 4  # the ranks below it in the communicator


_ALL = (
    "allreduce", "barrier", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter",
    "reduce_scatter_block",
)  # fmt: skip
_NEEDS = {
    **dict.fromkeys(_ALL, Needs.ALL),
    **dict.fromkeys(("bcast", "scatter", "scatterv"), Needs.ROOT),
    **dict.fromkeys(("reduce", "gather", "gatherv"), Needs.ALL_AT_ROOT),
    **dict.fromkeys(("scan", "exscan"), Needs.LOWER),
}
# By the numbers of the collectives. A trace does not have the neighbours of neighbourhood collectives.
OF_COLLECTIVE = np.array([_NEEDS.get(name, Needs.NOBODY) for name in COLLECTIVES], dtype=np.uint8)


def needed(arrival: NDArray[Any], needs: int, root: int = -1) -> NDArray[Any]:
    """For each rank the last arrival that it needs, its own included.

    The last axis is the ranks in the order of the communicator; ``root`` is the root's place there, -1 if
    its arrival is not known.
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
