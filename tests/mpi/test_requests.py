# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking and persistent collectives as programs use them; their results are in test_exchanges.py."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, Mpi, Result, compile_program, number, run


def run_requests(mpi: Mpi, ranks: int, *arguments: str, environment: dict[str, str] | None = None) -> Result:
    program = compile_program(mpi, PROGRAMS / "requests.c", "-pthread")
    result = run(mpi, ranks, [program, *arguments], environment=environment, timeout=120).succeeded()
    assert result.report.served == result.report.intercepted == result.calls > 0, str(result)
    return result


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_requests_of_collectives_are_like_others(mpi: Mpi, ranks: int) -> None:
    run_requests(mpi, ranks)


def test_requests_of_the_host_in_segments(mpi: Mpi) -> None:
    run_requests(mpi, 2, environment={"OFFBEAT_ALLREDUCE": "pipeline(4, native)"})


def test_freed_memory_is_not_used(mpi: Mpi) -> None:
    """glibc overwrites what is freed."""
    run_requests(mpi, 2, environment={"MALLOC_PERTURB_": "165"})


def test_another_thread_may_complete_them(mpi: Mpi) -> None:
    run_requests(mpi, 2, "threads")


def test_many_at_once_take_the_memory_of_few(mpi: Mpi) -> None:
    """64 of 1 MiB on each of 2 ranks: they take turns on the board. The host's own memory counts, too."""
    result = run_requests(mpi, 2)
    before, after = number("shared before", result), number("shared after", result)
    assert 0 < before <= after < before + 32 * 1024
