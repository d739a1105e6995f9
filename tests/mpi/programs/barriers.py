# SPDX-License-Identifier: BSD-3-Clause
"""Fifty barriers from Python."""

from mpi4py import MPI

for _ in range(50):
    MPI.COMM_WORLD.Barrier()
