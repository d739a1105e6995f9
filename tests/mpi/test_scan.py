# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Scan and MPI_Exscan: order of the ranks, rank 0 of an exscan, and nobody waits for a higher rank."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, compile_client, compile_program, run

COMPOSITIONS = 4  # of programs/prefixes.c, of each: an operation that does not commute is the host's


@pytest.mark.parametrize("ranks", [2, 3, 4, 17])
def test_prefixes(mpi: Mpi, ranks: int) -> None:
    program = compile_client(mpi, "prefixes.c")
    result = run(mpi, ranks, [program], timeout=120).succeeded()
    for collective in ("scan", "exscan"):
        report = result.report_of(collective)
        assert report.served == report.intercepted - COMPOSITIONS > 0, f"{collective}\n{result}"


@pytest.mark.parametrize("choice", ["recursive_doubling", "chain", "pipeline(4, chain)"])
def test_prefixes_by_messages(mpi: Mpi, choice: str) -> None:
    program = compile_client(mpi, "prefixes.c")
    settings = {"OFFBEAT_SCAN": choice, "OFFBEAT_EXSCAN": choice}
    result = run(mpi, 3, [program, "by-messages"], environment=settings, timeout=120).succeeded()
    for collective in ("scan", "exscan"):
        report = result.report_of(collective)
        assert report.served == report.intercepted - COMPOSITIONS > 0, f"{collective}\n{result}"


def test_another_count_on_another_rank_is_named(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "mismatched_scan.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_CHECK": "1"}, timeout=60)
    expected = "mismatched MPI_Scan: rank 0 has 1 x MPI_INT, MPI_SUM; rank 1 has 2 x MPI_INT, MPI_SUM"
    assert expected in result.stderr, str(result)
