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
def test_another_length_than_the_root_expects_is_an_error(mpi: Mpi, what: str) -> None:
    program = compile_program(mpi, PROGRAMS / "lists_at_root.c")
    result = run(mpi, 3, [program, "mismatch", what], environment={}, timeout=90).succeeded()
    assert result.stderr.count(f"offbeat: mismatched {what}: rank ") == 6, str(result)
    first = "rank 1 gives rank 0 12 bytes, and rank 0 takes 16"
    if what == "scatterv":
        first = "rank 0 gives rank 1 16 bytes, and rank 1 takes 12"
    assert first in result.stderr, str(result)
