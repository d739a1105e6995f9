# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of calls on several groups that share ranks: sequences.py COUNT SEED

All ranks draw the same sequence, and each rank decides by itself what it waits for and when. Sequence N of a
seed is the same for every COUNT.
"""

from __future__ import annotations

import random
import sys
import time
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
# For calls in callbacks. Callbacks of different calls run in any order, so there is one such call at a time.
in_callbacks = [dist.new_group(ranks, backend="offbeat") for ranks in members]
own = random.Random()
LENGTHS = (1, 3, 17, 1000, 5000, 70_000)


def values(length: int, of_rank: int, salt: int) -> torch.Tensor:
    return ((torch.arange(length) * (of_rank + 2) + salt) % 9).to(torch.float32)


class Pending:
    """A call under way, and what has to come out."""

    def __init__(self, what: str, work: Any, results: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.what, self.works, self.results = what, [work] if work is not None else [], results
        self.future: Any = None

    def complete(self) -> None:
        if self.future is not None:
            self.future.wait()
            self.results.append((self.future.value(), self.results.pop()[1]))
        own.shuffle(self.works)
        for work in self.works:
            if own.random() < 0.3:
                work.get_future().wait()
            else:
                work.wait()
        for got, want in self.results:
            check(self.what, got, want)


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
    pending = Pending("message", None, [(got, values(length, source, salt))])
    sending = dist.isend(values(length, rank, salt), to, group=group, tag=salt % 3)
    pending.works = [sending, dist.irecv(got, source, group=group, tag=salt % 3)]
    return pending


def nested(group: Any, ranks: list[int], length: int, salt: int, later: bool) -> Pending:
    """A sum, and in its callback a sum of the sums on another group."""
    outer = all_reduce(group, ranks, length, salt, later=True)
    inner_group = in_callbacks[groups.index(group)]
    inner_later = own.random() < 0.5

    def again(future: Any) -> torch.Tensor:
        inner = future.value()[0].clone()
        work = dist.all_reduce(inner, group=inner_group, async_op=inner_later)
        if inner_later:
            work.wait()
        return inner

    outer.future = outer.works.pop().get_future().then(again)
    ((_, total),) = outer.results
    outer.what, outer.results = "a sum in a callback", [(total, total * len(ranks))]
    return outer


CALLS: tuple[Callable[..., Pending], ...] = (
    all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, reduce, barrier, message, nested,
)  # fmt: skip


def sequence(number: int) -> None:
    shared = random.Random(f"{seed} {number}")
    own.seed(f"{seed} {number} {rank}")
    pending: list[Pending] = []
    callbacks: list[Pending] = []
    for _ in range(shared.randint(2, 12)):
        which = shared.randrange(len(groups))
        call, length, salt = shared.choice(CALLS), shared.choice(LENGTHS), shared.randrange(100)
        if rank not in members[which]:
            continue
        if call is nested and callbacks:
            callbacks.pop().complete()
        begun = call(groups[which], members[which], length, salt, own.random() < 0.6)
        begun.what = f"seed {seed}, sequence {number}, {begun.what} of {length}"
        (callbacks if call is nested else pending).append(begun)
        if pending and own.random() < 0.3:
            pending.pop(own.randrange(len(pending))).complete()
    pending += callbacks
    own.shuffle(pending)
    for each in pending:
        each.complete()


began = time.monotonic()
for number in range(count):
    sequence(number)
if rank == 0:
    print(f"{count} sequences with seed {seed} on {size} ranks: {time.monotonic() - began:.1f} s", flush=True)
finish()
