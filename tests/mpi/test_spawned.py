# SPDX-License-Identifier: BSD-3-Clause
"""Processes that the program spawns are served as those that it was started with."""

from __future__ import annotations

from harness import Mpi, library
from spawning import can_spawn, run_spawning


@can_spawn
def test_spawned_jobs_are_served(mpi: Mpi) -> None:
    variables = {"LD_PRELOAD": str(library(mpi.preload)), "OFFBEAT_REPORT": "1"}
    done = run_spawning(mpi, 2, "spawned.c", "3", variables=variables)
    assert len(done.reports) == 2, f"one of the parents, one of the children\n{done}"
    for report in done.reports:
        # Three calls on the own MPI_COMM_WORLD, six across inter-communicators and on what is merged.
        assert report.intercepted >= 9, done
        assert report.served >= 3, done


@can_spawn
def test_spawned_processes_have_the_settings(mpi: Mpi) -> None:
    longer_than_an_info = f"pipeline(4, {' ' * 300}ring)"
    settings = {"LD_PRELOAD": str(library(mpi.preload)), "OFFBEAT_ALLREDUCE": longer_than_an_info}
    variables = settings | {"OFFBEAT_STALL_S": "70"}
    said = run_spawning(mpi, 2, "spawned_environment.c", variables=variables).stdout.splitlines()
    for child in range(2):
        of_program = {"OFFBEAT_STALL_S": "7"} if (mpi.name, child) == ("openmpi", 1) else {}
        started_with = {f"child {child}: {name}={value}" for name, value in (variables | of_program).items()}
        assert started_with <= set(said), said
