# SPDX-License-Identifier: BSD-3-Clause
"""Compiled DDP, FSDP2, tensor parallel and functional collectives give the same bits as without a compiler.

The compiler is `aot_eager`, which makes the graphs that inductor makes, but no machine code.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from rank import check, finish, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

COMPILER = "aot_eager"

rank, size = start()
world = dist.group.WORLD
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
# The layer in the middle has 1 MiB. The compiler splits the graph where a bucket ends.
WIDTH = 516
FIRST = nn.Sequential(
    nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 12)
)
data = torch.randn(8, 12, generator=torch.Generator().manual_seed(rank))


def trained(model: Any) -> torch.Tensor:
    """The weights after two steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()
    weights = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()]
    return torch.cat([each.detach().flatten() for each in weights])


def data_parallel() -> Any:
    return DistributedDataParallel(copy.deepcopy(FIRST), bucket_cap_mb=1)


def sharded() -> Any:
    model = copy.deepcopy(FIRST)
    fully_shard(model[2], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def tensor_parallel() -> Any:
    return parallelize_module(copy.deepcopy(FIRST), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def collectives(mine: torch.Tensor) -> torch.Tensor:
    summed = functional.all_reduce(mine * 2, "sum", world)
    gathered = functional.all_gather_tensor(mine + summed, 0, world)
    scattered = functional.reduce_scatter_tensor(gathered * gathered, "avg", 0, world)
    exchanged = functional.all_to_all_single(gathered, None, None, world)
    sent = functional.broadcast(exchanged + 1, 0, world)
    both = functional.all_reduce_coalesced([mine, scattered], "max", world)
    return torch.cat([summed, gathered, scattered, exchanged, sent, *both])


for make in (data_parallel, sharded, tensor_parallel):
    usual = trained(make())
    model = make()
    model.compile(backend=COMPILER)
    check(make.__name__, trained(model), usual)
mine = torch.arange(64.0).view(8, 8) + rank
compiled = torch.compile(collectives, backend=COMPILER, fullgraph=True)
for number in range(3):
    check("functional collectives", compiled(mine + number), collectives(mine + number))
finish()
