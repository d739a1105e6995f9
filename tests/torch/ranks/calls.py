# SPDX-License-Identifier: BSD-3-Clause
"""Futures, callbacks that communicate, Works that are dropped, and the errors of one rank's own call."""

from __future__ import annotations

import datetime
import gc
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from rank import check, finish, start

rank, size = start()


def ones(count: int = 4) -> torch.Tensor:
    return torch.ones(count)


def full(value: float, count: int = 4) -> torch.Tensor:
    return torch.full((count,), value)


def waits_for(future: Any) -> Any:
    future.wait()
    return future.value()


# A callback that waits for a collective by its Work, and one that waits by its future, as PowerSGD does.
def by_work(future: Any) -> torch.Tensor:
    inner = future.value()[0].clone()
    dist.all_reduce(inner, async_op=True).wait()
    return inner


def by_future(future: Any) -> torch.Tensor:
    inner = future.value()[0].clone()
    return dist.all_reduce(inner, async_op=True).get_future().wait()[0]


def synchronous(future: Any) -> torch.Tensor:
    inner = future.value()[0].clone()
    dist.all_reduce(inner)
    return inner


for callback in (by_work, by_future, synchronous):
    for count in (4, 100_000):
        future = dist.all_reduce(ones(count), async_op=True).get_future().then(callback)
        check(f"callback {callback.__name__} {count}", waits_for(future), full(float(size**2), count))

# Two groups whose callbacks communicate, begun in different orders on different ranks.
groups = [dist.new_group(backend="offbeat") for _ in range(2)]
for round_ in range(20):
    order = groups if (rank + round_) % 2 == 0 else groups[::-1]
    futures = []
    for group in order:

        def again(future: Any, group: Any = group) -> torch.Tensor:
            inner = future.value()[0].clone()
            dist.all_reduce(inner, group=group, async_op=True).wait()
            return inner

        futures.append(dist.all_reduce(ones(), group=group, async_op=True).get_future().then(again))
    for future in futures:
        check("callbacks of two groups", waits_for(future), full(float(size**2)))

# Many calls under way, waited for in the wrong order, or by polling.
works = [dist.all_reduce(full(float(k)), async_op=True) for k in range(50)]
for k in reversed(range(50)):
    works[k].wait()
    check("result()", works[k].result()[0], full(float(k * size)))
work = dist.all_reduce(ones(), async_op=True)
limit = time.monotonic() + 60
while not work.is_completed() and time.monotonic() < limit:
    time.sleep(0.001)
check("polling", (work.is_completed(), work.is_success()), (True, True))

# A rank that waits and a rank that does not make the same call.
for turn in range(2 * size):
    mine = ones(1000)
    if turn % size == rank:
        dist.all_reduce(mine)
    else:
        dist.all_reduce(mine, async_op=True).wait()
    check("waited for here, begun there", mine, full(float(size), 1000))

# Nobody keeps the Work or the tensor.
for count in (10, 200_000):
    dist.all_reduce(ones(count), async_op=True)
    gc.collect()
dist.barrier()

# Callbacks that shut down their group, which waits for all its calls, in several threads at once.
for _ in range(30):
    group = dist.new_group(backend="offbeat")
    backend = group._get_backend(torch.device("cpu"))
    works = [dist.all_reduce(ones(), group=group, async_op=True) for _ in range(4)]
    for work in works:
        work.get_future().then(lambda _, backend=backend: backend.shutdown())
    for work in works:
        work.wait()

# A thread for each group.
sums = [ones(3) for _ in groups]


def many(k: int) -> None:
    for _ in range(50):
        dist.all_reduce(sums[k], group=groups[k])
        sums[k].div_(size)


threads = [threading.Thread(target=many, args=(k,)) for k in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for each in sums:
    check("a thread for each group", each, ones(3))

# Leaves that need gradients, and tensors of inference mode.
leaf = torch.nn.Parameter(ones(6).view(2, 3).t())
dist.broadcast(leaf.detach(), 0)
with torch.no_grad():
    dist.all_reduce(leaf)
check("a parameter", leaf.detach(), full(float(size), 6).view(3, 2))
with torch.inference_mode():
    inference = torch.ones(3, 4).t()
    dist.all_reduce(inference, async_op=True).wait()
check("inference mode", inference, full(float(size), 12).view(4, 3))


# Each rank has other elements, and another number of them.
dense = [
    torch.diag(torch.arange(1.0, size + 2) * (torch.arange(size + 1) >= r) * (r + 1)) for r in range(size)
]
for op, factor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size)):
    for later in (False, True):
        sparse = dense[rank].to_sparse()
        work = dist.all_reduce(sparse, op, async_op=later)
        if later:
            work.wait()
        check(f"sparse {op} {later}", sparse.to_dense(), sum(dense) / factor)


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


on_cpu = dist.group.WORLD._get_backend(torch.device("cpu"))
# Errors in one rank's own call leave the group usable.
for what, call, word in (
    ("bitwise operation on floats", lambda: dist.all_reduce(ones(), dist.ReduceOp.BAND), "not defined on"),
    ("average of booleans", lambda: dist.all_reduce(ones() > 0, dist.ReduceOp.AVG), "boolean"),
    (
        "a maximum of sparse tensors",
        lambda: dist.all_reduce(ones().to_sparse(), dist.ReduceOp.MAX),
        "to_dense",
    ),
    ("another length", lambda: dist.all_gather_into_tensor(ones(7), ones(3)), "world_size times"),
    ("splits", lambda: dist.all_to_all_single(ones(6), ones(6), [1] * size, [1] * size), "Split sizes"),
    # torch itself hands no tensor of another device to this backend, so ask the backend.
    ("another device", lambda: on_cpu.allreduce([torch.ones(2, device="meta")]), "cuda:nccl"),
):
    text = error_of(call)
    check(what, word in text, True)
    if word not in text:
        check(what, text, word)
dist.barrier()

# The time limit of one wait() does not end the call.
if rank == 0:
    work = dist.barrier(async_op=True)
    text = error_of(lambda: work.wait(datetime.timedelta(milliseconds=50)))
    check("the limit of a wait", "rank 0" in text and "50 ms" in text, True)
    dist.send(ones(1), 1)
    work.wait()
else:
    if rank == 1:
        dist.recv(ones(1), 0)
    dist.barrier()
finish()
