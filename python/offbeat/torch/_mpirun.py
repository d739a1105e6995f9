# SPDX-License-Identifier: BSD-3-Clause
"""The variables that torchrun sets, for processes that mpirun has started."""

from __future__ import annotations

import os
import zlib
from collections.abc import MutableMapping

# The rank, the number of ranks, and both within the node, as Open MPI and the MPICH family name them.
LAUNCHERS = (
    tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def set_torch_variables(environment: MutableMapping[str, str]) -> None:
    """Set RANK and the others, unless somebody has set RANK already or no mpirun is known."""
    if "RANK" in environment:
        return
    for names in LAUNCHERS:
        if names[0] in environment and names[1] in environment:
            break
    else:
        return
    rank, size, local_rank, local_size = (environment.get(name) for name in names)
    assert rank is not None
    assert size is not None
    environment["RANK"] = rank
    environment["WORLD_SIZE"] = size
    if local_rank is not None and local_size is not None:
        environment["LOCAL_RANK"] = local_rank
        environment["LOCAL_WORLD_SIZE"] = local_size
    if local_size == size:  # on several nodes only the user knows which address the others can reach
        environment.setdefault("MASTER_ADDR", "127.0.0.1")
        environment.setdefault("MASTER_PORT", str(port_of_job(environment)))


def port_of_job(environment: MutableMapping[str, str]) -> int:
    """A port that all ranks of a job know, and jobs beside it probably do not use."""
    job = environment.get("PMIX_NAMESPACE") or str(os.getppid())
    return 20000 + zlib.crc32(f"{os.uname().nodename} {job}".encode()) % 10000
