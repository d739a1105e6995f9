# SPDX-License-Identifier: BSD-3-Clause
"""Pass PyTorch tensors on a GPU to collectives of mpi4py. PyTorch loads the driver late and privately."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
on_host = np.full(3, rank, dtype="f8")
world.Allreduce(MPI.IN_PLACE, on_host)
assert on_host[0] == size * (size - 1) / 2

import torch  # noqa: E402

device = torch.device("cuda:0")
torch.cuda.set_per_process_memory_fraction(0.1, device)
for count in (1, 1000, 3_000_000):
    mine = torch.arange(count, dtype=torch.float64, device=device) + rank
    total = torch.empty_like(mine)
    torch.cuda.synchronize()
    world.Allreduce(mine, total)
    expected = torch.arange(count, dtype=torch.float64, device=device) * size + size * (size - 1) / 2
    assert torch.equal(total, expected), f"Allreduce of {count}"
    request = world.Iallreduce(MPI.IN_PLACE, mine)
    request.Wait()
    assert torch.equal(mine, expected), f"Iallreduce of {count}"
    blocks = torch.empty((size, count), dtype=torch.float64, device=device)
    world.Allgather(mine, blocks)
    assert torch.equal(blocks, expected.expand(size, count)), f"Allgather of {count}"
    if rank == 0:
        mine += 1
    torch.cuda.synchronize()
    world.Bcast(mine, root=0)
    assert torch.equal(mine, expected + 1), f"Bcast of {count}"
world.Barrier()
if rank == 0:
    print("ok")
sys.stdout.flush()
