# SPDX-License-Identifier: BSD-3-Clause
"""The last rank sleeps before every 10th call, and prints by how much it was then late (median, in ms).

It sleeps when the others are about to make the call, and for longer than a busy machine stops a rank. Its
lateness counts from when half of the ranks had come.
"""

import statistics
import time

import numpy as np
from mpi4py import MPI

CALLS, EVERY, SLEEP_S = 400, 10, 40e-3
world = MPI.COMM_WORLD
late = world.size - 1
sums = {size: (np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)) for size in (8, 16384)}
late_s = []
for call in range(CALLS):
    if call % EVERY == EVERY - 1:
        if world.rank == late:
            came = sorted(world.recv(source=other) for other in range(late))
            time.sleep(SLEEP_S)
            late_s.append(time.monotonic() - came[world.size // 2 - 1])
        else:
            world.send(time.monotonic(), late)
    world.Allreduce(*sums[8 if call % 2 else 16384])
if world.rank == late:
    print(f"planted {1e3 * statistics.median(late_s):.1f}")
