# SPDX-License-Identifier: BSD-3-Clause
"""Sums of doubles that come out in other bits in each order of additions; rank 0 prints them in hexadecimal.

sum_order.py ELEMENTS
"""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
elements = int(sys.argv[1])
total = np.empty(elements)
world.Allreduce(np.random.default_rng(world.rank).random(elements), total)
if world.rank == 0:
    print("sums", *(float(value).hex() for value in total))
