# SPDX-License-Identifier: BSD-3-Clause
"""Fortran, in each of its three bindings: no call may pass by, and MPI_IN_PLACE must be understood."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import trace_file
from harness import MPIS, Mpi, compile_program, library, run

PROGRAMS = Path(__file__).parent / "fortran"
BINDINGS = ("sums_mpif", "sums_mpi", "sums_mpi_f08")
# mpif.h declares no interfaces: gfortran takes calls with different types for a mistake.
FLAGS = ("-fallow-argument-mismatch", "-w")
# The calls of MPI_Barrier in each program.
BARRIERS = 5


def intel_flags(prefix: Path) -> list[str]:
    """What Intel's mpif90 should say: in the wheel it looks for gfortran's modules in a wrong folder."""
    text = subprocess.run(
        ["gfortran", "-dumpfullversion"], capture_output=True, text=True, timeout=30, check=True
    )
    major = text.stdout.split(".")[0]
    modules = sorted((prefix / "include" / "mpi" / "gfortran").glob(f"{major}.*"))
    assert modules, f"Intel MPI has no modules for gfortran {major}"
    folders = [modules[-1], prefix / "include", prefix / "include" / "mpi"]
    libraries = prefix / "lib"
    return [
        *(f"-I{folder}" for folder in folders),
        f"-L{libraries}",
        f"-Wl,-rpath,{libraries}",
        "-lmpifort",
        "-lmpi",
    ]


def compiled(mpi: Mpi, binding: str) -> Path:
    source = PROGRAMS / f"{binding}.f90"
    if mpi.kind == "impi" and mpi.prefix:
        # Libraries go behind the source.
        return compile_program(mpi, source, *FLAGS, compiler="gfortran", libraries=intel_flags(mpi.prefix))
    return compile_program(mpi, source, *FLAGS, compiler=re.sub("mpicc", "mpifort", mpi.cc))


CASES = [(mpi, binding) for mpi in ("debian-openmpi", "debian-mpich") for binding in BINDINGS]
CASES += [("impi", "sums_mpif"), ("impi", "sums_mpi")]  # its mpi_f08 module is for Intel's compiler only


@pytest.mark.in_turn(1, "expression")
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("expression", [None, "ring", "native"])
@pytest.mark.parametrize(("name", "binding"), CASES)
def test_every_call_is_intercepted(name: str, binding: str, ranks: int, expression: str | None) -> None:
    mpi = MPIS[name]
    settings = {"OFFBEAT_BARRIER": "native"} if expression == "native" else {}
    command = [compiled(mpi, binding)]
    result = run(mpi, ranks, command, allreduce=expression, environment=settings).succeeded()
    assert result.report.intercepted == result.calls == 12, str(result)
    barrier = result.report_of("barrier")
    assert barrier.intercepted == BARRIERS, str(result)
    if expression != "native" and ranks > 1:
        assert barrier.served == BARRIERS, str(result)
    if expression == "ring" and ranks > 1:
        assert result.report.served >= 11, str(result)  # all but MINLOC, which goes where its type is known
    if expression == "native":
        assert result.report.served == barrier.served == 0, str(result)


@pytest.mark.parametrize(("name", "binding"), CASES)
def test_every_call_is_traced(name: str, binding: str, tmp_path: Path) -> None:
    mpi = MPIS[name]
    tracer = library(mpi.preload).with_name(f"liboffbeat-trace-{mpi.preload}.so")
    folder = tmp_path / "run.trace"
    environment = {"OFFBEAT_TRACE": str(folder)}
    result = run(mpi, 2, [compiled(mpi, binding)], preload=tracer, environment=environment)
    calls = result.succeeded().calls
    for trace in trace_file.read_all(folder):
        assert trace.counts == {("allreduce", "blocking"): calls, ("barrier", "blocking"): BARRIERS}
        assert sum(call.flags & trace_file.IN_PLACE for call in trace.calls) == 6, "Fortran's MPI_IN_PLACE"
        assert all(call.is_complete for call in trace.calls)
