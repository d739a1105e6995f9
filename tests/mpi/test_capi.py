# SPDX-License-Identifier: BSD-3-Clause
"""The C interface, from a C program under the preload."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import ROOT, Mpi, compile_client, run


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("start", [None, "native"])
def test_c_interface(mpi: Mpi, ranks: int, start: str | None) -> None:
    run(mpi, ranks, [compile_client(mpi, "capi.c")], allreduce=start).succeeded()


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("choice", [None, "pipeline(3, ring)", "hierarchy(arrival_leader, ring)"])
def test_many_operations_under_way_are_completed_in_any_order(
    mpi: Mpi, ranks: int, choice: str | None
) -> None:
    program = compile_client(mpi, "operations.c")
    settings = {"OFFBEAT_NODE_RANKS": "2"} if choice is not None else {}
    run(mpi, ranks, [program, "40"], allreduce=choice, environment=settings, timeout=120).succeeded()


def test_where_shared_memory_is_short_only_blocking_calls_have_it(mpi: Mpi) -> None:
    """Room for 4 MiB of windows and what goes with them, not for four times as much."""
    settings = {"OFFBEAT_BOARD_KIB": "2048", "OFFBEAT_VERBOSE": "1"}
    command = [compile_client(mpi, "operations.c"), "40", "8"]
    result = run(mpi, 2, command, environment=settings, timeout=120).succeeded()
    assert "no shared memory" not in result.stderr, str(result)
    assert "arrival_tree" in result.stderr, str(result)


@pytest.mark.parametrize("choice", [[], ["ring"]])
def test_c_interface_where_there_is_nothing_to_serve(mpi: Mpi, choice: list[str]) -> None:
    """Before MPI_Init and after MPI_Finalize, on other kinds of communicators, and on freed ones."""
    run(mpi, 2, [compile_client(mpi, "capi_edges.c"), *choice], timeout=120).succeeded()


@pytest.mark.parametrize("settings", [{}, {"OFFBEAT_PROGRESS_CPUS": "0"}])
@pytest.mark.parametrize("requests", ["complete", "open"])
def test_a_group_lives_on_after_mpi_finalize(mpi: Mpi, settings: dict[str, str], requests: str) -> None:
    command = [compile_client(mpi, "group_outlives_mpi.c"), requests]
    run(mpi, 2, command, environment=settings, timeout=120).succeeded()


@pytest.mark.parametrize("ranks_per_node", [1, 2, 3])
def test_a_group_of_several_nodes(mpi: Mpi, ranks_per_node: int) -> None:
    settings = {"OFFBEAT_NODE_RANKS": str(ranks_per_node), "OFFBEAT_VERBOSE": "1"}
    command = [compile_client(mpi, "group_on_nodes.c")]
    result = run(mpi, 4, command, environment=settings, timeout=120).succeeded()
    assert "barrier in a group of 4 ranks: dissemination" in result.stderr, str(result)


def test_two_jobs_of_one_size_are_told_apart(mpi: Mpi, tmp_path: Path) -> None:
    """They are on one machine, so that the group needs no MPI. One job could be on several nodes."""
    program = compile_client(mpi, "group_of_two_jobs.c")
    with ThreadPoolExecutor() as jobs:
        results = list(
            jobs.map(
                lambda rank: run(
                    mpi, 2, [program, tmp_path, rank], environment={"OFFBEAT_NODE_RANKS": "1"}, timeout=90
                ),
                (0, 1),
            )
        )
    for result in results:
        assert "a group of two jobs" in result.succeeded().stdout, str(result)


@pytest.mark.parametrize("language", [["cc", "-std=c99"], ["cc", "-std=c17"], ["c++", "-std=c++11"]])
def test_header_compiles_as_strict(language: list[str]) -> None:
    header = ROOT / "include" / "offbeat" / "offbeat.h"
    flags = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    kind = "c++" if "++" in language[0] else "c"
    subprocess.run([*language, *flags, "-x", kind, str(header)], check=True, timeout=60)
