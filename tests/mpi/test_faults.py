# SPDX-License-Identifier: BSD-3-Clause
"""Late ranks are named, mismatched calls are errors, and what the node refuses is done without."""

from __future__ import annotations

import re

import pytest
from harness import PROGRAMS, Mpi, compile_program, run


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_late_rank_is_named_once(mpi: Mpi, late: int) -> None:
    program = compile_program(mpi, PROGRAMS / "late.c")
    result = run(mpi, 3, [program, str(late), "2500"], environment={"OFFBEAT_STALL_S": "1"}).succeeded()
    waiting = re.findall(r"^offbeat: (allreduce number \d+) .*4000 bytes: rank (\d) on \S+ has waited 1 s for rank (\d) ", result.stderr, re.M)
    assert waiting == [("allreduce number 2", "1" if late == 0 else "0", str(late))], str(result)
    assert len(re.findall(r"^offbeat: allreduce number 2 .*: complete after [23] s$", result.stderr, re.M)) == 1, str(result)


def test_nobody_is_named_when_that_is_off(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "late.c")
    result = run(mpi, 2, [program, "0", "1500"], environment={"OFFBEAT_STALL_S": "0"}).succeeded()
    assert "has waited" not in result.stderr, str(result)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("count", "rank 0 of this node has 10 x MPI_FLOAT, MPI_SUM; rank 1 has 11 x MPI_FLOAT, MPI_SUM"),
        ("type", "rank 1 has 10 x MPI_INT, MPI_SUM"),
        ("op", "rank 1 has 10 x MPI_FLOAT, MPI_MAX"),
    ],
)
def test_a_mismatch_is_an_error_on_every_rank(mpi: Mpi, what: str, says: str) -> None:
    program = compile_program(mpi, PROGRAMS / "mismatch.c")
    result = run(mpi, 3, [program, what], environment={"OFFBEAT_CHECK": "1"}).succeeded()
    assert result.stderr.count(says) == 1, str(result)


def test_without_shared_memory_messages_are_used(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "late.c")
    result = run(mpi, 2, [program, "0", "0"], environment={"OFFBEAT_BOARD_KIB": "0", "OFFBEAT_VERBOSE": "1"})
    assert "recursive_doubling" in result.succeeded().stderr, str(result)
    assert result.report.served == 3, str(result)


def test_different_settings_are_noticed(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "late.c")
    # Rank 1 alone is told to use another algorithm: a deadlock, if each rank went its way.
    script = 'if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 1 ]; then export OFFBEAT_ALLREDUCE=ring; fi; exec "$@"'
    result = run(mpi, 3, ["sh", "-c", script, "sh", program, "0", "0"]).succeeded()
    assert result.stderr.count("ranks have different OFFBEAT_ settings") == 1, str(result)
    assert (result.report.intercepted, result.report.served) == (3, 0), str(result)
