# SPDX-License-Identifier: BSD-3-Clause
"""Last delays of the collectives of SMPI, SimGrid's simulation of MPI programs (Debian: libsimgrid-dev)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from offbeat.simulate.simulation import Shape

SOURCE = Path(__file__).resolve().with_name("smpi_patterns.c")

# The machine "ethernet" as tests/smpi has it: each node's link has half of the latency each way.
_PLATFORM = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
<cluster id="cluster" prefix="n" radical="0-{last_node}" suffix="" speed="10Gf" core="{cores}" bw="1.25GBps"
 lat="1us" loopback_bw="1.25GBps" loopback_lat="1us"/></zone></platform>
"""
_OPTIONS = (
    "smpi/privatization:no", "network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
    "smpi/simulate-computation:no", "smpi/wtime:0", "surf/precision:1e-9", "smpi/async-small-thresh:65536",
    "smpi/send-is-detached-thresh:65536", "smpi/shared-malloc-blocksize:67108864",
)  # fmt: skip

Call = tuple[int, Sequence[float]]  # the bytes, and how many microseconds late each rank is


def is_installed() -> bool:
    return all(shutil.which(name) for name in ("smpicc", "smpirun"))


class Smpi:
    """SMPI with one number of nodes. ``folder`` gets the program and the files that smpirun leaves."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._folder = folder
        self._shape = shape
        platform = _PLATFORM.format(last_node=shape.nodes - 1, cores=shape.ranks_per_node)
        (folder / "platform.xml").write_text(platform)
        hosts = (f"n{node}:{shape.ranks_per_node}\n" for node in range(shape.nodes))
        (folder / "hosts").write_text("".join(hosts))
        compiler = ["smpicc", "-O2", str(SOURCE), "-o", str(folder / "smpi_patterns"), "-lm"]
        subprocess.run(compiler, check=True)

    def last_delays_us(
        self, collective: str, algorithm: str, calls: Sequence[Call], timeout_s: float = 1800
    ) -> list[float]:
        """The last delay of each call in microseconds."""
        lines = (f"{size} {' '.join(f'{late:.6f}' for late in lateness)}\n" for size, lateness in calls)
        (self._folder / "calls").write_text("".join(lines))
        options = [f"--cfg={option}" for option in (*_OPTIONS, f"smpi/{collective}:{algorithm}")]
        command = [
            "smpirun", "-np", str(self._shape.ranks), "-platform", "platform.xml", "-hostfile", "hosts",
            *options, "--log=root.thresh:warning", "./smpi_patterns", collective, "calls",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        found = [float(line) for line in done.stdout.splitlines()]
        if done.returncode != 0 or len(found) != len(calls):
            raise RuntimeError(f"SMPI, {collective} by {algorithm}:\n{done.stdout}{done.stderr}")
        return found
