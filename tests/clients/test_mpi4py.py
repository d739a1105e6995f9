# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests of the collectives, from its source distribution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from clients import mpi4py_source
from harness import MPIS, run


@pytest.fixture(scope="session")
def source() -> Path:
    return mpi4py_source()


@pytest.mark.parametrize("expression", [None, "ring", "pipeline(4, rabenseifner)"])
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_collectives(source: Path, name: str, expression: str | None) -> None:
    mpi = MPIS[name]
    # -i cco: the files test_cco_*.py, all collectives; -f: stop at the first failure, with all ranks.
    suite = [mpi.python, source / "test" / "main.py", "-q", "-f", "-i", "cco"]
    result = run(mpi, 2, suite, allreduce=expression, timeout=300, cwd=source).succeeded()
    assert re.search(r"^OK", result.stderr, re.M), str(result)
    ran = [int(number) for number in re.findall(r"^Ran (\d+) tests", result.stderr, re.M)]
    assert min(ran, default=0) > 500, str(result)
    assert result.report.intercepted > 1000, str(result)
    assert result.report.served > 100 or expression is None, str(result)
