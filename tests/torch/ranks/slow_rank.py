# SPDX-License-Identifier: BSD-3-Clause
"""Training with DDP or FSDP2 in which one rank is late: slow_rank.py ddp|fsdp2 sleep|busy RANK MS STEPS.

From step STEPS / 4 on the rank is late before each step. Every rank prints when it was ready for the
first call of the step, because on a busy machine the rank is later than it wants to be.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from rank import check, finish, start
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

way, how, late_rank, late_ms, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
rank, size = start()


def be_late() -> None:
    until = time.perf_counter() + late_ms / 1e3
    if how == "sleep":
        time.sleep(late_ms / 1e3)
    while time.perf_counter() < until:
        pass


torch.manual_seed(0)
layers = [
    nn.Linear(64, 256),
    nn.ReLU(),
    nn.Linear(256, 256),
    nn.ReLU(),
    nn.Linear(256, 4),
]
model: nn.Module = nn.Sequential(*layers)
if way == "ddp":
    model = DistributedDataParallel(model, bucket_cap_mb=0.1)
else:
    mesh = dist.DeviceMesh.from_group(dist.group.WORLD, "cpu")
    for layer in layers:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data, labels = torch.randn(32, 64), torch.randint(0, 4, (32,))
ready = []
for step in range(1, steps + 1):
    if rank == late_rank and step > steps // 4:
        be_late()
    optimizer.zero_grad()
    ready.append(time.monotonic())
    loss = nn.functional.cross_entropy(model(data), labels)
    if way == "ddp":  # its first call is in the backward pass
        ready[-1] = time.monotonic()
    loss.backward()
    optimizer.step()
print("ready:", *ready, flush=True)
check("the loss is a number", bool(torch.isfinite(loss)), True)
finish()
