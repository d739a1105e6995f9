# SPDX-License-Identifier: BSD-3-Clause
"""Rank 1 is killed, on a host of its own or beside others. Every other rank prints what it got, and when."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
from rank import start

rank, size = start(timeout_s=60)
for name, length in (("short", 10), ("long", 300_000)):
    dist.all_reduce(torch.ones(length))
    print(f"{name} before: right", flush=True)
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
try:
    dist.all_reduce(torch.ones(10))
    text = "no error"
except Exception as error:
    text = str(error)
print(f"killed: {time.monotonic() - began:.1f} s: {text}", flush=True)
os._exit(0)
