#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find the cells in which a program is slower with offbeat than without, although nothing is tuned.

    build/venv/bin/python benchmarks/untuned.py [--mpi openmpi,mpich,impi] [--ranks 2] [--passes 2] [--json]

This compiles untuned.c, a plain loop over collectives that knows nothing of offbeat, and runs it natively and
with the preload in turn. A pass has several such turns, and a cell's ratio in a pass is the median native
time divided by the median time with offbeat. A cell is listed if its ratio is below the limit in every pass.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))

import harness  # noqa: E402
import result_file  # noqa: E402

COLLECTIVES = (
    "allreduce,bcast,reduce,allgather,allgatherv,alltoall,alltoallv,gather,scatter,reduce_scatter,"
    "reduce_scatter_block,barrier"
)
SIZES = "8,1024,16384,65536,262144,1048576,4194304"
Cell = tuple[str, str, str]  # the collective with an i if it does not block, bytes, pattern


def measure(
    mpi: harness.Mpi, program: Path, preload: bool | Path, arguments: argparse.Namespace
) -> dict[Cell, float]:
    found = {}
    for collective in arguments.collectives.split(","):
        sizes = "8" if collective == "barrier" else arguments.bytes
        command = [program, collective, sizes, str(arguments.warm_up), str(arguments.calls)]
        done = harness.run(mpi, arguments.ranks, command, preload=preload, timeout=600).succeeded()
        for line in done.stdout.splitlines():
            name, size, pattern, time = line.split()
            found[name, size, pattern] = float(time)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi,mpich,impi", help="MPIs of tests/mpi/harness.py")
    parser.add_argument(
        "--libraries", type=Path, default=ROOT / "build" / "dev", help="folder of the preloads"
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--bytes", default=SIZES)
    parser.add_argument("--warm-up", type=int, default=200, help="calls that do not count (default: 200)")
    parser.add_argument("--calls", type=int, default=60, help="calls that count, at least (default: 60)")
    parser.add_argument("--turns", type=int, default=3, help="turns of a pass (default: 3)")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=0.95, help="ratio below which a cell is listed")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpis = [result_file.mpi_of_launcher(name, harness.MPIS[name].mpirun) for name in arguments.mpi.split(",")]

    cells: list[dict[str, object]] = []
    for name in arguments.mpi.split(","):
        mpi = harness.MPIS[name]
        program = harness.compile_program(mpi, ROOT / "benchmarks" / "untuned.c", "-O2")
        ratios = defaultdict(list)
        for number in range(arguments.passes):
            times: dict[tuple[Cell, bool], list[float]] = defaultdict(list)
            for turn in range(arguments.turns):
                print(f"{name}: pass {number + 1}, turn {turn + 1}", file=sys.stderr, flush=True)
                for is_preloaded in (False, True):
                    preload = arguments.libraries / f"liboffbeat-{mpi.preload}.so" if is_preloaded else False
                    for cell, time in measure(mpi, program, preload, arguments).items():
                        times[cell, is_preloaded].append(time)
            for cell, is_preloaded in times:
                if is_preloaded:
                    native, ours = (statistics.median(times[cell, way]) for way in (False, True))
                    ratios[cell].append(native / ours)
        mean = math.exp(statistics.mean(math.log(ratio) for each in ratios.values() for ratio in each))
        print(f"{name}, {arguments.ranks} ranks: {len(ratios)} cells, geometric mean {mean:.2f}", flush=True)
        for cell, each in sorted(ratios.items(), key=lambda item: max(item[1])):
            if max(each) < arguments.limit:
                print("  " + " ".join(cell) + ": " + ", ".join(f"{ratio:.2f}" for ratio in each), flush=True)
        cells += [
            {"mpi": name, "ranks": arguments.ranks, "call": call, "size_bytes": int(size), "pattern": pattern,
             "native_by_offbeat": each}
            for (call, size, pattern), each in ratios.items()
        ]  # fmt: skip
        results.write_part(cells, mpis)  # a run takes minutes
    results.write(cells, mpis)


if __name__ == "__main__":
    main()
