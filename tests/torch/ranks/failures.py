# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong: failures.py CASE. Every rank prints the error that it got, and how long it took."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from rank import start

case = sys.argv[1]
rank, size = start(timeout_s=3 if case == "late" else 60)


def report(call: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        call()
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    print(f"{case}: {time.monotonic() - began:.1f} s: {text}", flush=True)


if case == "late":
    if rank == size - 1:
        time.sleep(5)
    report(lambda: dist.all_reduce(torch.ones(4)))
elif case == "late-begun":
    group = dist.new_group(timeout=datetime.timedelta(seconds=2), backend="offbeat")
    if rank == size - 1:
        time.sleep(4)
    report(lambda: dist.all_reduce(torch.ones(4), group=group, async_op=True).wait())
elif case == "mismatch":
    report(lambda: dist.all_reduce(torch.ones(1000 + (rank == 1))))
elif case == "mismatch-kinds":
    mine = torch.ones(10)
    report(lambda: dist.broadcast(mine, 0) if rank == 1 else dist.all_reduce(mine))
elif case == "killed":
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    report(lambda: dist.all_reduce(torch.ones(10)))
elif case == "killed-begun":
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    future = dist.all_reduce(torch.ones(100_000), async_op=True).get_future()
    report(lambda: future.wait())
elif case == "exception":
    # One rank's program fails between two steps, and the others are told.
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        raise SystemExit(7)
    report(lambda: dist.all_reduce(torch.ones(10)))
sys.stdout.flush()
