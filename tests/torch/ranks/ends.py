# SPDX-License-Identifier: BSD-3-Clause
"""Ends without destroying anything: ends.py CASE"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from rank import start

case = sys.argv[1]
rank, size = start()
group = dist.new_group(backend="offbeat")
tensor = torch.ones(1000)
dist.all_reduce(tensor, group=group)

if case == "idle":
    pass
elif case == "waited":
    dist.all_reduce(tensor, async_op=True).wait()
elif case == "under-way":
    # Rank 0 leaves while calls with callbacks in Python wait for the others.
    def never(future: Any) -> None:
        print(f"callback on rank {rank}", flush=True)

    kept = [
        dist.all_reduce(tensor, async_op=True).get_future().then(never) for _ in range(3 if rank == 0 else 0)
    ]
elif case == "fork":
    dist.barrier()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    dist.barrier()
elif case == "destroyed":
    work = dist.all_reduce(tensor, async_op=True)
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    assert work.is_completed()
    dist.init_process_group("offbeat", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=size)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
elif case == "dropped":
    # The last user of the group drops it in a callback of its last call.
    is_dropped = threading.Event()

    def drop(future: Any) -> None:
        global group
        dist.destroy_process_group(group)
        group = None
        is_dropped.set()

    time.sleep(0.2 * rank)  # rank 0 then adds its callback before the call is over
    dist.all_reduce(tensor, group=group, async_op=True).get_future().then(drop)
    assert is_dropped.wait(30)
print(f"rank {rank}: 1 checks, 0 wrong", flush=True)
