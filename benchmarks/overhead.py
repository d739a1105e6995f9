#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how much longer a call takes under the preload if offbeat passes it through to the host MPI.

    benchmarks/overhead.py --mpicc PREFIX/bin/mpicc --library build/dev/liboffbeat-openmpi.so

This compiles pass_through.c and runs it on one rank, with and without the preload in turn, so that other work
on the machine hits both alike. It prints the medians over the runs, and the median and the range of the
differences of neighbouring runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import result_file

SOURCE = Path(__file__).resolve().parent / "pass_through.c"
REPORT = re.compile(r"^offbeat: allreduce: (\d+) calls intercepted, 0 served, \1 native$", re.MULTILINE)
RUN_LIMIT_S = 120


def host_environment() -> dict[str, str]:
    """This environment without a preload and without settings of offbeat. Open MPI may run as root."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OFFBEAT_", "LD_PRELOAD"))
    }
    return kept | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def nanoseconds(launcher: list[str], program: Path, library: Path | None) -> float:
    """Run the program once. Returns nanoseconds per call. A preload that intercepts nothing is an error."""
    # `env` stands before the program, so that mpirun itself runs without the preload.
    settings = [f"LD_PRELOAD={library}", "OFFBEAT_REPORT=1", "OFFBEAT_ALLREDUCE=native"]
    preload = ["env", *settings] if library is not None else []
    done = subprocess.run(
        [*launcher, "-n", "1", *preload, str(program)],
        env=host_environment(), capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr.strip()}")
    if library is not None and REPORT.search(done.stderr) is None:
        sys.exit(f"the calls were not intercepted and passed on: {done.stderr.strip() or 'no report'}")
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mpicc", default="mpicc", help="compiler of the host MPI (default: the one on PATH)"
    )
    parser.add_argument("--mpirun", help="launcher of the host MPI (default: mpirun beside mpicc)")
    parser.add_argument(
        "--library", type=Path, required=True, help="liboffbeat-<family>.so of the host's family"
    )
    parser.add_argument(
        "--pairs", type=int, default=15, help="pairs of runs with and without the preload (default: 15)"
    )
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpicc = shutil.which(arguments.mpicc)
    if mpicc is None:
        sys.exit(f"{arguments.mpicc}: not found")
    launcher = [arguments.mpirun or str(Path(mpicc).parent / "mpirun")]
    library = arguments.library.resolve(strict=True)

    native: list[float] = []
    preloaded: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pass_through"
        subprocess.run([mpicc, "-O2", str(SOURCE), "-o", str(program)], check=True)
        for pair in range(arguments.pairs):
            # The order alternates. Otherwise a machine that slows down would always charge the same side.
            for with_preload in (False, True) if pair % 2 == 0 else (True, False):
                value = nanoseconds(launcher, program, library if with_preload else None)
                (preloaded if with_preload else native).append(value)
    differences = [more - less for more, less in zip(preloaded, native, strict=True)]
    print(f"{arguments.pairs} runs each, ns per call; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    for name, values in (("native", native), ("preloaded", preloaded), ("difference", differences)):
        print(f"  {name:10} {statistics.median(values):7.1f}   ({min(values):.1f} .. {max(values):.1f})")
    used = result_file.mpi_of_compiler(mpicc)
    results.write([{"mpi": used["name"], "native_ns": native, "preloaded_ns": preloaded}], [used])


if __name__ == "__main__":
    main()
