# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Barrier: nobody leaves before all have come."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, compile_program, on_mpis, run


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("choice", ["", "arrival_counter", "dissemination", "native"])
def test_nobody_leaves_before_all_have_come(mpi: Mpi, ranks: int, choice: str) -> None:
    program = compile_program(mpi, PROGRAMS / "barriers.c")
    result = run(mpi, ranks, [program, "300"], environment={"OFFBEAT_BARRIER": choice}).succeeded()
    if choice == "native":
        assert result.report_of("barrier").served == 0, str(result)
    else:
        assert result.report_of("barrier").served >= 300, str(result)


def test_across_nodes_the_host_does_it(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "barriers.c")
    settings = {"OFFBEAT_NODE_RANKS": "2", "OFFBEAT_VERBOSE": "1"}
    result = run(mpi, 4, [program, "20"], environment=settings).succeeded()
    assert result.report_of("barrier").served == 0, str(result)
    assert "offbeat: barrier of any length, ranks: 4: native (" in result.stderr, str(result)


def test_another_collective_on_another_rank_is_named(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "other_collective.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_CHECK": "1"}, timeout=60)
    assert "mismatched collectives: rank 0 has MPI_Barrier of nothing; rank 1 has MPI_Allreduce of 1 x " in (
        result.stderr
    ), str(result)


@on_mpis(lambda mpi: mpi.python is not None and mpi.family != "mpiabi")
def test_python(mpi: Mpi) -> None:
    result = run(mpi, 2, [mpi.python, PROGRAMS / "barriers.py"]).succeeded()
    assert result.report_of("barrier").served >= 50, str(result)
