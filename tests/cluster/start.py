#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run a program on virtual hosts, by hand:

    tests/cluster/start.py openmpi 4x2 tests/mpi/programs/sum_once.c
    tests/cluster/start.py --rate 200 --delay 100 --set OFFBEAT_ALLREDUCE=nap mpich 3+2+1 build/mine 8,1024
    tests/cluster/start.py --native --rate 200 --delay 100 impi 8x1 build/mine 8,1024

A C or C++ source is compiled by that MPI's own compiler first. The program runs under the preload, unless
--native is given. Its output is passed on, the exit status is that of the launcher.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

import slurm
from harness import clean_environment, compile_program, end, library, use_libraries
from hosts import Cluster, HostsError, parse_shape
from launch import ON_HOSTS, on_hosts, patient


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mpi", choices=ON_HOSTS, help=", ".join(ON_HOSTS), metavar="MPI")
    parser.add_argument("ranks", type=parse_shape, help="the ranks of each host: 4x2, 8x1, 3+2+1")
    parser.add_argument("program", help="a program, or its source in C or C++")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.add_argument(
        "--rate", type=float, default=0, help="Mbit/s of each host in each direction (no limit)"
    )
    parser.add_argument(
        "--delay", type=float, default=0, help="microseconds from host to host (none but the switch's)"
    )
    parser.add_argument("--native", action="store_true", help="without the preload")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for the ranks only")
    parser.add_argument("--patient", action="store_true", help="ranks sleep while they wait (patient.c)")
    parser.add_argument("--slurm", action="store_true", help="by srun instead of mpirun")
    parser.add_argument(
        "--real-time", action="store_true", help="what else runs on the machine waits for the ranks"
    )
    parser.add_argument(
        "--launcher", action="append", default=[], help="an option for mpirun or srun, such as --launcher=-v"
    )
    parser.add_argument("--libraries", type=Path, metavar="FOLDER", help="the preload libraries from here")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which the job is ended (600)")
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> int:
    with Cluster(len(arguments.ranks)) as cluster:
        if arguments.slurm:
            slurm.start(cluster)
        starter = "srun" if arguments.slurm else "mpirun"
        mpi = on_hosts(arguments.mpi, cluster, arguments.ranks, starter)
        program = Path(shutil.which(arguments.program) or arguments.program).resolve()
        if program.suffix in (".c", ".cpp"):
            program = compile_program(mpi, program)
        if arguments.libraries:
            use_libraries(arguments.libraries)
        variables = patient(mpi) if arguments.patient else {}
        preloads = [variables.pop("LD_PRELOAD", ""), "" if arguments.native else str(library(mpi.preload))]
        variables |= {"LD_PRELOAD": ":".join(filter(None, preloads))} if any(preloads) else {}
        settings = [f"{name}={value}" for name, value in variables.items()]
        cluster.shape(arguments.rate, arguments.delay)
        first = ["chrt", "--rr", "10"] if arguments.real_time else []
        command = [*mpi.launch(mpi.ranks), *arguments.launcher, *first, "env", *settings, *arguments.set]
        command += [str(program), *arguments.arguments]
        job = subprocess.Popen(
            command, env=clean_environment(mpi), stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            return job.wait(arguments.limit)
        except subprocess.TimeoutExpired:
            print(f"not finished after {arguments.limit:.0f} s", file=sys.stderr)
            return 124
        finally:
            if job.returncode is None:
                end(job)


def main() -> int:
    try:
        return run(parse())
    except HostsError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
