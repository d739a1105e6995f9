# SPDX-License-Identifier: BSD-3-Clause
"""Trains a model several times while random delays make other ranks late; prints hashes of the weights.

    torchrun --standalone --nproc-per-node 4 reproducible.py

Every run starts from the same weights and data. `--buckets` also changes how DDP cuts the gradients into
buckets. If a backend's order of adding depends on the place in the message, the weights then differ.
"""

import argparse
import hashlib
import random
import time

import offbeat.torch  # noqa: F401  # makes the backend known
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BUCKETS_KIB = (1024, 256, 128, 64, 32)


def trained(group: dist.ProcessGroup, steps: int, late_ms: float, bucket_kib: int) -> str:
    """Train once. Returns a hash of the weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=bucket_kib / 1024)
    optimiser = torch.optim.SGD(ddp.parameters(), 0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    inputs = torch.randn(32, 64, generator=generator)
    labels = torch.randint(0, 10, (32,), generator=generator)
    for _ in range(steps):
        time.sleep(random.uniform(0, late_ms) / 1e3)
        optimiser.zero_grad()
        nn.functional.cross_entropy(ddp(inputs), labels).backward()
        optimiser.step()
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    return hashlib.sha256(weights).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", default="gloo,offbeat")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--late-ms", type=float, default=5.0, help="the latest that a rank is in a step")
    parser.add_argument("--buckets", action="store_true", help="another bucket_cap_mb in every run")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    for backend in arguments.backends.split(","):
        group = dist.new_group(backend=backend)
        found = set()
        for run in range(arguments.runs):
            bucket_kib = BUCKETS_KIB[run % len(BUCKETS_KIB)] if arguments.buckets else BUCKETS_KIB[0]
            hashes = [""] * ranks
            dist.all_gather_object(hashes, trained(group, arguments.steps, arguments.late_ms, bucket_kib))
            found.update(hashes)
            if dist.get_rank() == 0:
                buckets = f", buckets of {bucket_kib} KiB" if arguments.buckets else ""
                equal = "equal" if len(set(hashes)) == 1 else "DIFFERENT"
                line = f"{backend} run {run}{buckets}: weights {hashes[0]}, {equal} on {ranks} ranks"
                print(line, flush=True)
        if dist.get_rank() == 0:
            print(f"{backend}: {len(found)} different result(s) in {arguments.runs} runs", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
