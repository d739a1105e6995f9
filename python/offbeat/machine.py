# SPDX-License-Identifier: BSD-3-Clause
"""The machine that the tool runs on: its cores, and whether a scheduler assigns them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Variables that batch systems set. In a batch job, the cores of this host do not say how many ranks fit.
_BATCH_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "FLUX_JOB_ID")


def cpus() -> int:
    """The number of hardware threads that this process may use."""
    return len(os.sched_getaffinity(0))


def cores() -> int:
    """The number of physical cores that this process may use. Open MPI counts them as slots."""
    seen = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            seen.add(((topology / "physical_package_id").read_text(), (topology / "core_id").read_text()))
        except OSError:
            return cpus()
    return len(seen)


def all_cores() -> int:
    """The number of physical cores of this machine, including those that this process may not use."""
    seen = set()
    for topology in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        try:
            seen.add(((topology / "physical_package_id").read_text(), (topology / "core_id").read_text()))
        except OSError:
            continue
    return len(seen) or os.cpu_count() or 1


def load() -> float:
    """How many processes wanted a core in the last minute, on average. 0 if nobody knows."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def overload_warning() -> str | None:
    """A line if far more processes want cores than there are. None: there are enough.

    The load is a mean over a minute, so a measurement that has just ended counts, too.
    """
    wanting, there = load(), os.cpu_count() or 1
    if wanting <= 2 * there:
        return None
    return (
        f"the load of this host is {wanting:.1f}, more than twice its {there} CPU{'s' if there > 1 else ''}"
    )


def in_batch_job(environment: Mapping[str, str]) -> bool:
    """Whether a scheduler decides where ranks go, not the cores of this host."""
    return any(name in environment for name in _BATCH_VARIABLES)


def default_rank_count(environment: Mapping[str, str]) -> int | None:
    """How many ranks a program has if the user does not say: one for each core, as Open MPI's mpirun starts.

    None: a scheduler says how many, and the launcher asks it.
    """
    return None if in_batch_job(environment) else cores()


def description() -> dict[str, str | int]:
    """The facts about this machine that a result file holds."""
    here = os.uname()
    model = here.machine
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "host": here.nodename,
        "processor": model,
        "cpus": cpus(),
        "cores": cores(),
        "system": here.release,
    }


class Fingerprint(NamedTuple):
    """The nodes and the MPI that stored rules are for. A calibrated machine file has them, too."""

    processor: str
    cores: int
    mpi: str
    version: str

    def __str__(self) -> str:
        from offbeat.units import format_count

        return f"{self.mpi} {self.version} on {format_count(self.cores, 'core')} of {self.processor}"

    @property
    def filename(self) -> str:
        """The name of the file: readable, and different for each fingerprint."""
        import hashlib  # only for those who have stored rules

        digest = hashlib.sha256(json.dumps(self._asdict()).encode()).hexdigest()[:8]
        return f"{_file_name_part(self.mpi)}-{_file_name_part(self.version)}-{digest}.rules"


def _file_name_part(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "", text.lower())


def fingerprint(mpi: str, version: str) -> Fingerprint:
    """The fingerprint of this machine with an MPI."""
    here = description()
    return Fingerprint(str(here["processor"]), all_cores(), mpi, version)
