# SPDX-License-Identifier: BSD-3-Clause
"""An mpi4py program: Python is not linked to libmpi, which arrives after the preload library.

Ends with the line `ok: N cases, N calls`, as the C programs do.
"""

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
calls = 0


def allreduce(send: Any, receive: Any, op: MPI.Op, communicator: MPI.Comm = world) -> None:
    global calls
    calls += 1
    communicator.Allreduce(send, receive, op)


cases = 0
for dtype in "bhilqBHILQfdg" + "FDG":
    for count in (0, 1, size + 1, 1000):
        pattern = np.arange(count) % 5
        mine = (pattern + rank).astype(dtype)
        expected = (pattern * size + size * (size - 1) // 2).astype(dtype)
        result = np.empty_like(mine)
        allreduce(mine, result, MPI.SUM)
        assert np.array_equal(result, expected), (dtype, count)
        allreduce(MPI.IN_PLACE, mine, MPI.SUM)
        assert np.array_equal(mine, expected), (dtype, count, "in place")
        cases += 2

# An operation written in Python, on a duplicate.
duplicate = world.Dup()


def keep_largest_magnitude(a: Any, b: Any, datatype: MPI.Datatype) -> None:
    result = np.frombuffer(b, "d")
    np.copyto(result, np.maximum(np.abs(np.frombuffer(a, "d")), np.abs(result)))


largest_magnitude = MPI.Op.Create(keep_largest_magnitude, commute=True)
mine, result = np.linspace(rank + 1, 0, 50), np.empty(50)
allreduce(mine, result, largest_magnitude, duplicate)
assert np.array_equal(result, np.linspace(size, 0, 50))
largest_magnitude.Free()
duplicate.Free()
cases += 1

if rank == 0:
    print(f"ok: {cases} cases, {calls} calls", flush=True)
sys.exit(0)
