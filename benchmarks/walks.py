#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""List the source files that a call passes through, as callgrind sees them.

    benchmarks/walks.py --mpicc build/mpi/mpich/bin/mpicc --library build/debug/liboffbeat-mpich.so [--files]

The library has to have debug information (`cmake -DCMAKE_CXX_FLAGS=-g`). The walks are an allreduce of 8
bytes and an alltoallv of 8 bytes a rank on one node, a bcast of 1 MiB on two nodes, and an MPI_Iallgather of
8 bytes with its MPI_Wait. A file counts if an instruction of it was run, by any rank, in one of the later
calls; functions that the compiler inlined count, too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import result_file

SOURCE = Path(__file__).resolve().with_suffix(".c")
CALLS = 12
EARLY_CALLS = 6  # these may set something up
RUN_LIMIT_S = 300
WALKS = {
    "allreduce": (2, {}),
    "bcast": (4, {"OFFBEAT_NODE_RANKS": "2"}),
    "iallgather": (2, {}),
    "alltoallv": (2, {}),
}
FILE = re.compile(r"^f[lie]=\((\d+)\)(?: (.*))?$")


def files(profile: Path) -> set[str]:
    """The files of src/ in which a profile of callgrind has instructions."""
    names: dict[str, str] = {}
    found: set[str] = set()
    current = ""
    is_call = False
    for line in profile.read_text().splitlines():
        if match := FILE.match(line):
            if match[2] is not None:
                names[match[1]] = match[2]
            current = names[match[1]]
        elif line.startswith(("cfi=", "cfl=")):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number.strip("()")] = name
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in tuple("0123456789+-*"):
            if not is_call and "/src/" in current:
                found.add(current.rpartition("/src/")[2])
            is_call = False
    return found


def walk(mpiexec: str, program: Path, library: Path, kind: str) -> set[str]:
    """The files that the later calls of this kind pass through, on any rank."""
    ranks, settings = WALKS[kind]
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OFFBEAT_")}
        done = subprocess.run(
            [mpiexec, "-n", str(ranks), "env", f"LD_PRELOAD={library}", "valgrind", "--tool=callgrind",
             "--collect-atstart=no", "--toggle-collect=walk", "--dump-after=walk",
             f"--callgrind-out-file={folder}/profile.%p", str(program), kind, str(CALLS)],
            env=environment | settings, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode}: {done.stderr.strip()}")
        profiles = [
            profile
            for profile in Path(folder).glob("profile.*.*")
            if EARLY_CALLS < int(profile.suffix[1:]) <= CALLS
        ]
        if len(profiles) != ranks * (CALLS - EARLY_CALLS):
            sys.exit(f"{kind}: callgrind saw {len(profiles)} of {ranks * (CALLS - EARLY_CALLS)} calls")
        return set[str]().union(*map(files, profiles))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpicc", default="mpicc", help="compiler of an MPICH (default: the one on PATH)")
    parser.add_argument("--library", type=Path, required=True, help="liboffbeat-mpich.so with -g")
    parser.add_argument("--files", action="store_true", help="print the names of the files, too")
    parser.add_argument("--walk", choices=WALKS, action="append", help="only this one (default: all)")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpicc = shutil.which(arguments.mpicc)
    if mpicc is None:
        sys.exit(f"{arguments.mpicc}: not found")
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "walks"
        subprocess.run([mpicc, "-O2", str(SOURCE), "-o", str(program)], check=True)
        mpiexec = str(Path(mpicc).parent / "mpiexec")
        for kind in arguments.walk or WALKS:
            passed = walk(mpiexec, program, arguments.library.resolve(strict=True), kind)
            if not passed:
                sys.exit(f"{kind}: no file of src/: does the library have debug information?")
            print(f"{len(passed):4}  {kind}")
            cells.append({"walk": kind, "ranks": WALKS[kind][0], "files": sorted(passed)})
            if arguments.files:
                for name in sorted(passed):
                    print(f"      {name}")
    results.write(cells, [result_file.mpi_of_compiler(mpicc)])


if __name__ == "__main__":
    main()
