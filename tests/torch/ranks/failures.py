# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong: failures.py CASE. Every rank prints the error that it got, and how long it took."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from rank import start

case = sys.argv[1]
rank, size = start(timeout_s=60)


def report(what: str, call: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        call()
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    print(f"{what}: {time.monotonic() - began:.1f} s: {text}", flush=True)


def new_group(timeout_s: float = 60) -> Any:
    return dist.new_group(backend="offbeat", timeout=datetime.timedelta(seconds=timeout_s))


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
    dist.barrier()
    if rank == 1:  # the others have left their calls
        group._get_backend(torch.device("cpu")).abort()
    report("given up", lambda: dist.barrier(group=group))


if case == "errors":
    errors()
elif case == "killed":
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    report("killed", lambda: dist.all_reduce(torch.ones(10)))
elif case == "killed-begun":
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    future = dist.all_reduce(torch.ones(100_000), async_op=True).get_future()
    report("killed", lambda: future.wait())
elif case == "ended":
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        raise SystemExit(7)
    report("ended", lambda: dist.all_reduce(torch.ones(10)))
