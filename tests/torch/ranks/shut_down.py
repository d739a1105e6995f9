# SPDX-License-Identifier: BSD-3-Clause
"""A group is shut down while a thread waits in it: shut_down.py STAND_IN wait|shutdown

STAND_IN is the library of stand_in.c.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import types

stand_in = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)

import offbeat.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

options = types.SimpleNamespace(store=dist.HashStore(), group_rank=0, group_size=1, timeout=20)
backend = offbeat.torch._create(options, None)
begun = dist.BarrierOptions()
begun.asyncOp = True
work = backend.barrier(begun)
waiter = threading.Thread(target=work.wait if sys.argv[2] == "wait" else backend.shutdown)
waiter.start()
while stand_in.are_waiting() == 0:
    time.sleep(0.001)
stand_in.end_call()
backend.shutdown()
print(f"freed {stand_in.times_freed()} times while a thread waits, ", end="")
stand_in.let_leave()
waiter.join()
print(f"{stand_in.times_freed()} afterwards, {stand_in.times_freed_too_early()} too early")
