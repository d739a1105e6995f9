# SPDX-License-Identifier: BSD-3-Clause
"""How much memory and address space boards take."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, compile_program, run

COLLECTIVES = (
    "bcast allgather allgatherv alltoall alltoallv gather scatter reduce_scatter reduce_scatter_block"
)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_bound_holds_for_every_collective(mpi: Mpi, ranks: int) -> None:
    """A window has 1 MiB in each half, so two boards fill a bound of 4 MiB. One more board is in use."""
    program = compile_program(mpi, PROGRAMS / "leases.c")
    settings = {f"OFFBEAT_{name.upper()}": "arrival_direct" for name in COLLECTIVES.split()}
    settings |= {"OFFBEAT_REDUCE": "arrival_tree", "OFFBEAT_MEMORY_MIB": "4"}
    most_kib = (2 + 1) * ranks * 2 * 1024 + 2048  # what else is on twelve boards
    command = [program, "12", str(most_kib)]
    result = run(mpi, ranks, command, allreduce="arrival_tree", environment=settings, timeout=120).succeeded()
    assert result.report.served == result.calls, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_persistent_requests_share_boards(mpi: Mpi, ranks: int) -> None:
    """Three quarters of 48 requests are short: three boards have 16 of them each, three have 4 long ones."""
    program = compile_program(mpi, PROGRAMS / "persistent_boards.c")
    most_mib = 3 * 17 * ranks // 2 + 3 * 5 * ranks
    result = run(mpi, ranks, [program, "48", "6", str(most_mib)], timeout=120).succeeded()
    assert "ok:" in result.stdout, str(result)


def test_boards_leave_most_of_a_limited_address_space(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "little_address_space.c")
    run(mpi, 2, [program, "20", "96"], timeout=120).succeeded()
