#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what tracing costs: for one record, and in a program that does nothing but allreduce.

    benchmarks/tracing.py --mpicc PREFIX/bin/mpicc --library build/dev/liboffbeat-trace-openmpi.so

This compiles tracing.c and runs it with and without the tracer in turn, so that other work on the machine
hits both alike. It runs on one rank, where the record is most of the cost, and on 2 ranks for each size. With
`--offbeat LIBRARY` it measures offbeat's algorithms instead of the host's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import result_file
from overhead import RUN_LIMIT_S, host_environment

SOURCE = Path(__file__).resolve().parent / "tracing.c"
BATCHES = 21


def nanoseconds(
    command: list[str], program: list[str], preload: list[Path], trace: Path | None, calls: int
) -> float:
    """Run the program once. Returns nanoseconds per call. A trace that lacks calls is an error."""
    variables = [f"LD_PRELOAD={':'.join(map(str, preload))}"] if preload else []
    variables += [f"OFFBEAT_TRACE={trace}"] if trace is not None else []
    done = subprocess.run(
        [*command, "env", *variables, *program],
        env=host_environment(), capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr.strip()}")
    if trace is not None:
        header = (trace / "rank-000000.trace").read_bytes()[:64]
        _slots, made, lost = struct.unpack_from("<QQQ", header, 32)
        if made < calls or lost:
            sys.exit(f"the trace has {made} calls of {calls}, {lost} lost")
        shutil.rmtree(trace)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpicc", default="mpicc", help="compiler of the host MPI (default: on PATH)")
    parser.add_argument("--library", type=Path, required=True, help="liboffbeat-trace-<family>.so")
    parser.add_argument("--offbeat", type=Path, help="also preload this liboffbeat-<family>.so, in both runs")
    sizes = "8,64,1024,16384,65536"
    parser.add_argument("--sizes", default=sizes, help="bytes, on 2 ranks (default: %(default)s)")
    parser.add_argument(
        "--pairs", type=int, default=9, help="pairs of runs with and without the tracer (default: 9)"
    )
    parser.add_argument("--folder", type=Path, help="folder for traces (default: that of temporary files)")
    parser.add_argument("--mpirun-args", default="", help="further arguments for mpirun")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpicc = shutil.which(arguments.mpicc)
    if mpicc is None:
        sys.exit(f"{arguments.mpicc}: not found")
    mpirun = [str(Path(mpicc).parent / "mpirun"), *arguments.mpirun_args.split()]
    below = [arguments.offbeat.resolve(strict=True)] if arguments.offbeat else []
    tracer = arguments.library.resolve(strict=True)

    print(f"{arguments.pairs} runs each, ns per call; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    used = result_file.mpi_of_compiler(mpicc)
    cells = []
    print("  where       bytes    without       with   difference: median (range)")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        binary = Path(folder) / "tracing"
        subprocess.run([mpicc, "-O2", str(SOURCE), "-o", str(binary)], check=True)
        on_two = [("world", 2, int(size)) for size in arguments.sizes.split(",")]
        for where, ranks, size in [("self", 1, 4), *on_two]:
            calls = max(200, min(20_000, 20_000 * 1024 // max(size, 1024)))
            program = [str(binary), where, str(size), str(BATCHES), str(calls)]
            command = [*mpirun, "-n", str(ranks)]
            without: list[float] = []
            traced: list[float] = []
            for pair in range(arguments.pairs):
                for is_traced in (False, True) if pair % 2 == 0 else (True, False):
                    preload = [*([tracer] if is_traced else []), *below]
                    trace = Path(folder) / "run.trace" if is_traced else None
                    value = nanoseconds(command, program, preload, trace, BATCHES * calls)
                    (traced if is_traced else without).append(value)
            cells.append(
                {"mpi": used["name"], "ranks": ranks, "size_bytes": size, "untraced_ns": without,
                 "traced_ns": traced}
            )  # fmt: skip
            more = [b - a for a, b in zip(without, traced, strict=True)]
            print(
                f"  {where:6} {size:10} {statistics.median(without):10.1f} {statistics.median(traced):10.1f}"
                f"   {statistics.median(more):.1f} ({min(more):.1f} .. {max(more):.1f})",
                flush=True,
            )
    results.write(cells, [used], under="offbeat" if below else "the host MPI")


if __name__ == "__main__":
    main()
