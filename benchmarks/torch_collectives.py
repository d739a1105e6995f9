#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time torch's collectives on gloo and on offbeat, in turn in one job.

    build/torch-venv/bin/python benchmarks/torch_collectives.py [--ranks 2] [--sizes 4,1KiB] [--json [FILE]]

*sync* is `dist.all_reduce(tensor)`, *async* is `dist.all_reduce(tensor, async_op=True).wait()`, *deepspeed*
is what DeepSpeed calls for inference on the CPUs of one machine. Times are medians over the rounds, of the
slowest rank. Without torchrun the script starts the ranks itself.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import result_file
from offbeat.units import parse_size

SIZES = "4,64,1KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB"
WAYS = ("gloo sync", "offbeat sync", "gloo async", "offbeat async")
DEEPSPEED = "deepspeed sync"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--collectives", default="all_reduce,all_gather,reduce_scatter")
    parser.add_argument("--sizes", default=SIZES, help="bytes that each rank gives")
    parser.add_argument("--type", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--deepspeed", action="store_true", help="also all_reduce of DeepSpeed (from PyPI)")
    result_file.add_option(parser)
    return parser.parse_args()


def start_ranks(ranks: int) -> int:
    """Run this script in one process for each rank. Returns the greatest exit code."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared.setdefault("OMP_NUM_THREADS", "1")
    processes = [
        subprocess.Popen([sys.executable, *sys.argv], env=shared | {"RANK": str(rank)})
        for rank in range(ranks)
    ]
    return max(process.wait() for process in processes)


def prepare_deepspeed(ranks: int) -> None:
    """Make `torch.ops.deepspeed.inference_all_reduce_`. DeepSpeed compiles it when it is first used."""
    import torch.distributed as dist

    os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": str(ranks)}
    importlib.import_module("deepspeed").init_distributed()
    dist.barrier()
    # DeepSpeed would leave 66 MiB for each rank behind.
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK")
    name = "_".join(["deepspeed_allreduce_buffer", str(os.getuid()), *(os.environ[name] for name in names)])
    Path("/dev/shm", name).unlink(missing_ok=True)


def calls_of(collective: str, type_: str, size: int, ranks: int) -> Callable[[Any, bool], Any]:
    """A function that makes the call on a group. Without a group DeepSpeed makes it."""
    import torch
    import torch.distributed as dist

    dtype = getattr(torch, type_)
    elements = max(1, size // dtype.itemsize)
    mine = torch.zeros(elements, dtype=dtype)
    if collective == "all_reduce":
        return lambda group, later: (
            dist.all_reduce(mine, group=group, async_op=later)
            if group is not None
            else torch.ops.deepspeed.inference_all_reduce_(mine)
        )
    if collective == "all_gather":
        whole = torch.empty(elements * ranks, dtype=dtype)
        return lambda group, later: dist.all_gather_into_tensor(whole, mine, group=group, async_op=later)
    mine = torch.zeros(max(1, elements // ranks) * ranks, dtype=dtype)
    part = torch.empty(mine.numel() // ranks, dtype=dtype)
    return lambda group, later: dist.reduce_scatter_tensor(part, mine, group=group, async_op=later)


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    import offbeat.torch  # noqa: F401
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "offbeat")}
    if arguments.deepspeed:
        prepare_deepspeed(ranks)
    lines: list[dict[str, Any]] = []
    for collective in arguments.collectives.split(","):
        ways = (*WAYS, DEEPSPEED) if arguments.deepspeed and collective == "all_reduce" else WAYS
        for size in map(parse_size, arguments.sizes.split(",")):
            call = calls_of(collective, arguments.type, size, ranks)
            count = 200 if size <= 64 * 1024 else 40 if size <= 1024**2 else 5
            times: dict[str, list[float]] = {way: [] for way in ways}
            for round_ in range(arguments.rounds + 1):
                for way in ways:
                    name, kind = way.split()
                    group, later = groups.get(name), kind == "async"
                    dist.barrier(group=groups["gloo"])
                    started = time.perf_counter()
                    for _ in range(count):
                        work = call(group, later)
                        if later:
                            work.wait()
                    spent = torch.tensor([(time.perf_counter() - started) / count])
                    dist.all_reduce(spent, dist.ReduceOp.MAX, group=groups["gloo"])
                    if round_ > 0:  # the first one warms up
                        times[way].append(spent.item())
            medians = {way: statistics.median(times[way]) for way in ways}
            line = {"collective": collective, "size_bytes": size, "seconds": medians, "rounds_seconds": times}
            lines.append(line)
            if rank == 0:
                shown = "  ".join(f"{way} {medians[way] * 1e6:9.1f}" for way in ways)
                ratios = [medians[f"gloo {kind}"] / medians[f"offbeat {kind}"] for kind in ("sync", "async")]
                print(
                    f"{collective:15}{size:10} B  {shown} us  gloo/offbeat {ratios[0]:.2f} {ratios[1]:.2f}",
                    flush=True,
                )
    dist.destroy_process_group()
    return lines


def summary(lines: list[dict[str, Any]]) -> None:
    for collective in dict.fromkeys(line["collective"] for line in lines):
        for kind in ("sync", "async"):
            ratios = [
                line["seconds"][f"gloo {kind}"] / line["seconds"][f"offbeat {kind}"]
                for line in lines
                if line["collective"] == collective
            ]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            print(
                f"{collective} {kind}: gloo/offbeat {mean:.2f} in the geometric mean, least {min(ratios):.2f}"
            )


def main() -> int:
    arguments = parse()
    if "RANK" not in os.environ:
        return start_ranks(arguments.ranks)
    results = result_file.ResultFile(arguments.json if os.environ["RANK"] == "0" else None)
    lines = measure(arguments)
    if os.environ["RANK"] == "0":
        summary(lines)
        results.write(lines, ranks=int(os.environ["WORLD_SIZE"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
