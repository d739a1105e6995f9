# SPDX-License-Identifier: BSD-3-Clause
"""Made-up MPI installations, so that nothing depends on the MPIs of the machine, and made-up results.

An installation is a prefix with a tiny libmpi that says whose it is, and an mpirun that prints what it is
given.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offbeat.bench.plan import Cell, Plan
from offbeat.bench.results import MEASURED, Benchmark, Result
from offbeat.units import parse_skew

VERSION_TEXTS = {
    "openmpi": "Open MPI v5.0.9, package: Open MPI builder@host Distribution, ident: 5.0.9",
    "openmpi6": "Open MPI v6.0.0a1, package: Open MPI builder@host Distribution, ident: 6.0.0a1",
    "mpich": "MPICH Version:      4.3.1\\nMPICH Release date: ...",
    "intel": "Intel(R) MPI Library 2021.18.1 for Linux* OS",
    "mvapich": "MVAPICH Version      :       4.0",
    "cray": "MPI VERSION    : CRAY MPICH version 8.1.29.27 (ANL base 3.4a2)",
}
SONAMES = {
    "openmpi": "libmpi.so.40",
    "openmpi6": "libmpi.so.40",
    "mpich": "libmpi.so.12",
    "intel": "libmpi.so.12",
    "mvapich": "libmpi.so.12",
    "cray": "libmpi_gnu_123.so.12",
}
LIBMPI_SOURCE = """
#include <string.h>
int MPI_Init(int* argc, char*** argv) { (void)argc; (void)argv; return 0; }
int MPI_Get_library_version(char* text, int* length) {
  strcpy(text, VERSION);
  *length = (int)strlen(text);
  return 0;
}
"""
PROGRAM_SOURCE = "int MPI_Init(int*, char***);\nint main(void) { return MPI_Init(0, 0); }\n"
MPIRUN = """#!/bin/sh
echo "mpirun: $0"
for argument in "$@"; do echo "argument: $argument"; done
env | grep -E '^(LD_PRELOAD|OMPI_ALLOW|OFFBEAT|I_MPI|FI_PROVIDER|LD_LIBRARY)' | sed 's/^/variable: /'
exit 7
"""


def compile_c(source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    # The options come last: libraries must follow what needs them.
    command = ["cc", "-x", "c", "-", "-o", str(output), "-x", "none", *options]
    subprocess.run(command, input=source, text=True, check=True)
    return output


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class FakeMpi:
    """A made-up installation."""

    prefix: Path
    libmpi: Path

    def program(self, path: Path, *options: str, rpath: bool = True) -> Path:
        where = [f"-Wl,-rpath,{self.libmpi.parent}"] if rpath else []
        return compile_c(PROGRAM_SOURCE, path, *where, *options, str(self.libmpi))


MakeMpi = Callable[..., FakeMpi]
Offbeat = Callable[..., "subprocess.CompletedProcess[str]"]


def result_of(
    algorithm: str,
    median: float = 1.0,
    *,
    spread: float = 0.02,
    count: int = 101,
    collective: str = "allreduce",
    size: int = 64,
    pattern: str = "balanced",
    skew: str = "0us",
    status: str = MEASURED,
    **values: Any,
) -> Result:
    """``count`` samples around the median, evenly over ``spread`` of it; none unless it was measured."""
    steps = [(i * 37 % count) / max(count - 1, 1) - 0.5 for i in range(count)]
    samples = [median * (1 + spread * step) for step in steps] if status == MEASURED else []
    return Result(
        Cell(collective, size, pattern, skew),
        algorithm,
        status,
        native_us=10.0 if status == MEASURED else 0.0,
        last_delays_us=samples,
        total_delays_us=[2 * sample for sample in samples],
        **values,
    )


def benchmark_of(*results: Result, budget_s: float = 60.0) -> Benchmark:
    """A benchmark that asked for what it has."""
    cells = [result.cell for result in results]
    plan = Plan(
        ranks=2,
        sizes_bytes=list(dict.fromkeys(cell.size_bytes for cell in cells)),
        algorithms=list(dict.fromkeys(["native", *(result.algorithm for result in results)])),
        patterns=list(dict.fromkeys(cell.pattern for cell in cells)),
        skews=[parse_skew(skew) for skew in dict.fromkeys(cell.skew for cell in cells)],
        collectives=list(dict.fromkeys(cell.collective for cell in cells)),
        budget_s=budget_s,
    )
    about = {
        "offbeat": {"version": "1", "library": "/l", "sha256": "0"},
        "machine": {"host": "h"},
        "mpi": {"vendor": "Open MPI", "version": "5", "libmpi": "/l"},
        "binding": {"cpus": [], "shares_cores": False},
        "environment": {},
    }
    return Benchmark(plan, about, list(results), 1.0)
