# SPDX-License-Identifier: BSD-3-Clause
"""What is expected of `programs/exchanges.cpp`, random calls of every collective."""

from __future__ import annotations

import functools
import re

from harness import MPIS, PROGRAMS, Result, compile_program, number, run

CALLS = ("12", "300", "3000")  # seed, how many, the longest


@functools.cache
def natively(ranks: int, calls: tuple[str, ...] = CALLS, mode: str = "blocking") -> list[str]:
    """The words of an MPI that does these calls right; Intel MPI and older MPICHs do not."""
    mpi = MPIS["openmpi"]
    command = [compile_program(mpi, PROGRAMS / "exchanges.cpp"), *calls, "alike", mode]
    return hashes(run(mpi, ranks, command, preload=False, timeout=120).succeeded().stdout)


def hashes(text: str) -> list[str]:
    return sorted(re.findall(r"^rank \d+: [0-9a-f]{16}$", text, re.MULTILINE))


def expect_all_served(result: Result) -> None:
    made = re.findall(r"^made (\w+): (\d+)$", result.stdout, re.MULTILINE)
    assert len(made) == 16, str(result)
    for collective, calls in made:
        report = result.report_of(collective)
        assert report.served == report.intercepted >= int(calls) > 0, f"{collective}\n{result}"


def expect_some_served(result: Result, collectives: set[str]) -> None:
    """Check that offbeat serves these collectives at some lengths at least.

    The host gets collectives that have no default between nodes, except for calls on one rank.
    """
    for collective in collectives:
        assert result.report_of(collective).served > number(f"alone {collective}", result), (
            f"{collective}\n{result}"
        )
    for collective in ("barrier", "alltoallv", "gatherv", "scatterv", "scan", "exscan"):
        alone = number(f"alone {collective}", result)
        assert result.report_of(collective).served == alone, f"{collective}\n{result}"
