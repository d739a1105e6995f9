# SPDX-License-Identifier: BSD-3-Clause
"""What functions say of lists of requests in which some have failed; the table is in failed_requests.h."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import PROGRAMS, Mpi, compile_program, remove_abandoned, run


def compiled(mpi: Mpi) -> Path:
    # The header of the standard ABI does not name its MPI.
    of_open_mpi = ["-DOPEN_MPI", "-DOMPI_MAJOR_VERSION=6"] if mpi.name == "openmpi-abi" else []
    return compile_program(mpi, PROGRAMS / "failed_requests.c", *of_open_mpi)


@pytest.mark.kinds(3)
@pytest.mark.in_turn(1, "number")
@pytest.mark.parametrize("number", ["0", "1"])
def test_each_request_of_a_list_has_its_own_error(mpi: Mpi, number: str) -> None:
    program = compiled(mpi)
    result = run(mpi, 2, [program, "all", number], timeout=120).succeeded()
    assert result.report.native == 0, str(result)
    # All calls but the first four are on communicators on which a collective then fails.
    failures = result.calls - 4
    assert failures > 40, str(result)
    assert result.stderr.count(" has failed: no memory") >= failures, str(result)


def test_the_table_is_what_an_mpi_does_by_itself(mpi: Mpi) -> None:
    program = compiled(mpi)
    run(mpi, 2, [program, "host", "0"], preload=False, timeout=120).succeeded()


@pytest.mark.in_turn(1, "row", "mpi")
@pytest.mark.parametrize("row", range(7))
def test_an_error_is_fatal_if_the_hosts_would_be(mpi: Mpi, row: int) -> None:
    program = compiled(mpi)
    before = {path.name for path in Path("/dev/shm").iterdir()}
    result = run(mpi, 2, [program, "fatal", row], timeout=60)
    remove_abandoned({path.name for path in Path("/dev/shm").iterdir()} - before)  # MPICH leaves its own
    assert "now fatal" in result.stdout, str(result)
    assert "not fatal" not in result.stdout, str(result)
    assert result.returncode != 0, str(result)
