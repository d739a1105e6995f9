# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of calls on several groups: sequences.py COUNT SEED

All ranks draw the same sequence, and each rank decides by itself what it waits for and when.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from rank import check, finish, start

rank, size = start()
count, seed = int(sys.argv[1]), int(sys.argv[2])

everyone = list(range(size))
members = [everyone, everyone, everyone[:2], everyone[-2:]]
groups = [dist.group.WORLD, *(dist.new_group(ranks, backend="offbeat") for ranks in members[1:])]
own = random.Random(f"{seed} {rank}")
LENGTHS = (1, 3, 17, 1000, 5000, 70_000)


def values(length: int, of_rank: int, salt: int) -> torch.Tensor:
    return ((torch.arange(length) * (of_rank + 2) + salt) % 9).to(torch.float32)


class Pending:
    """A call under way, and what has to come out."""

    def __init__(self, what: str, work: Any, results: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.what, self.work, self.results = what, work, results

    def complete(self) -> None:
        if self.work is not None:
            if own.random() < 0.3:
                self.work.get_future().wait()
            else:
                self.work.wait()
        for got, want in self.results:
            check(f"seed {seed}, {self.what}", got, want)


def all_reduce(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    mine = values(length, rank, salt)
    work = dist.all_reduce(mine, group=group, async_op=later)
    return Pending("all_reduce", work, [(mine, sum(values(length, r, salt) for r in ranks))])


def broadcast(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    root = ranks[salt % len(ranks)]
    mine = values(length, rank, salt)
    work = dist.broadcast(mine, root, group=group, async_op=later)
    return Pending("broadcast", work, [(mine, values(length, root, salt))])


def all_gather(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    lists = [torch.empty(length) for _ in ranks]
    work = dist.all_gather(lists, values(length, rank, salt), group=group, async_op=later)
    return Pending("all_gather", work, [(lists[k], values(length, r, salt)) for k, r in enumerate(ranks)])


def reduce_scatter(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    mine = torch.empty(length)
    whole = values(length * len(ranks), rank, salt)
    work = dist.reduce_scatter_tensor(mine, whole, group=group, async_op=later)
    total = sum(values(length * len(ranks), r, salt) for r in ranks)
    place = ranks.index(rank)
    return Pending("reduce_scatter", work, [(mine, total[place * length : (place + 1) * length])])


def all_to_all(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    whole = torch.empty(length * len(ranks))
    work = dist.all_to_all_single(whole, values(length * len(ranks), rank, salt), group=group, async_op=later)
    place = ranks.index(rank)
    parts = [values(length * len(ranks), r, salt)[place * length : (place + 1) * length] for r in ranks]
    return Pending("all_to_all", work, [(whole, torch.cat(parts))])


def reduce(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    root = ranks[salt % len(ranks)]
    mine = values(length, rank, salt)
    work = dist.reduce(mine, root, group=group, async_op=later)
    total = sum(values(length, r, salt) for r in ranks)
    return Pending("reduce", work, [(mine, total if rank == root else mine.clone())])


def barrier(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    return Pending("barrier", dist.barrier(group=group, async_op=later), [])


def message(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    place, among = ranks.index(rank), len(ranks)
    to, source = ranks[(place + 1) % among], ranks[(place - 1) % among]
    got = torch.empty(length)
    sending = dist.isend(values(length, rank, salt), to, group=group)
    receiving = dist.irecv(got, source, group=group)
    sending.wait()
    receiving.wait()
    return Pending("message", None, [(got, values(length, source, salt))])


CALLS: tuple[Callable[..., Pending], ...] = (
    all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, reduce, barrier, message,
)  # fmt: skip

for number in range(count):
    shared = random.Random(f"{seed} {number}")
    pending: list[Pending] = []
    for _ in range(shared.randint(2, 12)):
        which = shared.randrange(len(groups))
        call, length, salt = shared.choice(CALLS), shared.choice(LENGTHS), shared.randrange(100)
        if rank not in members[which]:
            continue
        pending.append(call(groups[which], members[which], length, salt, own.random() < 0.6))
        if own.random() < 0.3:
            pending.pop(own.randrange(len(pending))).complete()
    own.shuffle(pending)
    for each in pending:
        each.complete()
finish()
