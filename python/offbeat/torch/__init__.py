# SPDX-License-Identifier: BSD-3-Clause
"""Registers the backend ``offbeat`` of torch.distributed, for CPU tensors on one machine.

    import offbeat.torch
    torch.distributed.init_process_group("offbeat")

It needs no MPI. With torch 2.14 and later the import is not needed.
"""

from __future__ import annotations

import atexit
import datetime
import functools
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.distributed as dist

from offbeat.torch import _mpirun
from offbeat.torch._hook import allreduce_hook

__all__ = ["allreduce_hook", "register"]

BACKEND = "offbeat"


@functools.cache
def _extension() -> ModuleType:
    from offbeat.torch import _build

    atexit.register(_leave_all, os.getpid())
    return _build.load()


def _leave_all(process: int) -> None:
    """End what is under way while Python still runs, because callbacks may be written in Python."""
    if os.getpid() != process:  # the child of a fork has none of this
        return
    _extension().leave_all()


def _node() -> str:
    """Identifies this boot of this machine. Processes on one machine get the same value."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _require_one_node(store: Any, rank: int, size: int) -> None:
    store.set(f"offbeat/node/{rank}", _node())
    for other in range(size):
        theirs = store.get(f"offbeat/node/{other}").decode()
        if theirs != _node():
            raise RuntimeError(
                f"offbeat: ranks {rank} and {other} are on different machines, and this backend connects "
                "ranks of one machine; keep gloo or nccl for this group"
            )


def _create(options: Any, _: Any) -> Any:
    rank, size = options.group_rank, options.group_size
    _require_one_node(options.store, rank, size)
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=float(timeout))
    return _extension().make(options.store, rank, size, timeout)


def register() -> None:
    """Make the backend known to torch. A second call does nothing."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
    _mpirun.set_torch_variables(os.environ)


register()
