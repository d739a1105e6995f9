# SPDX-License-Identifier: BSD-3-Clause
"""Rank 3 sleeps 2 ms before every 10th call; it prints the median of what its sleeps really took, in us."""

import statistics
import time

import numpy as np
from mpi4py import MPI

CALLS, EVERY, SLEEP_S = 600, 10, 2e-3
world = MPI.COMM_WORLD
late = world.size - 1
sums = {size: (np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)) for size in (8, 16384)}
slept = []
for call in range(CALLS):
    if world.rank == late and call % EVERY == EVERY - 1:
        begin = time.monotonic()
        time.sleep(SLEEP_S)
        slept.append(time.monotonic() - begin)
    world.Allreduce(*sums[8 if call % 2 else 16384])
if world.rank == late:
    print(f"planted {1e6 * statistics.median(slept):.1f}")
