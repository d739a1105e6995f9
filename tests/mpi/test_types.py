# SPDX-License-Identifier: BSD-3-Clause
"""Types that programs make."""

from __future__ import annotations

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, Result, compile_program, run

MESSAGES = {"OFFBEAT_BOARD_KIB": "0", "OFFBEAT_BCAST": "binomial"}


def own_types(
    mpi: Mpi, ranks: int, case: str, environment: dict[str, str] | None = None, timeout: float = 120
) -> Result:
    program = compile_program(mpi, PROGRAMS / "own_types.c")
    return run(mpi, ranks, [program, case], environment=environment, timeout=timeout).succeeded()


@pytest.mark.parametrize("settings", [{}, MESSAGES], ids=["board", "messages"])
def test_types_of_every_kind(mpi: Mpi, settings: dict[str, str]) -> None:
    report = own_types(mpi, 3, "layouts", settings).report_of("bcast")
    assert report.served == report.intercepted


@pytest.mark.parametrize("ranks", [1, 2])
def test_types_with_gaps_on_a_communicator_of_one_rank(mpi: Mpi, ranks: int) -> None:
    assert own_types(mpi, ranks, "alone").report_of("gather").served > 0


def test_two_threads_with_types_at_bottom(mpi: Mpi) -> None:
    assert own_types(mpi, 2, "threads").report_of("bcast").served > 0


@INSIDE_OFFBEAT
def test_nested_types_without_gaps_are_not_packed(mpi: Mpi) -> None:
    assert own_types(mpi, 2, "memory").report_of("bcast").served == 2


@pytest.mark.deep(lambda mpi: True)  # takes 9 GB of memory
def test_an_element_longer_than_an_int_can_say(mpi: Mpi) -> None:
    assert own_types(mpi, 2, "huge", timeout=300).report_of("bcast").served == 1
