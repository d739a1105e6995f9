# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py, and the command line: the two ways in that load libmpi differently from a C program."""

from __future__ import annotations

import pytest
from harness import PROGRAMS, VENV, Mpi, Result, clean_environment, compile_program, execute, on_mpis, run


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("expression", [None, "ring", "native"])
@on_mpis(lambda mpi: mpi.python is not None and mpi.family != "mpiabi")  # mpi4py takes the vendor's ABI first
def test_mpi4py(mpi: Mpi, ranks: int, expression: str | None) -> None:
    result = run(mpi, ranks, [mpi.python, PROGRAMS / "python_sums.py"], allreduce=expression).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    if expression == "native":
        assert result.report.served == 0, str(result)
    elif expression is not None and ranks > 1:
        assert result.report.served > 0, str(result)


def offbeat_run(mpi: Mpi, *command: str) -> Result:
    """`offbeat run` without --mpi: it has to find out what the program uses."""
    dropped = set(mpi.environment) - {"OMPI_MCA_pml", "OMPI_MCA_btl"}
    environment = {name: value for name, value in clean_environment(mpi).items() if name not in dropped}
    environment["OFFBEAT_REPORT"] = "1"
    line = [str(VENV / "bin" / "offbeat"), "run", "-n", "2", "--allreduce", "ring", "--", *command]
    return execute(line, environment, timeout=120)


def test_offbeat_run_finds_the_mpi_of_a_binary(mpi: Mpi) -> None:
    result = offbeat_run(mpi, str(compile_program(mpi, PROGRAMS / "sum_once.c"))).succeeded()
    assert result.report.served == result.calls == 2, str(result)


@on_mpis(lambda mpi: mpi.python is not None and mpi.family != "mpiabi")
def test_offbeat_run_finds_the_mpi_of_a_python(mpi: Mpi) -> None:
    result = offbeat_run(mpi, str(mpi.python), str(PROGRAMS / "python_sums.py")).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    assert result.report.served > 0, str(result)
