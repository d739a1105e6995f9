# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from rank import check, finish, start

rank, size = start()
after, before = (rank + 1) % size, (rank - 1) % size


def pattern(count: int, of_rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return ((torch.arange(count) * 7 + of_rank) % 100).to(dtype)


for count in (0, 1, 1000, 300_000):
    got = torch.empty(count)
    works = [dist.isend(pattern(count, rank), after), dist.irecv(got, before)]
    for work in works:
        work.wait()
    check(f"a ring of {count}", got, pattern(count, before))

# One tag overtakes another one; messages of one tag keep their order.
for tag in (1, 2):
    for number in range(2):
        dist.isend(pattern(10, 10 * tag + number), after, tag=tag)
for tag in (2, 1):
    for number in range(2):
        got = torch.empty(10)
        dist.recv(got, before, tag=tag)
        check(f"message {number} with tag {tag}", got, pattern(10, 10 * tag + number))

# Rank 0 takes what comes.
if rank == 0:
    seen = []
    for _ in range(size - 1):
        got = torch.empty(5, dtype=torch.int64)
        source = dist.recv(got)
        check(f"from rank {source}", got, pattern(5, source, torch.int64))
        seen.append(source)
    check("each rank once", sorted(seen), list(range(1, size)))
else:
    dist.send(pattern(5, rank, torch.int64), 0)
dist.barrier()

got = torch.zeros(4, 6)[:, ::2]
works = dist.batch_isend_irecv(
    [
        dist.P2POp(dist.isend, pattern(24, rank).view(4, 6)[:, ::2], after),
        dist.P2POp(dist.irecv, got, before),
    ]
)
for work in works:
    work.wait()
check("tensors with gaps", got, pattern(24, before).view(4, 6)[:, ::2])

sent = [{"rank": rank}, "x" * 1000]
received = [None, None]
if rank % 2 == 0:
    dist.send_object_list(sent, after)
    dist.recv_object_list(received, before)
else:
    dist.recv_object_list(received, before)
    dist.send_object_list(sent, after)
check("objects", received, [{"rank": before}, "x" * 1000])

# Collectives between the halves of an exchange.
got = torch.empty(100_000)
receiving = dist.irecv(got, before, tag=5)
total = torch.ones(3)
dist.all_reduce(total)
check("a sum while a message is awaited", total, torch.full((3,), float(size)))
sending = dist.isend(pattern(100_000, rank), after, tag=5)
dist.all_reduce(total)
receiving.wait()
sending.wait()
check("a message across two sums", got, pattern(100_000, before))
finish()
