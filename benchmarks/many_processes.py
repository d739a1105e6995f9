#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make random calls of all collectives with hundreds of processes on virtual hosts of this machine.

    build/venv/bin/python benchmarks/many_processes.py --shape 16x16 --mpi mpich,impi --calls 80

The results have to be those of Open MPI by itself, on one host. Each choice that OFFBEAT_VERBOSE names has to
be the one that `offbeat explain` names. Needs root. A job of 256 processes on two cores takes six to eight
minutes: its ranks sleep while they wait, and most of the time goes to barriers in which they print.
"""

# ruff: noqa: E402 -- the folders of the tests come first
from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tests" / "cluster")]

import result_file
from exchanges import hashes
from harness import MPIS, PROGRAMS, compile_program, library, run
from hosts import Cluster, parse_shape
from launch import ON_HOSTS, on_hosts, patient, run_job

HOSTS = {"openmpi": "openmpi", "mpich": "mpich", "impi": "intel"}  # as rules name them
CHOICE = re.compile(
    r"^offbeat: (\w+) (?:of any length|(?:up to|from) (\d+) (\w+)[^,]*), "
    r"ranks: (\d+): (?!.* is pinned )(.*)$",
    re.MULTILINE,
)
# If ranks polled shared memory every 50 us, as with up to 4 ranks per core, others would have no time.
SLEEPING = {"PATIENT_AFTER": "1", "PATIENT_US": "20000", "OFFBEAT_WAIT": "sleep"}


def differing_choices(stderr: str, mpi: str, shape: tuple[int, ...]) -> tuple[int, list[str]]:
    """How many lines were compared with `offbeat explain`, and those that differ."""
    compared, wrong = 0, []
    for collective, number, unit, ranks, text in CHOICE.findall(stderr):
        if int(ranks) != sum(shape):
            continue
        command = [Path(sys.executable).with_name("offbeat"), "explain", collective, f"{number}{unit}" or "1"]
        command += ["--nodes", str(len(shape)), "--ppn", str(shape[0]), "--mpi", HOSTS[mpi], "--json"]
        (row,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["rows"]
        compared += 1
        if text != f"{row['expression']} ({row['reason']})":
            wrong.append(f"{collective} {number} {unit}: {text}; explained: {row['expression']}")
    return compared, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", default="16x16")
    parser.add_argument("--mpi", default="mpich,impi")
    parser.add_argument("--calls", default="80")
    result_file.add_option(parser)
    arguments = parser.parse_args()
    results = result_file.ResultFile(arguments.json)
    shape = tuple(parse_shape(arguments.shape))
    words = ["7", arguments.calls, "3000", "alike", "blocking"]  # seed, how many, the longest
    native = MPIS["openmpi"]
    command = [compile_program(native, PROGRAMS / "exchanges.cpp"), *words]
    expected = hashes(run(native, sum(shape), command, preload=False, timeout=900).succeeded().stdout)
    cells: list[dict[str, Any]] = []
    for name in arguments.mpi.split(","):
        began = time.monotonic()
        with Cluster(len(shape)) as cluster:
            mpi = on_hosts(name, cluster, shape)
            program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
            environment = patient(mpi) | SLEEPING | {"OFFBEAT_VERBOSE": "1"}
            if mpi.kind != "openmpi":
                environment["PATIENT_YIELDS"] = "0"  # with OFFBEAT_WAIT=sleep ranks yield between polls only
            environment["LD_PRELOAD"] += f":{library(mpi.preload)}"
            result = run_job(mpi, [program, *words], preload=False, environment=environment, timeout=1800)
        right = result.returncode == 0 and hashes(result.stdout) == expected
        compared, wrong = differing_choices(result.stderr, name, shape)
        seconds = round(time.monotonic() - began)
        cells.append({"mpi": name, "shape": arguments.shape, "calls": int(arguments.calls), "right": right,
                      "choices": compared, "differing": wrong, "seconds": seconds})  # fmt: skip
        print(
            f"{name}, {arguments.shape}: results are {'right' if right else 'WRONG'}; "
            f"{len(wrong)} of {compared} choices differ from those explained; {seconds} s",
            *wrong,
            sep="\n",
            flush=True,
        )
        results.write_part(cells)
    results.write(cells, [result_file.mpi(cell["mpi"], ON_HOSTS[cell["mpi"]].prefix) for cell in cells])
    return int(any(not cell["right"] or cell["differing"] for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
