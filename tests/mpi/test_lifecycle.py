# SPDX-License-Identifier: BSD-3-Clause
"""Start, end, and what is left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness import CORES, PROGRAMS, Mpi, compile_program, library, on_mpis, remove_abandoned, run, running
from offbeat.mpi.libraries import PRELOADS


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("mode", ["init", "thread", "unused", "leftover"])
def test_communicators_come_and_go(mpi: Mpi, ranks: int, mode: str) -> None:
    rounds = "20" if mpi.slow_when_oversubscribed and ranks > CORES else "200"
    program = compile_program(mpi, PROGRAMS / "lifecycle.c")
    result = run(
        mpi, ranks, [program, mode, "--rounds", rounds], allreduce="recursive_doubling", environment={}
    ).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    assert result.report.served > 0 or ranks == 1, str(result)


def test_memory_is_bounded_for_any_number_of_communicators(mpi: Mpi) -> None:
    """Without a bound 1 MiB on each of these communicators takes gigabytes."""
    program = compile_program(mpi, PROGRAMS / "much_memory.c")
    # MPICH has room for 2000. Intel MPI runs small collectives, as setting up does, on some 450.
    at_a_time = {"openmpi": "1500", "impi": "375"}.get(mpi.name, "750")
    settings = {"OFFBEAT_MEMORY_MIB": "16"}
    most_mib = "96" if mpi.name == "impi" else "80"  # where our communicators take 70 MiB
    result = run(
        mpi, 2, [program, "1500", most_mib, at_a_time], environment=settings, timeout=180
    ).succeeded()
    assert result.report.served == result.calls, str(result)


@pytest.mark.parametrize("ranks", [1, 2])
@on_mpis(lambda mpi: mpi.name != "debian-openmpi")  # Open MPI 4 has no sessions
def test_session(mpi: Mpi, ranks: int) -> None:
    # Without MPI_Init there is no MPI_Finalize to report at: what counts is that the answers are right.
    program = compile_program(mpi, PROGRAMS / "sessions.c")
    assert run(mpi, ranks, [program], allreduce="ring").succeeded().calls > 0


def test_a_main_thread_may_leave_before_the_process_ends(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "main_leaves.c")
    run(mpi, 2, [program], allreduce="arrival_tree", timeout=60).succeeded()


@pytest.mark.in_turn(1, "expression", "mpi")
@pytest.mark.parametrize("expression", ["ring", "arrival_tree", "native"])
def test_killed_rank_leaves_nothing_behind(mpi: Mpi, expression: str) -> None:
    program = compile_program(mpi, PROGRAMS / "killed.c")
    before = set(os.listdir("/dev/shm"))
    result = run(mpi, 3, [program], allreduce=expression, timeout=60)
    assert "ten calls done" in result.stdout, str(result)
    assert result.returncode != 0, str(result)
    assert not running(str(program)), f"processes are left\n{result}"
    new = set(os.listdir("/dev/shm")) - before
    remove_abandoned(new)  # MPICH leaves its own
    assert not [name for name in new if "offbeat" in name], f"/dev/shm has {new}"


@pytest.mark.parametrize("name", PRELOADS)
@pytest.mark.parametrize(
    "command", [["/bin/sh", "-c", "ls / | cat"], ["python3", "-c", "import threading, ctypes"]]
)
def test_a_program_without_mpi_does_not_notice(name: str, command: list[str]) -> None:
    """LD_PRELOAD reaches every child process."""
    environment = os.environ | {
        "LD_PRELOAD": str(library(name)),
        "OFFBEAT_ALLREDUCE": "ring",
        "OFFBEAT_REPORT": "1",
    }
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


@pytest.mark.parametrize("name", PRELOADS)
def test_library_needs_no_mpi(name: str) -> None:
    text = subprocess.run(
        ["readelf", "--dynamic", "--wide", str(library(name))],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
    needed = [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]
    assert needed, text
    assert not [name for name in needed if Path(name).name.startswith("libmpi")], needed
