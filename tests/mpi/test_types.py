# SPDX-License-Identifier: BSD-3-Clause
"""Programs make types and operations of their own, and let the result lie in the input."""

from __future__ import annotations

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, Result, compile_program, on_mpis, only_deep_on, run

MESSAGES = {
    "OFFBEAT_BOARD_KIB": "0",
    "OFFBEAT_ALLREDUCE": "recursive_doubling",
    "OFFBEAT_BCAST": "binomial",
    "OFFBEAT_REDUCE": "binomial",
}


def own_types(
    mpi: Mpi, ranks: int, case: str, environment: dict[str, str] | None = None, timeout: float = 120
) -> Result:
    program = compile_program(mpi, PROGRAMS / "own_types.c")
    return run(mpi, ranks, [program, case], environment=environment, timeout=timeout).succeeded()


@pytest.mark.parametrize("settings", [{}, MESSAGES], ids=["board", "messages"])
def test_types_of_every_kind(mpi: Mpi, settings: dict[str, str]) -> None:
    report = own_types(mpi, 3, "layouts", settings).report_of("bcast")
    assert report.served == report.intercepted


@INSIDE_OFFBEAT
@pytest.mark.in_turn(1, "settings", "mpi")
@pytest.mark.parametrize("settings", [{}, {"OFFBEAT_BOARD_KIB": "64"}], ids=["board", "many rounds"])
def test_long_calls_with_types_of_every_kind(mpi: Mpi, settings: dict[str, str]) -> None:
    report = own_types(mpi, 2, "long", settings | {"OFFBEAT_ADAPT": "off"}).report_of("bcast")
    assert report.served == report.intercepted


@pytest.mark.parametrize("ranks", [1, 2])
def test_types_with_gaps_on_a_communicator_of_one_rank(mpi: Mpi, ranks: int) -> None:
    assert own_types(mpi, ranks, "alone").report_of("gather").served > 0


def test_two_threads_with_types_at_bottom(mpi: Mpi) -> None:
    assert own_types(mpi, 2, "threads").report_of("bcast").served > 0


@INSIDE_OFFBEAT
def test_long_calls_take_little_memory(mpi: Mpi) -> None:
    report = own_types(mpi, 2, "memory", {"OFFBEAT_ADAPT": "off"}).report_of("bcast")
    assert report.served == report.intercepted == 7


@only_deep_on(lambda mpi: True)  # takes 9 GB of memory
def test_an_element_longer_than_an_int_can_say(mpi: Mpi) -> None:
    assert own_types(mpi, 2, "huge", timeout=300).report_of("bcast").served == 1


HOW = {  # settings
    "board": {"OFFBEAT_ALLREDUCE": "arrival_tree", "OFFBEAT_REDUCE": "arrival_tree"},
    "many rounds": {"OFFBEAT_BOARD_KIB": "64"},
    "messages": MESSAGES,
    "messages that are cut": {"OFFBEAT_ALLREDUCE": "ring", "OFFBEAT_REDUCE": "pipeline(3, chain)"},
    "nodes": {
        "OFFBEAT_NODE_RANKS": "2",
        "OFFBEAT_ALLREDUCE": "hierarchy(arrival_tree, rabenseifner)",
        "OFFBEAT_REDUCE": "hierarchy(arrival_tree, binomial)",
    },
}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("how", HOW)
def test_a_user_operation_gets_whole_objects(mpi: Mpi, ranks: int, how: str) -> None:
    """The host may cut the vectors of calls that it serves, so offbeat has to serve all of them."""
    scatters = {"OFFBEAT_REDUCE_SCATTER": "ring", "OFFBEAT_REDUCE_SCATTER_BLOCK": "ring"}
    program = compile_program(mpi, PROGRAMS / "objects.c")
    result = run(mpi, ranks, [program], environment=HOW["board"] | scatters | HOW[how]).succeeded()
    for collective in ("reduce", "reduce_scatter", "reduce_scatter_block"):
        report = result.report_of(collective)
        assert report.served == report.intercepted, str(result)


# Others report an error, on rank 0 alone.
@on_mpis(lambda mpi: mpi.kind == "openmpi")
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_result_may_lie_in_the_input(mpi: Mpi, ranks: int) -> None:
    program = compile_program(mpi, PROGRAMS / "result_in_input.c")
    result = run(mpi, ranks, [program]).succeeded()
    for collective in ("reduce_scatter", "reduce_scatter_block"):
        report = result.report_of(collective)
        assert report.served == report.intercepted, str(result)
