# SPDX-License-Identifier: BSD-3-Clause
"""Gatherv and scatterv, in which only the root knows the lengths of all blocks."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, compile_program, run

COLLECTIVES = ("gatherv", "scatterv")


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_with_short_blocks_wait_for_nobody(mpi: Mpi, ranks: int) -> None:
    program = compile_program(mpi, PROGRAMS / "lists_at_root.c")
    result = run(mpi, ranks, [program, "ahead"], environment={}, timeout=60).succeeded()
    for name in COLLECTIVES:
        assert result.report_of(name).served >= 20, str(result)


@pytest.mark.parametrize("what", COLLECTIVES)
def test_a_rank_may_give_less_than_there_is_room_for(mpi: Mpi, what: str) -> None:
    """No MPI refuses that. What is behind the data stays as it was, also with gaps between elements."""
    program = compile_program(mpi, PROGRAMS / "lists_at_root.c")
    result = run(mpi, 3, [program, "less", what], environment={}, timeout=90).succeeded()
    assert result.report_of(what).served > 0, str(result)
    assert result.report_of(what).served == result.report_of(what).intercepted, str(result)


@pytest.mark.parametrize("what", COLLECTIVES)
def test_a_rank_that_gives_more_than_there_is_room_for_is_an_error(mpi: Mpi, what: str) -> None:
    program = compile_program(mpi, PROGRAMS / "lists_at_root.c")
    result = run(mpi, 3, [program, "more", what], environment={}, timeout=90).succeeded()
    assert result.stderr.count(f"mismatched {what}: rank ") == 5, str(result)
    giver, taker = (1, 0) if what == "gatherv" else (0, 1)
    text = f"rank {giver} of the communicator gives 40 bytes to rank {taker}, which has room for 12"
    line = f"rank {taker} of MPI_COMM_WORLD has failed: mismatched {what}: {text}; this communicator can no"
    assert line in result.stderr, str(result)
