# SPDX-License-Identifier: BSD-3-Clause
"""A part of a run can be traced: by MPI_Pcontrol, by collective, and by communicator."""

from __future__ import annotations

from pathlib import Path

import pytest
import trace_file
from harness import PROGRAMS, Mpi, compile_program
from tracing import traced

PARTIAL = 4
WORLD = [("allreduce", number) for number in range(3)] + [("bcast", 9)]
COLLECTIVES, COMMUNICATORS = "OFFBEAT_TRACE_COLLECTIVES", "OFFBEAT_TRACE_COMMUNICATORS"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [*WORLD, ("barrier", 0), ("barrier", 0)]),
        ({"OFFBEAT_TRACE_PAUSED": "1"}, [("bcast", 9), ("barrier", 0), ("barrier", 0)]),
        ({COLLECTIVES: "bcast,allreduce"}, WORLD),
        ({COMMUNICATORS: "rows"}, [("barrier", 0)]),
        ({COMMUNICATORS: "1"}, [("barrier", 0)]),
        ({COMMUNICATORS: "world"}, [*WORLD, ("barrier", 0)]),
        ({COMMUNICATORS: "2..", COLLECTIVES: "barrier"}, [("barrier", 0)]),
    ],
)
def test_a_part_of_a_run_is_traced(
    mpi: Mpi, tmp_path: Path, settings: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    """Calls that are not recorded are counted, so their numbers stay equal on all ranks."""
    program = compile_program(mpi, PROGRAMS / "phases.c")
    traced(mpi, 2, [program], tmp_path / "run.trace", **settings).succeeded()
    for trace in trace_file.read_all(tmp_path / "run.trace"):
        assert [(call.collective, call.number) for call in trace.calls] == expected
        assert trace.flags & PARTIAL, "the file says that calls were left out"
        assert trace.lost == 0
