# SPDX-License-Identifier: BSD-3-Clause
"""DDP, FSDP2 and tensor parallel: equal to gloo to rounding, and to themselves bit for bit: training.py RUNS

DDP trains RUNS times while random delays make other ranks late.
"""

from __future__ import annotations

import copy
import random
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from offbeat.torch import allreduce_hook
from rank import check, finish, raw, start
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

rank, size = start()
gloo = dist.new_group(backend="gloo")
offbeat_group = dist.new_group(backend="offbeat")
delays = random.Random(rank)

torch.manual_seed(0)
FIRST = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
data = torch.randn(16, 32, generator=torch.Generator().manual_seed(rank))
labels = torch.randint(0, 10, (16,), generator=torch.Generator().manual_seed(rank))


def train(model: Any, steps: int = 4, late: bool = False) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(steps):
        if late:
            time.sleep(delays.random() * 0.02)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()


def weights(model: Any) -> torch.Tensor:
    parameters = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()]
    return torch.cat([each.detach().flatten() for each in parameters])


def data_parallel(
    group: Any, hook: Any = None, state: Any = None, late: bool = False, **options: Any
) -> torch.Tensor:
    model = DistributedDataParallel(
        copy.deepcopy(FIRST), process_group=group, **({"bucket_cap_mb": 0.01} | options)
    )
    if hook is not None:
        model.register_comm_hook(state() if state else group, hook)
    train(model, late=late)
    return weights(model)


def close(what: str, got: torch.Tensor, want: torch.Tensor) -> None:
    check(what, torch.allclose(got, want, rtol=1e-5, atol=1e-6), True)


def equal_on_all_ranks(what: str, mine: torch.Tensor) -> None:
    every = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(every, mine, group=gloo)
    for each in every:
        check(what, each, mine)


usual = data_parallel(gloo)
first = data_parallel(offbeat_group)
close("DDP, gloo and offbeat", first, usual)
if size == 2:
    check("DDP on two ranks, bit for bit", first, usual)
equal_on_all_ranks("DDP", first)
for _ in range(int(sys.argv[1])):
    check("DDP with random delays", data_parallel(offbeat_group, late=True), first)
close("gradient_as_bucket_view", data_parallel(offbeat_group, gradient_as_bucket_view=True), usual)
close("static_graph", data_parallel(offbeat_group, static_graph=True), usual)
close(
    "allreduce_hook in a model with gloo", data_parallel(gloo, allreduce_hook, lambda: offbeat_group), usual
)
half = data_parallel(offbeat_group, default_hooks.fp16_compress_hook)
check("fp16_compress_hook", torch.allclose(half, usual, atol=1e-2), True)
equal_on_all_ranks("fp16_compress_hook", half)
# One bucket: with more of them the order of PowerSGD's calls depends on the moment, with any backend.
power = data_parallel(
    offbeat_group,
    powerSGD_hook.powerSGD_hook,
    lambda: powerSGD_hook.PowerSGDState(offbeat_group, 1, start_powerSGD_iter=2),
    bucket_cap_mb=25,
)
equal_on_all_ranks("powerSGD_hook", power)


def sharded(backend: str, late: bool = False) -> torch.Tensor:
    # A mesh is over the default groups of the devices, so gloo gets one of its own.
    group = gloo if backend == "gloo" else offbeat_group
    mesh = dist.DeviceMesh.from_group(group, "cpu")
    model = copy.deepcopy(FIRST)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, late=late)
    return weights(model)


usual = sharded("gloo")
first = sharded("offbeat")
close("FSDP2, gloo and offbeat", first, usual)
equal_on_all_ranks("FSDP2", first)
check("FSDP2 with random delays", sharded("offbeat", late=True), first)

same = torch.randn(8, 32, generator=torch.Generator().manual_seed(7))
whole = copy.deepcopy(FIRST)(same)
outputs = []
for _ in range(2):
    mesh = init_device_mesh("cpu", (size,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallel = parallelize_module(copy.deepcopy(FIRST), mesh, plan)
    outputs.append(parallel(same).detach())
check("tensor parallel", torch.allclose(outputs[0], whole, atol=1e-5), True)
check("tensor parallel, bit for bit", raw(outputs[1]), raw(outputs[0]))
finish()
