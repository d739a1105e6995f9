# SPDX-License-Identifier: BSD-3-Clause
"""Rank 1 cuts its host off, or stops for a while. Every other rank prints what it got, and when.

out_of_reach.py unplugged|stopped short|long
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from rank import start

how, length = sys.argv[1], {"short": 10, "long": 3_000_000}[sys.argv[2]]
STOP_S = 4
if how == "stopped" and (child := os.fork()) != 0:  # or what has started the rank would stop, too
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
rank, size = start(timeout_s=60)
dist.all_reduce(torch.ones(length))
dist.barrier()
began = time.monotonic()
if rank == 1:
    if how == "unplugged":
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
        time.sleep(8)
        os._exit(0)
    with subprocess.Popen(["sh", "-c", f"sleep {STOP_S}; kill -CONT {os.getpid()}"]):
        os.kill(os.getpid(), signal.SIGSTOP)
try:
    result = torch.ones(length)
    dist.all_reduce(result)
    text = "right" if torch.all(result == size) else "wrong"
except Exception as error:
    text = str(error)
print(f"{how}: {time.monotonic() - began:.1f} s: {text}", flush=True)
os._exit(0)
