# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/papers/ft.c, whose results do not depend on the algorithm of its alltoalls."""

from __future__ import annotations

import re
from pathlib import Path

from harness import Mpi, compile_program, run

FT = Path(__file__).resolve().parents[2] / "benchmarks" / "papers" / "ft.c"


def test_a_fourier_transform_is_the_same_by_every_alltoall(mpi: Mpi) -> None:
    """The program itself transforms forth and back."""
    program = compile_program(mpi, FT, libraries=("-lm",))
    checksums = set()
    for algorithm in ("native", "arrival_direct", "linear", "pairwise", "bruck"):
        result = run(mpi, 4, [program, "8", "3"], environment={"OFFBEAT_ALLTOALL": algorithm}).succeeded()
        found = re.search(r"checksum (\S+)$", result.stdout, re.MULTILINE)
        assert found, str(result)
        checksums.add(found[1])
        served = re.search(r"alltoall: (\d+) calls intercepted, (\d+) served", result.stderr)
        assert served, str(result)
        assert (served[1], served[2]) == ("5", "0" if algorithm == "native" else "5"), str(result)
    assert len(checksums) == 1
