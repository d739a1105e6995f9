# SPDX-License-Identifier: BSD-3-Clause
"""Rank 1 computes for three seconds before an allreduce."""

import time

import numpy
from mpi4py import MPI


def relax(seconds: float) -> float:
    until, total = time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        total += sum(range(1000)) * 1e-9  # the line of relax()
    return total


world = MPI.COMM_WORLD
mine, sums = numpy.ones(1), numpy.zeros(1)
world.Allreduce(mine, sums)
if world.rank == 1:
    relax(3)
world.Allreduce(mine, sums)
