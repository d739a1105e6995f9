# SPDX-License-Identifier: BSD-3-Clause
"""Times steps of training with torch DDP. paper_training.py starts one job of this for each model.

The ways to reduce the gradients take turns in one job: `none` does not reduce them, the others are backends,
with and without `gradient_as_bucket_view`. Every turn starts from the same weights.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import hashlib
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lateness

WARM_UP_STEPS = 2  # DDP forms its buckets anew after the first
BETWEEN_STEPS = (3, 200)
CONTROL = "gloo"  # what the ranks agree by, whatever is timed


def bind(rank: int, ranks: int) -> None:
    """Give each rank an equal part of the CPUs. Threads that start later inherit it."""
    cpus = sorted(os.sched_getaffinity(0))
    part = cpus[rank * len(cpus) // ranks : (rank + 1) * len(cpus) // ranks]
    os.sched_setaffinity(0, part or [cpus[rank % len(cpus)]])


def ways_of(backends: Sequence[str]) -> list[tuple[str, str | None, bool]]:
    """The name of each way, its backend, and whether gradients are views of the buckets."""
    ways: list[tuple[str, str | None, bool]] = [("none", None, False)]
    for backend in backends:
        ways += [(backend, backend, False), (f"{backend}, view", backend, True)]
    return ways


class Trainer:
    """One model and its data on this rank."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch
        import torch.distributed as dist

        import models

        self._arguments = arguments
        self._groups = {CONTROL: dist.group.WORLD}
        for backend in arguments.backends:
            if backend not in self._groups:
                self._groups[backend] = dist.new_group(backend=backend)
        torch.manual_seed(1)
        self.model = models.MODELS[arguments.model](arguments.image)
        self._start = {name: value.clone() for name, value in self.model.state_dict().items()}
        generator = torch.Generator().manual_seed(5 + dist.get_rank())
        shape = (arguments.batch, 3, arguments.image, arguments.image)
        self._images = torch.randn(*shape, generator=generator)
        self._labels = torch.randint(0, 10, (arguments.batch,), generator=generator)

    @property
    def parameters(self) -> int:
        return sum(each.numel() for each in self.model.parameters())

    def turn(self, backend: str | None, steps: int, *, view: bool = False) -> dict[str, Any]:
        """Train for some steps. Returns the times of one step, and a hash of the weights."""
        import torch
        import torch.distributed as dist
        from torch.nn.functional import cross_entropy
        from torch.nn.parallel import DistributedDataParallel

        gc.collect()  # the model of the turn before has hooks on the parameters
        self.model.load_state_dict(self._start)
        for parameter in self.model.parameters():
            parameter.grad = None
        group = self._groups[backend or CONTROL]
        ddp = DistributedDataParallel(self.model, process_group=group, gradient_as_bucket_view=view)
        optimiser = torch.optim.SGD(ddp.parameters(), 0.001)
        late = lateness.Lateness(self._arguments, dist.get_rank(), dist.get_world_size())

        def step() -> None:
            late.step()
            optimiser.zero_grad()
            with ddp.no_sync() if backend is None else contextlib.nullcontext():
                cross_entropy(ddp(self._images), self._labels).backward()
            optimiser.step()

        for _ in range(WARM_UP_STEPS):
            step()
        dist.barrier()
        started, cpu_started = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        wall = (time.perf_counter() - started) / steps
        cpu = (time.process_time() - cpu_started) / steps
        dist.barrier()
        weights = hashlib.sha256()
        for parameter in self.model.parameters():
            weights.update(parameter.detach().numpy())
        return {"wall_s": wall, "cpu_s": cpu, "weights": weights.hexdigest()[:12]}


def together(mine: dict[str, Any], *, reduces: bool) -> dict[str, Any]:
    """One turn of all ranks: the time of the slowest, and the mean of the processor time."""
    import torch.distributed as dist

    turns: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(turns, mine)
    weights = {each["weights"] for each in turns}
    if reduces and len(weights) > 1:
        raise RuntimeError(f"the ranks have different weights: {weights}")
    return {
        "wall_s": max(each["wall_s"] for each in turns),
        "cpu_s": statistics.fmean(each["cpu_s"] for each in turns),
        "weights": mine["weights"],
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    load = os.getloadavg()[0]
    trainer = Trainer(arguments)
    ways = ways_of(arguments.backends)
    tried = together(trainer.turn(None, 1), reduces=False)
    least, most = BETWEEN_STEPS
    steps = min(max(math.ceil(arguments.seconds / tried["wall_s"]), least), most)
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name, _, _ in ways}
    for number in range(arguments.rounds):
        first = number % len(ways)
        for name, backend, view in ways[first:] + ways[:first]:
            mine = trainer.turn(backend, steps, view=view)
            turns[name].append(together(mine, reduces=backend is not None))
    ranks = dist.get_world_size()
    return {
        "program": "torch DDP",
        "software": {"torch": torch.__version__},
        "model": arguments.model,
        "image": arguments.image,
        "batch": arguments.batch,
        "parameters": trainer.parameters,
        "ranks": ranks,
        "bound": arguments.bind,
        "late_ms": arguments.late_ms,
        "late_by": arguments.late_by,
        "late_rank": arguments.late_rank,
        "steps": steps,
        "load": [load, os.getloadavg()[0]],
        "ways": {
            name: {
                "images_per_s": [ranks * arguments.batch / each["wall_s"] for each in found],
                "cpu_ms": [1e3 * each["cpu_s"] for each in found],
                "weights": sorted({each["weights"] for each in found}),
            }
            for name, found in turns.items()
        },
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--image", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--backends", type=lambda names: names.split(","), required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    lateness.add_options(parser)
    parser.add_argument("--bind", action="store_true")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.bind:
        bind(int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if "offbeat" in arguments.backends:
        import offbeat.torch  # noqa: F401  # makes the backend known
    dist.init_process_group(CONTROL, timeout=datetime.timedelta(minutes=2))
    found = measure(arguments)
    if dist.get_rank() == 0:
        arguments.output.write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
