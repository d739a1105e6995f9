#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure time and memory of collectives whose type has gaps, natively and under builds of offbeat.

    build/venv/bin/python benchmarks/gaps.py [--mpi openmpi,mpich,impi] [--libraries FOLDER ...]

This compiles gaps.c and runs it with two ranks, natively and with the preload library of each folder, in
turn. For each case it prints medians over the runs: the least milliseconds of a call, which other work on the
machine disturbs least, the median milliseconds, and MiB of memory.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
import result_file  # noqa: E402

SOURCE = Path(__file__).resolve().with_suffix(".c")
TYPES = [("4", "gaps"), ("64", "gaps"), ("64", "dense")]  # bytes of data in an element


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi,mpich,impi", help="MPIs of tests/mpi/harness.py")
    parser.add_argument(
        "--libraries", type=Path, action="append", help="folder of preload libraries (default: build/dev)"
    )
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--seconds", default="0.5", help="time for each case (default: 0.5)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of offbeat"
    )
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpis = [result_file.mpi_of_launcher(name, harness.MPIS[name].mpirun) for name in arguments.mpi.split(",")]
    ways: list[Path | None] = [None, *(arguments.libraries or [ROOT / "build" / "dev"])]
    settings = dict(setting.split("=", 1) for setting in arguments.set)

    written = []
    for name in arguments.mpi.split(","):
        mpi = harness.MPIS[name]
        program = harness.compile_program(mpi, SOURCE, "-O2")
        titles = ["native", *(str(way) for way in ways[1:])]
        print(f"{name}: least ms, median ms and MiB of {', '.join(titles)}")
        for collective, (width, kind) in itertools.product(("bcast", "allgather"), TYPES):
            found = defaultdict(list)
            for _ in range(arguments.repeats):
                for way in ways:
                    preload = way / f"liboffbeat-{mpi.preload}.so" if way is not None else False
                    command = [program, collective, width, kind, arguments.seconds]
                    done = harness.run(
                        mpi, arguments.ranks, command, preload=preload, environment=settings if way else {}
                    ).succeeded()
                    for line in done.stdout.splitlines():
                        mib, *numbers = map(float, line.split())
                        found[mib, way].append(numbers)
            for mib in sorted({mib for mib, _ in found}):
                cells = []
                for way in ways:
                    least, median, memory = map(statistics.median, zip(*found[mib, way], strict=True))
                    cells.append(f"{least:8.2f} {median:8.2f} {memory:6.1f}")
                    written.append(
                        {"mpi": name, "collective": collective, "data_bytes": int(width), "kind": kind,
                         "mib": mib, "libraries": str(way) if way else "native",
                         "runs_least_ms_median_ms_mib": found[mib, way]}
                    )  # fmt: skip
                print(f"{collective:10}{width:>3} B {kind:6}{mib:3.0f} MiB", *cells, sep="  ", flush=True)
    results.write(written, mpis, ranks=arguments.ranks, settings=settings)


if __name__ == "__main__":
    main()
