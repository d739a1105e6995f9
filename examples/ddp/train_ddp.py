# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training with torch: DistributedDataParallel over the backend offbeat.

    torchrun --standalone --nproc-per-node 4 train_ddp.py

`--backend gloo` trains with gloo instead.
"""

import argparse
import hashlib

import offbeat.torch  # noqa: F401  # makes the backend known; torch 2.14 and later finds it without this
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def samples(rank: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random points of this rank. Their class is the sign pattern of two sums."""
    inputs = torch.randn(count, 64, generator=torch.Generator().manual_seed(rank))
    return inputs, 2 * (inputs[:, :32].sum(1) > 0).long() + (inputs[:, 32:].sum(1) > 0).long()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="offbeat")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    dist.init_process_group(arguments.backend)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4))
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimiser = torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)
    inputs, labels = samples(rank, 256)
    for step in range(arguments.steps):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(ddp(inputs), labels)
        loss.backward()
        optimiser.step()
        if rank == 0 and (step % 20 == 0 or step == arguments.steps - 1):
            print(f"step {step:4}  loss {loss.item():.6f}")
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    ranks = dist.get_world_size()
    hashes = [""] * ranks
    dist.all_gather_object(hashes, hashlib.sha256(weights).hexdigest()[:16])
    if rank == 0:
        print(f"weights {hashes[0]}, {'equal' if len(set(hashes)) == 1 else 'DIFFERENT'} on {ranks} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
