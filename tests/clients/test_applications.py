# SPDX-License-Identifier: BSD-3-Clause
"""Applications and a benchmark suite, unmodified: the same answer as without offbeat.

With two ranks every algorithm adds the same two numbers, so a correct answer has the same bits.
"""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from examl import build as build_examl
from harness import MPIS, Result, run

HERE = Path(__file__).parent
EXPRESSIONS = (None, "recursive_doubling", "ring")


@functools.cache
def natively(
    mpi_name: str, command: tuple[str | Path, ...], environment: tuple[tuple[str, str], ...]
) -> Result:
    """A run without offbeat, once for all expressions."""
    with tempfile.TemporaryDirectory() as folder:
        variables = dict(environment)
        return run(
            MPIS[mpi_name], 2, [*command], preload=False, environment=variables, cwd=Path(folder)
        ).succeeded()


def with_and_without(
    mpi_name: str,
    command: tuple[str | Path, ...],
    expression: str | None,
    cwd: Path,
    environment: dict[str, str] | None = None,
) -> tuple[Result, Result]:
    """A native run and one under the preload, which has to serve most calls when an algorithm is named."""
    native = natively(mpi_name, command, tuple((environment or {}).items()))
    ours = run(
        MPIS[mpi_name], 2, [*command], allreduce=expression, environment=environment, cwd=cwd
    ).succeeded()
    if expression is not None:
        assert ours.report.served > ours.report.intercepted * 0.9, str(ours)
    return native, ours


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_petsc_conjugate_gradients(expression: str | None, tmp_path: Path) -> None:
    """Some hundred iterations; each norm depends on all bits of the ones before."""
    (path,) = Path("/usr/lib/petscdir").glob("petsc3*/*-real/lib/python3/dist-packages")
    command = ("/usr/bin/python3", HERE / "petsc_cg.py", "100")
    environment = {"PYTHONPATH": str(path)}
    native, ours = with_and_without("debian-openmpi", command, expression, tmp_path, environment)
    history = re.findall(r"^residual (\S+)$", native.stdout, re.M)
    assert len(history) > 100, str(native)
    assert re.findall(r"^residual (\S+)$", ours.stdout, re.M) == history
    assert ours.report.intercepted > 2 * len(history), str(ours)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_lammps_melt(expression: str | None, tmp_path: Path) -> None:
    command = ("lmp", "-in", HERE / "in.melt", "-log", "none")
    native, ours = with_and_without("debian-openmpi", command, expression, tmp_path)
    thermo = re.findall(r"^ +\d+(?: +-?[\d.e+-]+){5} *$", native.stdout, re.M)
    assert len(thermo) == 101, str(native)
    assert re.findall(r"^ +\d+(?: +-?[\d.e+-]+){5} *$", ours.stdout, re.M) == thermo
    assert ours.report.intercepted > 100, str(ours)


def examl_run(name: str, expression: str | None, folder: Path, *, preload: bool) -> tuple[Result, Any]:
    """A run of the program of ./demo, here with a fixed topology, and its answer."""
    examl = build_examl(name, MPIS[name].cc)
    command = examl.command("test", "e")
    result = run(MPIS[name], 2, command, preload=preload, allreduce=expression, timeout=400, cwd=folder)
    return result.succeeded(), examl.result(folder, "test", "e")


@functools.cache
def examl_natively(name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return examl_run(name, None, Path(folder), preload=False)[1]


@pytest.mark.parametrize(
    ("name", "expression"), [*(("openmpi", expression) for expression in EXPRESSIONS), ("mpich", None)]
)
def test_examl_tree(name: str, expression: str | None, tmp_path: Path) -> None:
    """47,755 allreduces."""
    result, answer = examl_run(name, expression, tmp_path, preload=True)
    assert answer == examl_natively(name)
    assert result.report.intercepted > 40000, str(result)
    if expression is not None:
        assert result.report.served == result.report.intercepted, str(result)


def test_imb_on_intel_mpi() -> None:
    mpi = MPIS["impi"]
    benchmark = mpi.program("IMB-MPI1")
    command = [benchmark, "Allreduce", "-npmin", "2", "-iter", "200", "-msglog", "0:16"]
    result = run(mpi, 2, command, allreduce="recursive_doubling", timeout=300).succeeded()
    rows = re.findall(r"^ +(\d+) +(\d+) +[\d.]+ +[\d.]+ +[\d.]+\s*$", result.stdout, re.M)
    sizes = [int(size) for size, _ in rows]
    assert sizes[-1] == 65536, str(result)
    assert len(sizes) >= 16, str(result)
    timed = sum(int(repetitions) for size, repetitions in rows if int(size) > 0)
    assert result.report.intercepted >= timed, str(result)
    assert result.report.served >= timed, str(result)
