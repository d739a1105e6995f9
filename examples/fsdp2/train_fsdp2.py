# SPDX-License-Identifier: BSD-3-Clause
"""Sharded training with torch: FSDP2 (fully_shard) over the backend offbeat.

    torchrun --standalone --nproc-per-node 4 train_fsdp2.py

`--backend gloo` trains with gloo instead.
"""

import argparse
import hashlib

import offbeat.torch  # noqa: F401  # makes the backend known; torch 2.14 and later finds it without this
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):  # type: ignore[misc]  # torch is not installed beside mypy
    """One layer of a transformer without attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.down(nn.functional.gelu(self.up(self.norm(inputs))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="offbeat")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(128) for _ in range(4)), nn.Linear(128, 10))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(1 + rank)
    inputs = torch.randn(64, 128, generator=generator)
    labels = inputs[:, :10].argmax(1)
    for step in range(arguments.steps):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimiser.step()
        if rank == 0 and (step % 10 == 0 or step == arguments.steps - 1):
            print(f"step {step:4}  loss {loss.item():.6f}")
    own = sum(each.to_local().numel() for each in model.parameters())
    whole = [each.full_tensor().detach() for each in model.parameters()]
    hashes = [""] * ranks
    digest = hashlib.sha256(b"".join(each.numpy().tobytes() for each in whole))
    dist.all_gather_object(hashes, digest.hexdigest()[:16])
    if rank == 0:
        print(f"rank 0 keeps {own:,} of {sum(each.numel() for each in whole):,} weights")
        print(f"weights {hashes[0]}, {'equal' if len(set(hashes)) == 1 else 'DIFFERENT'} on {ranks} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
