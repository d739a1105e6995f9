# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong: failures.py CASE. Every rank prints the error that it got, and how long it took."""

from __future__ import annotations

import datetime
import functools
import os
import select
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import offbeat.torch
import torch
import torch.distributed as dist
from rank import start

case = sys.argv[1]
rank, size = start(timeout_s=60)


def say(line: str) -> None:
    """The line and its end go in one write, because other ranks may write to the same pipe."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def report(what: str, call: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        call()
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    say(f"{what}: {time.monotonic() - began:.1f} s: {text}")


def new_group(timeout_s: float = 60) -> Any:
    return dist.new_group(backend="offbeat", timeout=datetime.timedelta(seconds=timeout_s))


def calls(count: int, group: Any, later: bool) -> dict[str, Callable[[], Any]]:
    """A call of each kind. The root is rank 1 if data come from it, and rank 0 if they go there."""
    one, all_ = torch.ones(count), torch.ones(count * size)
    each = [torch.ones(count) for _ in range(size)]
    here, there = (each if rank == 0 else None), (each if rank == 1 else None)
    how = {"group": group, "async_op": later}
    return {
        "all_reduce": lambda: dist.all_reduce(one, **how),
        "broadcast": lambda: dist.broadcast(one, 1, **how),
        "reduce": lambda: dist.reduce(one, 0, **how),
        "all_gather": lambda: dist.all_gather(each, one, **how),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(all_, one, **how),
        "gather": lambda: dist.gather(one, here, 0, **how),
        "scatter": lambda: dist.scatter(one, there, 1, **how),
        "reduce_scatter": lambda: dist.reduce_scatter(one, each, **how),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one, all_, **how),
        "all_to_all": lambda: dist.all_to_all(each, [torch.ones(count) for _ in range(size)], **how),
        "all_to_all_single": lambda: dist.all_to_all_single(all_, torch.ones(count * size), **how),
    }


def reductions(op: Any, group: Any, later: bool) -> dict[str, Callable[[], Any]]:
    """A call of each kind that reduces."""
    one, all_ = torch.ones(10), torch.ones(10 * size)
    each = [torch.ones(10) for _ in range(size)]
    how = {"op": op, "group": group, "async_op": later}
    return {
        "all_reduce": lambda: dist.all_reduce(one, **how),
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([one], **how),
        "reduce": lambda: dist.reduce(one, 0, **how),
        "reduce_scatter": lambda: dist.reduce_scatter(one, each, **how),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one, all_, **how),
    }


def other_operations() -> None:
    """Rank 1 makes a sum of another kind, which offbeat itself carries out as a sum."""
    factor = dist._make_nccl_premul_sum(2.0)
    for what, other in (("AVG", dist.ReduceOp.AVG), ("PREMUL_SUM", factor)):
        for k, name in enumerate(reductions(other, None, False)):
            group, later = new_group(), k % 2 == 0
            call = reductions(other if rank == 1 else dist.ReduceOp.SUM, group, later)[name]
            report(f"{what} {name}", functools.partial(wait_and_meet, call, group, later))


def wait_and_meet(call: Callable[[], Any], group: Any, later: bool) -> None:
    """A rank that needs no other may end the call before it can fail, but not the barrier after it."""
    work = call()
    if later:
        work.wait()
    dist.barrier(group=group)


def unequal() -> None:
    """In each kind of call rank 1 has one element more."""
    for later in (False, True):
        for name in calls(0, None, later):
            group = new_group()
            call = calls(1000 + (rank == 1), group, later)[name]
            meet = functools.partial(wait_and_meet, call, group, later)
            report(f"unequal {name}{', begun' * later}", meet)
    group = new_group()
    mine = torch.ones(1000 + (rank == 1))
    if rank == 1:
        report("a message that is too long", lambda: dist.send(mine, 0, group=group))
    elif rank == 0:
        report("a message that is too long", lambda: dist.recv(mine, 1, group=group))


def make_and_meet(options: types.SimpleNamespace) -> None:
    backend = offbeat.torch._create(options, None)
    backend.barrier(dist.BarrierOptions()).wait()


def twice() -> None:
    """Two groups on one store. Rank 0 is early, and must not take what the others said the first time."""
    options = types.SimpleNamespace(
        store=dist.PrefixStore("twice", dist.distributed_c10d._get_default_store()),
        group_rank=rank, group_size=size, timeout=20,
    )  # fmt: skip
    for late_s in (0, 0.5):
        time.sleep(late_s if rank > 0 else 0)
        report("twice", lambda: make_and_meet(options))


def left() -> None:
    """Rank 1 destroys a group, which it keeps, and the others call without it."""
    for used in ("not used", "used"):
        group = new_group()
        if used == "used":
            dist.barrier(group=group)
        if rank == 1:
            dist.destroy_process_group(group)
            backend = group._get_backend(torch.device("cpu"))
            report(f"destroyed, {used}", lambda: backend.barrier(dist.BarrierOptions()).wait())  # noqa: B023
        else:
            report(f"left, {used}", lambda: dist.barrier(group=group))  # noqa: B023
        dist.barrier()


def unequal_sparse() -> None:
    """Sparse tensors may have other elements on each rank, but not another shape, type or operation."""
    group = new_group()
    one, other = (4, 3), (3, 4)
    for what, shape, dtype, op in (
        ("shapes", one if rank == 0 else other, torch.float32, dist.ReduceOp.SUM),
        ("dimensions", one if rank == 0 else (*one, 2), torch.float32, dist.ReduceOp.SUM),
        ("types", one, torch.float32 if rank == 0 else torch.float64, dist.ReduceOp.SUM),
        ("operations", one, torch.float32, dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.AVG),
    ):
        places = torch.zeros(len(shape), 1, dtype=torch.int64)
        mine = torch.sparse_coo_tensor(places, torch.ones(1, dtype=dtype), shape)
        report(f"sparse {what}", lambda: dist.all_reduce(mine, group=group, op=op))  # noqa: B023
    report("after sparse", lambda: dist.barrier(group=group))


def set_timeout() -> None:
    group = new_group()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_timeout_of = getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)
        set_timeout_of(datetime.timedelta(seconds=1), group)
    if rank == size - 1:
        time.sleep(2)
    report("new timeout", lambda: dist.barrier(group=group))


def ended() -> None:
    """Rank 1 ends, and the others call without it."""
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        raise SystemExit(7)
    report("ended", lambda: dist.all_reduce(torch.ones(10)))


def killed(later: bool) -> None:
    """Rank 1 is killed. How long the others take counts from when the system says so."""
    store = dist.distributed_c10d._get_default_store()
    names = [*calls(0, None, later), "barrier", "send", "recv"] if later else ["all_reduce"]
    groups = {name: new_group() for name in names}
    dist.barrier()
    if rank == 1:
        store.set("process", str(os.getpid()))
        time.sleep(0.5 * later)
        os.kill(os.getpid(), signal.SIGKILL)
    process = os.pidfd_open(int(store.get("process")))
    died_at: list[float] = []

    def watch() -> None:
        select.select([process], [], [])
        died_at.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    big = torch.ones(300_000)
    begun = {
        "barrier": lambda: dist.barrier(group=groups["barrier"], async_op=True),
        "send": lambda: dist.isend(big, 1, group=groups["send"]),
        "recv": lambda: dist.irecv(torch.empty_like(big), 1, group=groups["recv"]),
    }
    works = {
        name: (begun.get(name) or calls(100_000, groups[name], later)[name])() for name in names if later
    }
    for name, group in groups.items():
        text = "no error"
        try:
            works[name].wait() if later else calls(10, group, later)[name]()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        ended_at = time.monotonic()
        watcher.join()
        say(f"killed, {name}: {max(ended_at - died_at[0], 0):.1f} s: {text}")
    # torchft and others go on with those that are left.
    left = dist.PrefixStore("left", store)
    options = types.SimpleNamespace(store=left, group_rank=rank // 2, group_size=2, timeout=20)
    backend, mine = offbeat.torch._create(options, None), torch.ones(10)
    backend.allreduce([mine], dist.AllreduceOptions()).wait()
    say(f"sum of those that are left: {mine.sum():.0f}")


def errors() -> None:
    """One after the other. Each has a group of its own, which it ruins."""
    group = new_group()
    report("lengths", lambda: dist.all_reduce(torch.ones(1000 + (rank == 1)), group=group))
    report("after an error", lambda: dist.barrier(group=group))
    group = new_group()
    mine = torch.ones(10)
    if rank == 1:
        report("kinds", lambda: dist.broadcast(mine, 0, group=group))
    else:
        report("kinds", lambda: dist.all_reduce(mine, group=group))
    group = new_group(1)
    if rank == size - 1:
        time.sleep(2)
    report("late", lambda: dist.all_reduce(mine, group=group))
    group = new_group(1)
    if rank == size - 1:
        time.sleep(2)
    report("late, begun", lambda: dist.all_reduce(mine, group=group, async_op=True).wait())
    group = new_group(1)
    if rank == 0:
        report("no message", lambda: dist.recv(mine, 1, group=group))
    group = new_group()
    dist.barrier()
    if rank == 1:
        group._get_backend(torch.device("cpu")).abort()
    report("given up", lambda: dist.barrier(group=group))


if case == "errors":
    errors()
    unequal()
    other_operations()
    unequal_sparse()
    set_timeout()
    left()
    twice()
    ended()
elif case == "errors-on-nodes":  # where calls that differ from node to node are not compared
    errors()
elif case in ("killed", "killed-begun"):
    killed(case == "killed-begun")
