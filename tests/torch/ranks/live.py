# SPDX-License-Identifier: BSD-3-Clause
"""A training that can be looked at: live.py sync|async|ddp late|hang SECONDS.

Rank 1 is late in each step. It computes meanwhile, or from step 20 on it sleeps for the rest of the time.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from rank import check, finish, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel

way, what, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
rank, size = start()
LATE_S = 0.03


def load_batch(step: int) -> None:
    """Fetch the data of a step."""
    if rank == 1 and what == "hang" and step == 20:
        time.sleep(seconds)
    until = time.perf_counter() + LATE_S * rank
    while time.perf_counter() < until:
        pass


model: nn.Module = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
if way == "ddp":
    model = DistributedDataParallel(model, bucket_cap_mb=0.05)
data = torch.randn(32, 64)
goes_on = torch.ones(1)
step, end = 0, time.monotonic() + seconds
while goes_on.item() > 0:
    step += 1
    load_batch(step)
    model(data).sum().backward()
    gradients = [each.grad for each in model.parameters()]
    if way == "sync":
        for each in gradients:
            dist.all_reduce(each)
    elif way == "async":
        for work in [dist.all_reduce(each, async_op=True) for each in gradients]:
            work.wait()
    model.zero_grad()
    if step % 10 == 0:
        goes_on.fill_(float(time.monotonic() < end))
        dist.all_reduce(goes_on, op=dist.ReduceOp.MIN)
check("the last step is one after which the ranks agree", step % 10, 0)
finish()
