# SPDX-License-Identifier: BSD-3-Clause
"""The program's other messages move while offbeat serves its collectives, as fast as without it."""

from __future__ import annotations

import re

import pytest
from harness import PROGRAMS, Mpi, compile_program, run

# A receiver that cannot read the sender's memory: a long message then goes piece by piece, each in a turn of both.
PIECE_BY_PIECE = {"OMPI_MCA_smsc": "^cma"}


@pytest.mark.parametrize("wait", ["auto", "yield"])
@pytest.mark.parametrize(("ranks", "count"), [(2, 1), (2, 20_000), (4, 1)])
def test_a_message_is_delivered_though_only_allreduce_is_called(
    mpi: Mpi, ranks: int, count: int, wait: str
) -> None:
    """It takes 200 to 3000 calls where the MPI has turns when it has work, and never ends where it has none."""
    program = compile_program(mpi, PROGRAMS / "only_allreduce.c")
    settings = PIECE_BY_PIECE | {"OFFBEAT_WAIT": wait}
    command = [program, "67108864", str(count), "50000"]
    result = run(mpi, ranks, command, allreduce="arrival_tree", environment=settings).succeeded()
    assert result.report.served == result.calls, str(result)


def fastest_letters(mpi: Mpi, ranks: int, expression: str, settings: dict[str, str]) -> float:
    """Microseconds for each of 100 synchronous sends to a rank that waits."""
    program = compile_program(mpi, PROGRAMS / "letters.c")
    settings = {"OFFBEAT_WAIT": "yield"} | settings
    command = [program, "10", "100"]
    result = run(mpi, ranks, command, allreduce=expression, environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    fastest = re.search(r"^fastest: ([\d.]+) us each$", result.stdout, re.M)
    assert fastest, str(result)
    return float(fastest[1])


@pytest.mark.parametrize("expression", ["arrival_tree", "recursive_doubling"])
def test_who_waits_for_long_answers_messages_soon(mpi: Mpi, expression: str) -> None:
    """On a board, whose bell rings, and in messages. A nap for each letter would be a millisecond for each."""
    assert fastest_letters(mpi, 4, expression, {}) < 500


@pytest.mark.mpis(lambda mpi: mpi.name == "openmpi")
def test_messages_that_libfabric_matches_are_answered_soon(mpi: Mpi) -> None:
    """Open MPI then answers a synchronous send when it completes operations, which no probe of it does: 2200 us."""
    libfabric = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "tcp"}
    assert fastest_letters(mpi, 4, "arrival_tree", libfabric) < 500
