# SPDX-License-Identifier: BSD-3-Clause
"""Lets torch before 2.15 set the timeout of a process group of offbeat.

Its ``_set_pg_timeout`` sets the timeout of gloo and NCCL only, and warns for any other backend. This module
replaces it with a function that asks offbeat's backend first. Later versions have ``set_timeout``, which asks
every backend.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import warnings
from typing import Any

import torch
import torch.distributed as dist

_MODULE: Any = getattr(dist, "distributed_c10d", None)


def _backend_of(group: Any, name: str) -> Any:
    """The backend for CPU tensors of a process group, if it is the one of that name; otherwise None."""
    with contextlib.suppress(RuntimeError, AttributeError):
        backend = group._get_backend(torch.device("cpu"))
        if backend.name() == name:
            return backend
    return None


def reach(name: str) -> None:
    """Let torch set the timeout of the backend with this name."""
    original = getattr(_MODULE, "_set_pg_timeout", None)
    if original is None or hasattr(dist, "set_timeout"):
        return

    @functools.wraps(original)
    def set_pg_timeout(timeout: datetime.timedelta, group: Any = None) -> None:
        backend = _backend_of(dist.group.WORLD if group is None else group, name)
        with warnings.catch_warnings():
            if backend is not None:
                backend.set_timeout(timeout)
                warnings.filterwarnings("ignore", "Set timeout is now only supported")
            original(timeout, group)

    _MODULE._set_pg_timeout = set_pg_timeout
