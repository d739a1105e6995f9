# SPDX-License-Identifier: BSD-3-Clause
"""Known numbers of calls from Python, on several communicators; large counts where the MPI has them."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
one, total = np.ones(4), np.zeros(4)
for _ in range(5):
    world.Allreduce(one, total)
world.Allreduce(MPI.IN_PLACE, total, op=MPI.MAX)
requests = [world.Ibarrier(), world.Iallreduce(one, np.zeros(4)), world.Ibarrier()]
MPI.Request.Waitall(requests)

half = world.Split(world.rank % 2, -world.rank)  # in reverse
twins = [half.Dup(), half.Dup()]
for times, communicator in enumerate(twins, start=1):
    for _ in range(times):
        communicator.Bcast(one, root=0)
    communicator.Free()
again = half.Dup()  # perhaps with the handle of a dead one
again.Barrier()
again.Free()
pair = MPI.DOUBLE.Create_contiguous(2).Commit()
half.Bcast([one, 2, pair], root=0)
pair.Free()
half.Free()
MPI.COMM_SELF.Barrier()
print("ok", flush=True)
