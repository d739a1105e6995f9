# SPDX-License-Identifier: BSD-3-Clause
"""Bandwidths, as nccl-tests define them (doc/PERFORMANCE.md of nccl-tests).

The algorithm bandwidth is the data of a call divided by its time. The bus bandwidth is what each link of a
perfect machine carries meanwhile, so it does not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from offbeat.bench.results import Result

# The collectives whose size is that of one block. The data of a call are the blocks of all ranks.
IN_BLOCKS = (
    "allgather", "allgatherv", "alltoall", "alltoallv", "gather", "gatherv", "scatter", "scatterv",
    "reduce_scatter_block",
)  # fmt: skip
# What a rank sends or receives at least, in multiples of the data, for p ranks. Others: all of it.
_BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "allreduce": lambda p: 2 * (p - 1) / p,
    **dict.fromkeys((*IN_BLOCKS, "reduce_scatter"), lambda p: (p - 1) / p),
}


class Bandwidth(NamedTuple):
    """Both bandwidths, in GB/s (10^9 bytes per second)."""

    algorithm: float
    bus: float


def total_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """The data of one call: the vector, or all blocks."""
    return size_bytes * ranks if collective in IN_BLOCKS else size_bytes


def bandwidth_of_result(result: Result, ranks: int) -> Bandwidth | None:
    """The bandwidths of a measured cell, by the median of its last delay. None if no data move."""
    if not result.last_delays_us or not result.cell.size_bytes or result.last_delay.median <= 0:
        return None
    collective = result.cell.collective
    data = total_bytes(collective, result.cell.size_bytes, ranks)
    algorithm = data / (result.last_delay.median * 1e3)
    share = _BUS_FACTORS.get(collective)
    return Bandwidth(algorithm, algorithm * share(ranks) if share is not None else algorithm)
