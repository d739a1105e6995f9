# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests of the collectives, from its source distribution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from clients import mpi4py_source
from harness import MPIS, REPORT, Result, run
from offbeat.bench.plan import COLLECTIVES


@pytest.fixture(scope="session")
def source() -> Path:
    return mpi4py_source()


def run_suite(source: Path, name: str, patterns: list[str], expression: str | None = None) -> Result:
    """The files test_PATTERN*.py; -f: stop at the first failure, with all ranks."""
    chosen = [word for pattern in patterns for word in ("-i", pattern)]
    suite = [MPIS[name].python, source / "test" / "main.py", "-q", "-f", *chosen]
    result = run(MPIS[name], 2, suite, allreduce=expression, timeout=300, cwd=source).succeeded()
    assert re.search(r"^OK", result.stderr, re.M), str(result)
    return result


def fewest(result: Result) -> int:
    return min((int(number) for number in re.findall(r"^Ran (\d+) tests", result.stderr, re.M)), default=0)


@pytest.mark.in_turn(1, "name")
@pytest.mark.parametrize("expression", [None, "ring", "pipeline(4, rabenseifner)"])
@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi"])
def test_collectives(source: Path, name: str, expression: str | None) -> None:
    """All of them, blocking, non-blocking and persistent; the host serves inter-communicators."""
    result = run_suite(source, name, ["cco"], expression)
    assert fewest(result) > 500, str(result)
    reports = [(int(intercepted), int(served)) for _, intercepted, served, _ in REPORT.findall(result.stderr)]
    intercepted, served = map(sum, zip(*reports, strict=True))
    assert len(reports) == len(COLLECTIVES), str(result)
    assert intercepted > 90_000, str(result)
    assert served >= 0.9 * intercepted, str(result)


@pytest.mark.parametrize("name", ["openmpi", "mpich", "impi"])
def test_what_shares_functions_with_collectives(source: Path, name: str) -> None:
    """Requests, threads, messages, windows, and revoked communicators."""
    result = run_suite(
        source, name, ["request", "grequest", "threads", "p2p_buf", "rma", "ulfm", "comm", "file"]
    )
    assert fewest(result) > 300, str(result)
