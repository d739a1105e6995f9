# SPDX-License-Identifier: BSD-3-Clause
"""The program's other messages move while offbeat serves its collectives, as fast as without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fabric import BY_FABRIC, needs_fabric
from harness import CPUS, PROGRAMS, Mpi, Result, compile_program, library, on_mpis, run
from spawning import run_spawning

# A receiver that cannot read the sender's memory: a long message goes piece by piece, each in a turn of both.
PIECE_BY_PIECE = {"OMPI_MCA_smsc": "^cma"}


@pytest.mark.in_turn(1, "wait", "mpi")
@pytest.mark.parametrize("wait", ["auto", "yield"])
@pytest.mark.parametrize(("ranks", "count"), [(2, 1), (2, 20_000), (4, 1)])
def test_a_message_is_delivered_though_only_allreduce_is_called(
    mpi: Mpi, ranks: int, count: int, wait: str
) -> None:
    """It takes 200 to 3000 calls where the MPI has turns when it has work, and for ever where it has none."""
    program = compile_program(mpi, PROGRAMS / "only_allreduce.c")
    settings = PIECE_BY_PIECE | {"OFFBEAT_WAIT": wait}
    command = [program, "67108864", str(count), "50000"]
    result = run(mpi, ranks, command, allreduce="arrival_tree", environment=settings).succeeded()
    assert result.report.served == result.calls, str(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_always_comes_last_receives_its_messages(mpi: Mpi, ranks: int) -> None:
    """It takes some 0.05 s, and 0.3 s without offbeat, if four ranks share two cores (I_MPI_SHM=spr)."""
    program = compile_program(mpi, PROGRAMS / "late_receiver.c")
    result = run(mpi, ranks, [program, "1000000", "10"], environment=PIECE_BY_PIECE).succeeded()
    assert result.report.served == result.calls, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_write_gives_its_lock_back(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    """The write is over when the collective begins, but the MPI has to notice."""
    program = compile_program(mpi, PROGRAMS / "atomic_writes.c")
    result = run(mpi, ranks, [program, str(tmp_path / "file"), "8"]).succeeded()
    # A host may call collectives itself for its files.
    assert result.report.served == result.report.intercepted >= result.calls, str(result)


def fastest_letters(mpi: Mpi, ranks: int, expression: str, settings: dict[str, str]) -> float:
    """Microseconds for each of 100 synchronous sends to a rank that waits."""
    program = compile_program(mpi, PROGRAMS / "letters.c")
    settings = {"OFFBEAT_WAIT": "yield"} | settings
    command = [program, "10", "100"]
    result = run(mpi, ranks, command, allreduce=expression, environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    fastest = re.search(r"^fastest: ([\d.]+) us each$", result.stdout, re.M)
    assert fastest, str(result)
    return float(fastest[1])


@pytest.mark.parametrize("expression", ["arrival_tree", "recursive_doubling"])
def test_who_waits_for_long_answers_messages_soon(mpi: Mpi, expression: str) -> None:
    """On a board, whose bell rings, and in messages. A nap for each letter would make it a millisecond."""
    assert fastest_letters(mpi, 4, expression, {}) < 500


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_messages_that_libfabric_matches_are_answered_soon(mpi: Mpi) -> None:
    """Open MPI then answers a synchronous send when it completes operations, which no probe does: 2200 us."""
    libfabric = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "tcp"}
    assert fastest_letters(mpi, 4, "arrival_tree", libfabric) < 500


# -- non-blocking collectives while a rank waits inside another call

BLOCKING_CALLS = (
    "recv", "ssend", "sendrecv", "probe", "mprobe", "wait", "waitany", "persistent", "barrier", "allreduce",
    "gatherv", "barrier_across", "win_fence", "win_unlock", "win_flush", "file_write_all", "comm_dup",
    "comm_split", "win_create", "finalize",
)  # fmt: skip

WITHOUT_OFFBEAT_NEVER = {"debian-openmpi": {"win_create"}, "debian-mpich": {"win_unlock", "win_flush"}}


@pytest.mark.in_turn(1, "count", "mpi")
@pytest.mark.parametrize("count", [100, 3_000_000])
@pytest.mark.parametrize("expression", [None, "ring", "pipeline(4, native)"])
def test_whoever_blocks_lets_collectives_advance(
    mpi: Mpi, count: int, expression: str | None, tmp_path: Path
) -> None:
    """On the board, which holds a part of the longer ones, by messages, and by the host in segments."""
    calls = [call for call in BLOCKING_CALLS if call not in WITHOUT_OFFBEAT_NEVER.get(mpi.name, ())]
    command = [compile_program(mpi, PROGRAMS / "blocking_calls.c"), str(count), *calls]
    environment = {"BLOCKING_CALLS_FILE": str(tmp_path / "file")}
    result = run(mpi, 2, command, allreduce=expression, environment=environment, timeout=120).succeeded()
    # Messages advance under Open MPI only; elsewhere the host serves these calls.
    served = 2 if expression == "ring" and mpi.kind != "openmpi" else result.calls
    assert result.report_of("allreduce").served >= served, str(result)


def run_without_calls(mpi: Mpi, count: int, seconds: float, settings: dict[str, str]) -> Result:
    """The stages are not enough for all of them at once, so some begin when others are over."""
    command = [compile_program(mpi, PROGRAMS / "no_calls.c"), str(count), str(seconds)]
    result = run(mpi, 4, command, environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    assert result.report_of("reduce").served >= 4, str(result)
    return result


@pytest.mark.parametrize("count", [100, 400_000])
def test_a_thread_does_the_work_while_nobody_calls(mpi: Mpi, count: int) -> None:
    """Short ones are begun by the program; 400,000 numbers do not fit in the windows at once."""
    result = run_without_calls(mpi, count, 30, {"OFFBEAT_PROGRESS_CPUS": CPUS})
    assert "results without calls: yes" in result.stdout, str(result)


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_without_a_thread_nobody_does(mpi: Mpi) -> None:
    result = run_without_calls(mpi, 400_000, 1, {})
    assert "results without calls: no" in result.stdout, str(result)


@pytest.mark.in_turn(1, "node_ranks", "count", "mpi")
@pytest.mark.parametrize("node_ranks", [1, 2])
@pytest.mark.parametrize("count", [100, 400_000])
@pytest.mark.parametrize("network", ["tcp", pytest.param(BY_FABRIC, marks=needs_fabric)])
def test_a_thread_moves_own_messages_while_nobody_calls(
    mpi: Mpi, network: str, count: int, node_ranks: int
) -> None:
    settings = {
        "OFFBEAT_NODE_RANKS": str(node_ranks),
        "OFFBEAT_NETWORK": network,
        "OFFBEAT_ALLREDUCE": "recursive_doubling" if node_ranks == 1 else "hierarchy(arrival_tree, ring)",
        "OFFBEAT_REDUCE": "binomial" if node_ranks == 1 else "hierarchy(arrival_tree, binomial)",
    }
    result = run_without_calls(mpi, count, 30, settings)
    assert "results without calls: yes" in result.stdout, str(result)


def test_whoever_blocks_and_the_thread_take_turns(mpi: Mpi, tmp_path: Path) -> None:
    calls = [call for call in BLOCKING_CALLS if call not in WITHOUT_OFFBEAT_NEVER.get(mpi.name, ())]
    command = [compile_program(mpi, PROGRAMS / "blocking_calls.c"), "3000000", *calls]
    environment = {"BLOCKING_CALLS_FILE": str(tmp_path / "file"), "OFFBEAT_PROGRESS_CPUS": CPUS}
    result = run(mpi, 2, command, environment=environment, timeout=120).succeeded()
    assert result.report_of("allreduce").served >= result.calls, str(result)


# Nothing advances while Open MPI spawns, with and without offbeat. The others cannot spawn here.
@on_mpis(lambda mpi: mpi.name in ("mpich", "mpich-abi"))
def test_who_spawns_lets_collectives_advance(mpi: Mpi) -> None:
    variables = {"LD_PRELOAD": str(library(mpi.preload)), "OFFBEAT_REPORT": "1"}
    result = run_spawning(mpi, 2, "blocking_calls.c", "3000000", "spawn", variables=variables)
    assert "allreduce: 2 calls intercepted, 2 served" in result.stderr, str(result)
