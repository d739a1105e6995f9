# SPDX-License-Identifier: BSD-3-Clause
"""Requests are completed in long lists, by functions of the host, and without memory."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, Result, compile_program, library, number, on_mpis, run


def run_counted(mpi: Mpi, ranks: int, program: Path, *arguments: str) -> Result:
    result = run(mpi, ranks, [program, *arguments], timeout=120).succeeded()
    assert result.report.served == result.report.intercepted == result.calls > 0, str(result)
    return result


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_long_lists_are_drained_by_every_function(mpi: Mpi, ranks: int) -> None:
    run_counted(mpi, ranks, compile_program(mpi, PROGRAMS / "few_or_many.c", libraries=("-ldl",)))


def test_a_test_that_says_no_changes_no_request(mpi: Mpi) -> None:
    """MPICH asks a request several times in one call, so one of them may end meanwhile."""
    result = run(mpi, 2, [compile_program(mpi, PROGRAMS / "says_no.c"), "5000"], timeout=120).succeeded()
    assert result.report.served >= result.calls > 0, str(result)


# offbeat knows the standard ABI by the name of the host's library, and this one has another name.
@INSIDE_OFFBEAT
@on_mpis(lambda mpi: mpi.family != "mpiabi")
def test_collectives_in_lists_end_without_the_host(mpi: Mpi) -> None:
    """Some 3,500 requests come in lists of 300. Open MPI may be told while a rank waits for a message."""
    counting = compile_program(
        mpi, PROGRAMS / "libmpi_counting.c", "-shared", "-fPIC", "-Wl,--no-as-needed", libraries=("-ldl",)
    )
    program = compile_program(mpi, PROGRAMS / "few_or_many.c", libraries=("-ldl",))
    preload = Path(f"{library(mpi.preload)}:{counting}")
    result = run(mpi, 2, [program], preload=preload, timeout=120).succeeded()
    assert result.report.served == result.calls > 3000, str(result)
    # On a busy machine MPICH asks some requests twice before a function of ours sees that they are over.
    assert number("completed by the host", result) < 0.5 * result.calls, str(result)


# MPICH's libmpi_abi itself writes through these pointers.
@on_mpis(lambda mpi: mpi.family != "mpiabi")
def test_a_function_without_a_place_for_its_result_completes_nothing(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "null_outputs.c")
    lines = re.compile(r"^\w+.*: class \d+, left 1$", re.M)
    expected = lines.findall(run(mpi, 2, [program], preload=False).succeeded().stdout)
    assert len(expected) == 8
    result = run(mpi, 2, [program]).succeeded()
    assert lines.findall(result.stdout) == expected, str(result)
    assert result.report.native == 0, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_functions_that_a_program_looks_up_complete_requests(mpi: Mpi, ranks: int) -> None:
    """The program finds functions by dlsym in libmpi, where the host's functions are."""
    program = compile_program(mpi, PROGRAMS / "foreign.c", libraries=("-ldl",))
    run_counted(mpi, ranks, program, "looked-up")


@INSIDE_OFFBEAT
def test_the_library_may_have_any_name(mpi: Mpi, tmp_path: Path) -> None:
    """It looks the host's functions up by dlsym, which it also defines."""
    renamed = tmp_path / "renamed.so"
    shutil.copy(library(mpi.preload), renamed)
    result = run(mpi, 2, [compile_program(mpi, PROGRAMS / "sum_once.c")], preload=renamed, timeout=60)
    assert result.succeeded().report.served == result.calls > 0, str(result)


@on_mpis(lambda mpi: mpi.family != "mpiabi")  # the standard ABI does not let the host ask
@pytest.mark.parametrize("ranks", [2, 3])
def test_functions_of_the_host_complete_requests(mpi: Mpi, ranks: int) -> None:
    """A library's calls do not reach offbeat, so the host itself learns that a collective is over."""
    program = compile_program(mpi, PROGRAMS / "foreign.c", libraries=("-ldl",))
    past_us = compile_program(
        mpi, PROGRAMS / "foreign_library.c", "-shared", "-fPIC", name="foreign_library.so"
    )
    run_counted(mpi, ranks, program, str(past_us))


@on_mpis(lambda mpi: mpi.name == "mpich")  # whose extension it is, since version 5
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_program_may_look_at_requests_without_completing_them(mpi: Mpi, ranks: int) -> None:
    run_counted(mpi, ranks, compile_program(mpi, PROGRAMS / "is_complete.c"))


@INSIDE_OFFBEAT
@pytest.mark.parametrize("rank", [0, 1])
def test_without_memory_requests_are_errors(mpi: Mpi, rank: int) -> None:
    """Nothing but an error code leaves a function, whichever piece of memory is refused."""
    faulty = compile_program(
        mpi, PROGRAMS / "libmpi_faulty.c", "-shared", "-fPIC", "-Wl,--no-as-needed", libraries=("-ldl",)
    )
    program = compile_program(mpi, PROGRAMS / "out_of_requests.c", libraries=("-ldl",))
    preload = Path(f"{library(mpi.preload)}:{faulty}")
    result = run(mpi, 2, [program, str(rank)], preload=preload, timeout=120).succeeded()
    assert number("refused", result) >= 5, str(result)


@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich", "impi"))
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_persistent_call_that_the_host_started_is_waited_for(mpi: Mpi, ranks: int) -> None:
    """Also while a collective of offbeat's is under way."""
    program = compile_program(mpi, PROGRAMS / "host_started.c")
    result = run(mpi, ranks, [program], allreduce="native").succeeded()
    assert result.report_of("barrier").served > 0, str(result)
    assert result.report.native == 12, str(result)
