#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Count the instructions of a short collective on two ranks, from the program's call to its return.

    benchmarks/instructions.py --mpicc build/mpi/mpich/bin/mpicc --library build/dev/liboffbeat-mpich.so

valgrind's callgrind counts in rank 1, which is the root and comes last to each call. The figure is the
least of all calls, so rank 1 waited for nobody. It leaves out what only some calls do, but all under
valgrind, which is slow: a turn of the host MPI, and timing the call. It also leaves out the system call
that wakes a rank 0 that sleeps. `--functions` prints where the instructions are. Give several libraries to
compare builds, none of them stripped.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import result_file

SOURCE = Path(__file__).resolve().parent / "instructions.c"
CALLS = 200
RUN_LIMIT_S = 300
COLLECTIVES = ("allreduce", "reduce", "bcast", "barrier", "gather", "allgather", "alltoall")
# What only some calls do: turns of the host MPI, and timing.
SELDOM = (
    "offbeat::Communicator::give_turn(", "offbeat::CallTimer::begin_timed(", "offbeat::CallTimer::end_timed("
)  # fmt: skip
DEFINITION = re.compile(r"\((\d+)\)(?: (.*))?")


def instructions(profile: Path) -> Counter[str]:
    """Instructions by function, from a file of callgrind. What a function calls counts as the callee's."""
    names: dict[str, str] = {}
    own: Counter[str] = Counter()
    function = callee = ""
    is_call = False
    for line in profile.read_text().splitlines():
        key, _, value = line.partition("=")
        if key in ("fn", "cfn"):
            found = DEFINITION.fullmatch(value)
            assert found is not None, line
            if found[2] is not None:
                names[found[1]] = found[2]
            if key == "fn":
                function = names[found[1]]
            else:
                callee = names[found[1]]
        elif key == "calls":
            is_call = True
        elif line[:1] in tuple("0123456789+-*"):
            cost = int(line.split()[1])
            if not is_call:
                own[function] += cost
            elif callee.startswith(SELDOM) or (callee == "syscall" and "offbeat::" in function):
                own["(left out)"] -= cost
            is_call = False
    return own


def least(mpiexec: str, program: Path, library: Path, collective: str, count: int) -> Counter[str]:
    """Run the program, and return the instructions of its cheapest call. Rank 0 runs without valgrind."""
    function = f"MPI_{collective.capitalize()}"
    with tempfile.TemporaryDirectory() as folder:
        valgrind = [
            "valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={function}",
            f"--dump-after={function}", f"--callgrind-out-file={folder}/profile",
        ]  # fmt: skip
        preload = ["env", f"LD_PRELOAD={library}"]
        end = [str(program), collective, str(count), str(CALLS)]
        done = subprocess.run(
            [mpiexec, "-n", "1", *preload, *end, ":", "-n", "1", *preload, *valgrind, *end],
            env={key: value for key, value in os.environ.items() if not key.startswith("OFFBEAT_")},
            capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode}: {done.stderr.strip()}")
        calls = [instructions(profile) for profile in Path(folder).glob("profile.*")]
    if len(calls) < CALLS:
        sys.exit(f"callgrind saw {len(calls)} of {CALLS} calls")
    return min(calls, key=Counter.total)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpicc", default="mpicc", help="compiler of an MPICH (default: the one on PATH)")
    parser.add_argument(
        "--library", type=Path, required=True, nargs="+", help="liboffbeat-mpich.so, one or several"
    )
    parser.add_argument("--collective", choices=COLLECTIVES, default="allreduce")
    parser.add_argument("--count", type=int, default=1, help="doubles of a rank (default: %(default)s)")
    parser.add_argument("--functions", action="store_true", help="print the instructions of each function")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    mpicc = shutil.which(arguments.mpicc)
    if mpicc is None:
        sys.exit(f"{arguments.mpicc}: not found")
    mpiexec = str(Path(mpicc).parent / "mpiexec")
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "instructions"
        subprocess.run([mpicc, "-O2", str(SOURCE), "-o", str(program)], check=True)
        for library in arguments.library:
            call = least(
                mpiexec, program, library.resolve(strict=True), arguments.collective, arguments.count
            )
            print(f"{call.total():6}  {library}")
            cells.append(
                {
                    "collective": arguments.collective,
                    "count": arguments.count,
                    "library": str(library),
                    "instructions": call.total(),
                    "functions": dict(call.most_common()),
                }
            )
            if arguments.functions:
                for function, count in call.most_common():
                    print(f"  {count:6}  {function}")
    results.write(cells, [result_file.mpi_of_compiler(mpicc)])


if __name__ == "__main__":
    main()
