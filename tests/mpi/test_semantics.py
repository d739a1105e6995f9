# SPDX-License-Identifier: BSD-3-Clause
"""Programs do not notice offbeat: error handlers stay the program's, and all ranks decide alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, compile_program, library, on_mpis, only_deep_on, run

pytestmark = INSIDE_OFFBEAT

IS_RANK_1 = '[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 1 ]'
is_of_mpich = on_mpis(lambda mpi: mpi.family != "openmpi")


def test_error_handlers_are_those_of_the_program(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "untouched.c")
    command = [program, "mpich" if mpi.family != "openmpi" else "openmpi"]
    natively = run(mpi, 2, command, preload=False, timeout=60).succeeded()
    result = run(mpi, 2, command, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    assert result.stdout == natively.stdout, f"{natively}\n{result}"


@is_of_mpich  # Open MPI has room for as many as fit the memory
@only_deep_on(lambda mpi: mpi.name != "mpich")
def test_a_host_without_communicators_left_ends_no_job(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "untouched.c")
    settings = {"OFFBEAT_ALLREDUCE": "ring"}  # which sends messages on a communicator of its own
    result = run(mpi, 2, [program, "exhausted"], environment=settings, timeout=120).succeeded()
    assert result.report.intercepted == result.calls, str(result)


@is_of_mpich
def test_reduce_in_place_on_every_rank_is_served(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "reduce_in_place.c")
    result = run(mpi, 3, [program], timeout=60).succeeded()
    assert result.report_of("reduce").native == 0, str(result)
    # Without a board, the host serves the non-blocking calls, and it may crash.
    settings = {"OFFBEAT_BOARD_KIB": "0", "OFFBEAT_REDUCE": "binomial"}
    result = run(mpi, 3, [program, "blocking"], environment=settings, timeout=60).succeeded()
    assert result.report_of("reduce").native == 0, str(result)


def test_a_mismatch_of_blocks_is_an_error_and_later_calls_work(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "mismatch_of_blocks.c")
    for settings in ({}, {"OFFBEAT_BOARD_KIB": "0"}):
        result = run(mpi, 3, [program], environment={"OFFBEAT_CHECK": "1"} | settings, timeout=60).succeeded()
        lines = re.findall(r"^offbeat: mismatched MPI_(\w+): (.*)$", result.stderr, re.M)
        assert len(lines) == 9, str(result)
        assert dict(lines)["Reduce_scatter"].endswith("rank 2 has 12 x MPI_INT, MPI_SUM, blocks of 3, 5, 4")


@pytest.mark.parametrize("nodes", [1, 2])
def test_traps_and_flags_of_the_program_see_no_arithmetic_of_offbeat(mpi: Mpi, nodes: int) -> None:
    program = compile_program(mpi, PROGRAMS / "traps.c")
    settings = {"OFFBEAT_NODE_RANKS": "1", "OFFBEAT_ALLREDUCE": "grid(auto)"} if nodes > 1 else {}
    result = run(mpi, 2, [program], environment=settings, timeout=60).succeeded()
    assert result.report_of("allreduce").served > 0, str(result)


# -- what the ranks agree on


def test_settings_for_people_decide_nothing(mpi: Mpi) -> None:
    """Elements as wide as these windows take the immediate form, including on the rank that prints lines."""
    program = compile_program(mpi, PROGRAMS / "wide_elements.c")
    settings = {"OFFBEAT_BOARD_KIB": "4", "OFFBEAT_VERBOSE": "1"}
    result = run(mpi, 2, [program], environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    assert re.search(r"^offbeat: allreduce of any length, .*: arrival_tree", result.stderr, re.M), str(result)


def test_ranks_with_different_builds_are_served_by_the_host(mpi: Mpi, tmp_path: Path) -> None:
    """Rank 1 has a copy of the library with another version, like a node that was not updated."""
    original = library(mpi.preload)
    build = original.read_bytes()
    marks = re.findall(rb"offbeat version [\d.]+", build)
    assert len(marks) == 1, marks
    other = tmp_path / original.name
    other.write_bytes(build.replace(marks[0], marks[0][:-1] + b"x"))
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    script = f'if {IS_RANK_1}; then export LD_PRELOAD="$OTHER"; fi; exec "$@"'
    settings = {"OTHER": str(other)}
    result = run(mpi, 3, ["sh", "-c", script, "sh", program], environment=settings, timeout=60).succeeded()
    assert result.stderr.count("ranks have different builds of offbeat") == 1, str(result)
    assert (result.report.intercepted, result.report.served) == (result.calls, 0), str(result)


# In Open MPI, MPI_Finalize waits for the other ranks, so the program hangs without offbeat, too.
@is_of_mpich
def test_a_session_that_outlives_finalize(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sessions_outlive.c")
    run(mpi, 2, [program], preload=False, timeout=60).succeeded()
    assert run(mpi, 3, [program], timeout=60).succeeded().calls > 0


def test_a_report_of_nothing_waits_for_the_end(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "open_line.c")
    result = run(mpi, 1, [program], timeout=60).succeeded()
    assert result.stderr.endswith("a line with an end\noffbeat: no call intercepted\n"), str(result)


def test_the_collective_that_waits_is_named(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "late_bcast.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_STALL_S": "1"}, timeout=60).succeeded()
    lines = re.findall(
        r"^offbeat: (.*) on a communicator of 2 ranks: rank 0 .* has waited", result.stderr, re.M
    )
    assert lines == ["the first bcast"], str(result)
