# SPDX-License-Identifier: BSD-3-Clause
"""What all programs of the ranks share: start, checks, and the line with the count."""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any

import offbeat.torch  # registers the backend
import torch
import torch.distributed as dist

_checks = 0
_wrong: list[str] = []


def start(backend: str = "offbeat", timeout_s: float = 120) -> tuple[int, int]:
    torch.set_num_threads(1)
    if ranks_of_node := os.environ.get("OFFBEAT_NODE_RANKS"):  # they count as machines
        machine = f"machine {int(os.environ['RANK']) // int(ranks_of_node)}"
        offbeat.torch._node = lambda: machine
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout_s))
    return dist.get_rank(), dist.get_world_size()


def check(what: str, got: Any, want: Any) -> None:
    """Count a check, and note it if the values or the types differ."""
    global _checks
    _checks += 1
    if isinstance(got, torch.Tensor):
        same = got.dtype == want.dtype and got.shape == want.shape and torch.equal(raw(got), raw(want))
    else:
        same = got == want
    if not same:
        _wrong.append(f"{what}: {str(got)[:200]} instead of {str(want)[:200]}")


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the elements, in their order."""
    elements = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return elements.copy_(tensor.detach().flatten()).view(torch.uint8)


def finish(*, destroy: bool = True) -> None:
    """End with a count, or with the first differences."""
    for line in _wrong[:5]:
        print(f"rank {os.environ['RANK']}: {line}", file=sys.stderr, flush=True)
    print(f"rank {os.environ['RANK']}: {_checks} checks, {len(_wrong)} wrong", flush=True)
    if destroy:
        dist.destroy_process_group()
    sys.exit(1 if _wrong else 0)
