# SPDX-License-Identifier: BSD-3-Clause
"""Applications and a benchmark suite, unmodified: the same answer as without offbeat.

With two ranks every algorithm adds the same two numbers, so a correct answer has the same bits.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from examl import build as build_examl
from harness import MPIS, Result, run

HERE = Path(__file__).parent
EXPRESSIONS = (None, "recursive_doubling", "ring")


def with_and_without(mpi_name: str, command: list, expression: str | None, **more) -> tuple[Result, Result]:
    """A native run and one under the preload, which has to serve most calls when an algorithm is named."""
    mpi = MPIS[mpi_name]
    native = run(mpi, 2, command, preload=False, **more).succeeded()
    ours = run(mpi, 2, command, allreduce=expression, **more).succeeded()
    if expression is not None:
        assert ours.report.served > ours.report.intercepted * 0.9, str(ours)
    return native, ours


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_petsc_conjugate_gradients(expression: str | None, tmp_path: Path) -> None:
    """Some hundred iterations; each norm depends on all bits of the ones before."""
    (path,) = Path("/usr/lib/petscdir").glob("petsc3*/*-real/lib/python3/dist-packages")
    command = ["/usr/bin/python3", HERE / "petsc_cg.py", "100"]
    environment = {"PYTHONPATH": str(path)}
    native, ours = with_and_without(
        "debian-openmpi", command, expression, environment=environment, cwd=tmp_path
    )
    history = re.findall(r"^residual (\S+)$", native.stdout, re.M)
    assert len(history) > 100, str(native)
    assert re.findall(r"^residual (\S+)$", ours.stdout, re.M) == history
    assert ours.report.intercepted > 2 * len(history), str(ours)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_lammps_melt(expression: str | None, tmp_path: Path) -> None:
    command = ["lmp", "-in", HERE / "in.melt", "-log", "none"]
    native, ours = with_and_without("debian-openmpi", command, expression, cwd=tmp_path)
    thermo = re.findall(r"^ +\d+(?: +-?[\d.e+-]+){5} *$", native.stdout, re.M)
    assert len(thermo) == 101, str(native)
    assert re.findall(r"^ +\d+(?: +-?[\d.e+-]+){5} *$", ours.stdout, re.M) == thermo
    assert ours.report.intercepted > 100, str(ours)


@pytest.mark.parametrize(
    ("name", "expression"), [*(("openmpi", expression) for expression in EXPRESSIONS), ("mpich", None)]
)
def test_examl_tree(name: str, expression: str | None, tmp_path: Path) -> None:
    """The program of ./demo, here with a fixed topology: 47,755 allreduces."""
    examl = build_examl(name, MPIS[name].cc)
    answers = []
    for preload in (False, True):
        folder = tmp_path / ("ours" if preload else "native")
        folder.mkdir()
        chosen = expression if preload else None
        command = examl.command("test", "e")
        result = run(MPIS[name], 2, command, preload=preload, allreduce=chosen, timeout=400, cwd=folder)
        assert result.succeeded()
        answers.append(examl.result(folder, "test", "e"))
    assert answers[0] == answers[1]
    assert result.report.intercepted > 40000, str(result)
    if expression is not None:
        assert result.report.served == result.report.intercepted, str(result)


def test_imb_on_intel_mpi() -> None:
    mpi = MPIS["impi"]
    benchmark = mpi.prefix / "bin" / "IMB-MPI1"
    command = [benchmark, "Allreduce", "-npmin", "2", "-iter", "200", "-msglog", "0:16"]
    result = run(mpi, 2, command, allreduce="recursive_doubling", timeout=300).succeeded()
    rows = re.findall(r"^ +(\d+) +(\d+) +[\d.]+ +[\d.]+ +[\d.]+\s*$", result.stdout, re.M)
    sizes = [int(size) for size, _ in rows]
    assert sizes[-1] == 65536, str(result)
    assert len(sizes) >= 16, str(result)
    timed = sum(int(repetitions) for size, repetitions in rows if int(size) > 0)
    assert result.report.intercepted >= timed, str(result)
    assert result.report.served >= timed, str(result)
