# SPDX-License-Identifier: BSD-3-Clause
"""Programs that overlap MPI_Comm_idup with collectives."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, compile_program, on_mpis, run


@on_mpis(lambda mpi: mpi.kind == "openmpi")
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_nonblocking_call_lets_the_host_do_nothing_else(mpi: Mpi, ranks: int) -> None:
    """MPICH's test comm_idup_iallreduce once hung for this reason on Open MPI."""
    program = compile_program(mpi, PROGRAMS / "quiet.c", libraries=("-ldl",))
    run(mpi, ranks, [program]).succeeded()
