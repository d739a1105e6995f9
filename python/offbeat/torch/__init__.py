# SPDX-License-Identifier: BSD-3-Clause
"""Registers the backend ``offbeat`` of torch.distributed, for CPU tensors.

    import offbeat.torch
    torch.distributed.init_process_group("offbeat")

It needs no MPI. With torch 2.14 and later the import is not needed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime
import functools
import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.distributed as dist

from offbeat.torch import _mpirun, _timeouts
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
    """Identifies what shares memory with this process. Containers of one machine differ."""
    name = os.uname().nodename
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{name} {boot} {os.stat('/proc/self/ns/pid').st_ino}"
    return name


def _is_preloaded() -> bool:
    return hasattr(ctypes.CDLL(None), "offbeat_group_make")


def _start_mpi_between_nodes(store: Any, rank: int, size: int) -> None:
    """Under MPI, start it if it has several nodes to connect, unless the user wants another network."""
    if os.environ.get("OFFBEAT_NETWORK", "").startswith(("tcp", "libfabric")):
        return
    store.set(f"node/{rank}", _node())
    nodes = {store.get(f"node/{other}").decode() for other in range(size)}
    if len(nodes) > 1 and _is_preloaded():
        with contextlib.suppress(ImportError, RuntimeError):
            importlib.import_module("mpi4py.MPI")


def _with_own_keys(store: Any, rank: int) -> Any:
    """The store with a prefix that no earlier group has used, not even one that could not be made.

    The prefix is the number of groups that this rank has made. All ranks make equally many.
    """
    number = store.add(f"offbeat/groups/{rank}", 1)
    return dist.PrefixStore(f"offbeat/{number}", store)


def _require_no_options(pg_options: Any) -> None:
    """Fail if the program passes ``pg_options`` for CPU tensors.

    torch gives all backends of a group the same object, so it may be meant for the backend of a GPU.
    """
    if pg_options is None or getattr(pg_options, "backend", BACKEND) not in (BACKEND, "gloo", "mpi"):
        return
    raise RuntimeError(
        "offbeat: this backend takes no pg_options; leave them out, and give the time limit of calls as "
        "`timeout` of init_process_group or new_group"
    )


def _create(options: Any, pg_options: Any) -> Any:
    _require_no_options(pg_options)
    rank, size = options.group_rank, options.group_size
    store = _with_own_keys(options.store, rank)
    _start_mpi_between_nodes(store, rank, size)
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=float(timeout))
    return _extension().make(store, rank, size, timeout)


def register() -> None:
    """Make the backend known to torch. A second call does nothing."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
    _timeouts.reach(BACKEND)
    _mpirun.set_torch_variables(os.environ)


register()
