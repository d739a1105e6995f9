# SPDX-License-Identifier: BSD-3-Clause
"""If the program's MPI is of another family than the preload, the program runs natively; one line says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import PROGRAMS, Mpi, Result, compile_program, library, on_mpis, run
from offbeat.mpi.libraries import PRELOADS


def preloads(mpi: Mpi) -> list[Path]:
    """All that do not fit. That of Open MPI 5 serves what it knows under Open MPI 6."""
    fitting = {mpi.preload, "openmpi"} if mpi.preload == "openmpi6" else {mpi.preload}
    return [library(name) for name in PRELOADS if name not in fitting]


def is_native(result: Result, *words: str) -> None:
    lines = [line for line in result.stderr.splitlines() if "offbeat: " in line]
    assert result.returncode == 0, str(result)
    assert "ok: 1 cases" in result.stdout, str(result)
    assert len(lines) == 1, str(result)
    for word in words:
        assert word in lines[0], str(result)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("wrong", [0, 1, -1])
def test_every_call_goes_to_the_programs_mpi(mpi: Mpi, ranks: int, wrong: int) -> None:
    program = compile_program(mpi, PROGRAMS / "other_family.c", "-ldl")
    preload = preloads(mpi)[wrong]
    # No setting is read, so a bad one is no error.
    settings = {"OFFBEAT_WAIT": "nonsense", "OFFBEAT_ALREDUCE": "ring"}
    result = run(mpi, ranks, [program], preload=preload, environment=settings, timeout=60)
    is_native(result, preload.name, f"({mpi.family})", "all calls go to that MPI")


def test_so_it_does_under_the_tracer(mpi: Mpi, tmp_path: Path) -> None:
    program = compile_program(mpi, PROGRAMS / "other_family.c", "-ldl")
    preload = preloads(mpi)[0]
    tracer = preload.with_name(preload.name.replace("liboffbeat-", "liboffbeat-trace-"))
    folder = tmp_path / "trace"
    result = run(mpi, 2, [program], preload=tracer, environment={"OFFBEAT_TRACE": str(folder)}, timeout=60)
    is_native(result, f"({mpi.family})")
    assert not folder.exists()


@on_mpis(lambda mpi: mpi.preload == "openmpi6")
def test_functions_that_the_preload_of_open_mpi_5_lacks_are_told_of(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], preload=library("openmpi"), timeout=60).succeeded()
    assert result.report.served > 0, str(result)
    assert result.stderr.count("MPI_Allreduce_c and other functions that liboffbeat-openmpi.so") == 1, str(
        result
    )


@on_mpis(lambda mpi: mpi.family == "openmpi")
def test_large_counts_that_only_the_preload_has(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "other_family.c", "-ldl")
    for preload in preloads(mpi):
        is_native(run(mpi, 2, [program, "large"], preload=preload, timeout=60), preload.name)


def test_behind_another_family_the_right_library_serves(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    both = f"{preloads(mpi)[0]}:{library(mpi.preload)}"
    result = run(mpi, 2, [program], preload=Path(both), timeout=60).succeeded()
    assert result.report.served > 0, str(result)
    lines = [line for line in result.stderr.splitlines() if "all calls go to that MPI" in line]
    assert len(lines) == 1, str(result)


@on_mpis(lambda mpi: mpi.name == "mpich-abi")
def test_a_standard_abi_in_front_of_open_mpi_is_a_standard_abi(mpi: Mpi) -> None:
    """The libmpi_abi of Open MPI 6 needs a library with Open MPI's own symbols."""
    flags = ("-shared", "-fPIC", "-Wl,--no-as-needed")
    front = compile_program(mpi, PROGRAMS / "libmpi_abi_front.c", *flags, libraries=("-ldl",))
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    preload = Path(f"{library(mpi.preload)}:{front}")
    result = run(mpi, 2, [program], preload=preload, allreduce="native", timeout=60).succeeded()
    assert result.report.native > 0, str(result)
    assert "allreduces of the host: " in result.stdout, str(result)
