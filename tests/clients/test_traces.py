# SPDX-License-Identifier: BSD-3-Clause
"""Traces of applications load, and have the calls that a library without anything of offbeat counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import MPIS, ROOT, compile_program, library, run
from offbeat import trace

HERE = Path(__file__).parent


def traced(
    mpi_name: str, ranks: int, command: Sequence[object], saved: Path, cwd: Path
) -> dict[int, dict[str, int]]:
    """Run under the tracer with the counter before it; what the counter says of each rank."""
    mpi = MPIS[mpi_name]
    tracer = library(mpi.preload).with_name(f"liboffbeat-trace-{mpi.preload}.so")
    counter = compile_program(mpi, HERE / "count_calls.c", "-shared", "-fPIC", libraries=())
    folder = cwd / "counts"
    folder.mkdir()
    environment = {"LD_PRELOAD": f"{counter}:{tracer}", "OFFBEAT_TRACE": str(saved)}
    environment["COUNT_CALLS"] = str(folder)
    result = run(mpi, ranks, command, preload=False, environment=environment, cwd=cwd).succeeded()
    counts = {}
    for path in folder.iterdir():
        counts[int(path.name)] = {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", path.read_text())}
    assert sorted(counts) == list(range(ranks)), str(result)
    return counts


def assert_agrees(folder: Path, counts: dict[int, dict[str, int]], most_used: str) -> None:
    read = trace.read(folder)
    assert read.ranks == len(counts)
    assert counts[0][most_used] > 50, "a program without collectives shows nothing"
    for rank, expected in counts.items():
        names = [trace.COLLECTIVES[number] for number in read.calls(rank)["collective"]]
        assert {name: names.count(name) for name in expected} == expected, f"rank {rank}"


@pytest.mark.parametrize("ranks", [2, 3])
def test_lammps(ranks: int, tmp_path: Path) -> None:
    command = ["lmp", "-in", HERE / "in.melt", "-log", "none"]
    counts = traced("debian-openmpi", ranks, command, tmp_path / "run.trace", tmp_path)
    assert_agrees(tmp_path / "run.trace", counts, "allreduce")


def test_the_example_that_petsc_solves(tmp_path: Path) -> None:
    (path,) = Path("/usr/lib/petscdir").glob("petsc3*/*-real/lib/python3/dist-packages")
    command = ["env", f"PYTHONPATH={path}", "/usr/bin/python3", ROOT / "examples" / "krylov.py"]
    command += ["--petsc", "--edge", "60"]
    counts = traced("debian-openmpi", 2, command, tmp_path / "run.trace", tmp_path)
    assert_agrees(tmp_path / "run.trace", counts, "allreduce")
    assert counts[0]["allreduce"] > 200, "two or three in each of some 110 iterations"


def test_imb(tmp_path: Path) -> None:
    benchmark = MPIS["impi"].program("IMB-MPI1")
    names = ["Allreduce", "Bcast", "Reduce", "Allgather", "Alltoall", "Gather", "Barrier"]
    command = [benchmark, *names, "-npmin", "2", "-iter", "30", "-msglog", "3:6"]
    counts = traced("impi", 2, command, tmp_path / "run.trace", tmp_path)
    assert_agrees(tmp_path / "run.trace", counts, "alltoall")
