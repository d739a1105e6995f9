# SPDX-License-Identifier: BSD-3-Clause
"""Every algorithm of every collective between hosts; jobs and the shapes of a cluster take turns."""

from __future__ import annotations

import re
from dataclasses import dataclass

import algorithms
import pytest
from exchanges import expect_all_served, expect_some_served, hashes, natively
from harness import PROGRAMS, compile_program
from hosts import Cluster, parse_shape
from launch import on_hosts, run_job

SHAPES = ("4x2", "8x1", "3+2+1", "5x1")
STARTERS = ("mpirun", "srun")
CALLS = ("12", "120", "3000")  # seed, how many, the longest


@dataclass(frozen=True)
class Case:
    """A job on a shape, with the MPI and the starter whose turn it is."""

    job: int
    shape: str
    name: str
    starter: str
    settings: dict[str, str]

    @property
    def turn(self) -> str:
        """The name of the turn (conftest.py): of two jobs one runs, on one shape."""
        return f"jobs {self.job // 2}"

    def __str__(self) -> str:
        return f"{self.shape}-{self.settings['OFFBEAT_ALLREDUCE']}-{self.name}-{self.starter}"


def cases(names: list[str]) -> list[Case]:
    """Each job on each shape; MPIs and starters are different on each."""
    return [
        Case(job, shape, names[(job + k) % len(names)], STARTERS[(job + k) % len(STARTERS)], settings)
        for k, shape in enumerate(SHAPES)
        for job, settings in enumerate(algorithms.jobs())
    ]


@pytest.mark.anywhere
def test_every_algorithm_has_a_job() -> None:
    jobs = algorithms.jobs()
    for collective, known in algorithms.by_collective().items():
        texts = [job[f"OFFBEAT_{collective.upper()}"] for job in jobs]
        used = {word for text in texts for word in re.findall(r"\w+", text)}
        # A gatherv or scatterv has no hierarchy, so what runs on a node has no part on several.
        of_one_node = {"arrival_direct"} if collective in ("gatherv", "scatterv") else set()
        assert {one["name"] for one in known} - used == {"native"} | of_one_node, collective
    assert {len(job) for job in jobs} == {16}, "exchanges.cpp calls sixteen collectives"


def test_random_calls_give_what_a_host_gives(cluster: Cluster, case: Case) -> None:
    mpi = on_hosts(case.name, cluster, parse_shape(case.shape), case.starter)
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    # By messages, non-blocking calls stay with hosts other than Open MPI. The barrier with which the program
    # begins gives the communicators what all of them need, if it has it itself.
    has_all = mpi.kind == "openmpi" and "hierarchy" in case.settings["OFFBEAT_BARRIER"]
    command = [program, *CALLS, "alike", "any" if has_all else "blocking"]
    result = run_job(mpi, command, environment=case.settings).succeeded()
    found = hashes(result.stdout)
    assert len(found) == mpi.ranks, str(result)
    assert found == natively(mpi.ranks, CALLS), str(result)
    expect_all_served(result)


@pytest.mark.in_turn(1, "shape")
@pytest.mark.parametrize("shape", SHAPES)
def test_non_blocking_calls_by_tcp(cluster: Cluster, name: str, shape: str) -> None:
    """With offbeat's own choices between nodes. The other calls have algorithms that send messages."""
    mpi = on_hosts(name, cluster, parse_shape(shape), STARTERS[SHAPES.index(shape) % 2])
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    settings = {"OFFBEAT_NETWORK": "tcp"} | algorithms.jobs()[0]
    result = run_job(mpi, [program, *CALLS, "alike", "any"], environment=settings).succeeded()
    found = hashes(result.stdout)
    assert len(found) == mpi.ranks, str(result)
    assert found == natively(mpi.ranks, CALLS), str(result)
    expect_all_served(result)


@pytest.mark.in_turn(1, "shape")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_default(cluster: Cluster, name: str, shape: str) -> None:
    """All types and operations, and the same bits on all ranks, by offbeat's own choice."""
    mpi = on_hosts(name, cluster, parse_shape(shape), STARTERS[SHAPES.index(shape) % 2])
    program = compile_program(mpi, PROGRAMS / "allreduce_types.cpp")
    command = [program, "--stride", "211", "--bits", "1"]
    result = run_job(mpi, command).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    assert result.report.served > 0, str(result)


@pytest.mark.in_turn(1, "shape", "on")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("on", ["openmpi", "mpich"])
def test_the_defaults_of_all_collectives(cluster: Cluster, on: str, shape: str) -> None:
    """Vectors of up to 1.2 MB, so that each default has calls.

    Some are the host's own, so it has to do them right. By itself Intel MPI 2021.14 crashes in them on 3+2+1,
    and Open MPI 5.0 with its han gives wrong data on 4x2.
    """
    calls = ("5", "120", "300000")
    mpi = on_hosts(on, cluster, parse_shape(shape), STARTERS[SHAPES.index(shape) % 2])
    command = [compile_program(mpi, PROGRAMS / "exchanges.cpp"), *calls, "alike", "blocking"]
    result = run_job(mpi, command, environment={"OMPI_MCA_coll": "^han"}).succeeded()
    found = hashes(result.stdout)
    assert len(found) == mpi.ranks, str(result)
    assert found == natively(mpi.ranks, calls), str(result)
    expect_some_served(result, {"allreduce", "allgather", "bcast", "reduce_scatter"})
