# SPDX-License-Identifier: BSD-3-Clause
"""Between hosts: ranks and hosts that die, a host without memory to share, other settings, a late rank."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm
from harness import PROGRAMS, Result, compile_program, run
from hosts import Cluster, parse_shape
from launch import ClusterMpi, on_hosts, run_job

SHAPE = parse_shape("3+2+1")


def on_n1(what: str) -> list[str]:
    """What to put in front of a program, so that a shell does something first on host n1 alone."""
    return ["sh", "-c", f'if [ "$(hostname)" = n1 ]; then {what}; fi; exec "$@"', "sh"]


def cases(names: list[str]) -> list[str]:
    """Each MPI's mpirun notices that a host is dead. So does Slurm, slowly, and for all MPIs alike."""
    by_slurm = "mpich" if "mpich" in names else names[0]
    return [*(f"{name}-mpirun" for name in names), f"{by_slurm}-srun"]


def expect_nothing_left(mpi: ClusterMpi, marker: str) -> None:
    assert mpi.cluster is not None
    assert mpi.cluster.processes(marker) == []
    for name in mpi.cluster.alive():
        shared = mpi.cluster.run("ls -A /dev/shm", host=name).split()
        assert not [entry for entry in shared if "offbeat" in entry], name


@pytest.mark.in_turn(1, "starter")
@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_a_killed_rank_ends_the_job(three: Cluster, name: str, starter: str) -> None:
    """The last rank, alone on its host, dies while the others wait for it."""
    mpi = on_hosts(name, three, SHAPE, starter)
    program = compile_program(mpi, PROGRAMS / "killed.c")

    def run_it() -> Result:
        return run_job(mpi, [program], environment={"OFFBEAT_VERBOSE": "1"})

    try:
        result = run_it()
    except AssertionError as error:
        # Open MPI's mpirun may go on when its ranks have aborted. That was seen twice.
        if f"{mpi.kind}-{starter}" != "openmpi-mpirun" or "MPI_ERRORS_ARE_FATAL" not in str(error):
            raise
        three.empty()
        result = run_it()
    assert result.returncode != 0, str(result)
    assert "ten calls done" in result.stdout, str(result)
    assert "offbeat: allreduce up to 512 B, ranks: 6: hierarchy" in result.stderr, str(result)
    expect_nothing_left(mpi, str(program))


@pytest.mark.in_turn(2, "case")
def test_a_killed_host_ends_the_job(case: str, tmp_path: Path) -> None:
    """The second host dies while all ranks are in their calls."""
    name, starter = case.rsplit("-", 1)
    with Cluster(3) as cluster:
        if starter == "srun":
            slurm.start(cluster)
        mpi = on_hosts(name, cluster, SHAPE, starter)
        program = compile_program(mpi, PROGRAMS / "endless.c")
        # MPICH's launcher, which is Intel's, too, sees connections end, but never misses a silent host.
        silently = mpi.kind == "openmpi" or starter == "srun"
        killer = Killer(cluster, "n1", tmp_path / "calls", silently=silently)
        killer.start()
        try:
            # run_job would start it again, without anybody to kill.
            settings = {"OFFBEAT_VERBOSE": "1"}
            result = run(mpi, 6, [program, "1000000000", killer.marker], environment=settings, timeout=180)
        finally:
            killer.job_is_over.set()
            killer.join()
        assert killer.has_killed, f"it ended before its host did\n{result}"
        # Open MPI's says it in words only.
        assert result.returncode != 0 or "A daemon failed to report back" in result.stdout, str(result)
        assert "offbeat: allreduce up to 512 B, ranks: 6: hierarchy" in result.stderr, str(result)
        assert "calls intercepted" not in result.stderr, f"it came to its end\n{result}"
        expect_nothing_left(mpi, str(program))


class Killer(threading.Thread):
    """Kills a host a second after a program has made a file, when the program's output has arrived."""

    def __init__(self, cluster: Cluster, host: str, marker: Path, *, silently: bool) -> None:
        super().__init__(daemon=True)
        self.cluster, self.host, self.marker, self.silently = cluster, host, marker, silently
        self.has_killed = False
        self.job_is_over = threading.Event()

    def run(self) -> None:
        while not self.marker.exists() and not self.job_is_over.wait(0.1):
            pass
        if self.marker.exists():
            time.sleep(1)
            self.cluster.kill(self.host, silently=self.silently)
            self.has_killed = True


@pytest.fixture
def crowded_n1(three: Cluster) -> Iterator[Cluster]:
    """/dev/shm of n1 has room for what the MPIs put there, and none for a board."""
    three.run("mount -o remount,size=48m /dev/shm", host="n1")
    yield three
    three.run("mount -o remount,size=2g /dev/shm", host="n1")


def test_a_host_without_a_board_is_done_without(crowded_n1: Cluster, name: str) -> None:
    """A board is in /dev/shm where a memfd is forbidden. No host has one then; a line says which cannot."""
    mpi = on_hosts(name, crowded_n1, SHAPE)
    program = compile_program(mpi, PROGRAMS / "refused.c")
    settings = {"OFFBEAT_VERBOSE": "1", "OFFBEAT_BOARD_KIB": "65536"}
    # Rank 3 is the first on n1, which makes the memory.
    result = run_job(mpi, [program, "3", "memfd"], environment=settings)
    if "seccomp is not to be had" in result.stdout:
        pytest.skip("no seccomp here")
    assert result.succeeded().report.served == result.calls, str(result)
    found = re.findall(r"^offbeat: no shared memory for 2 ranks on n1 \(.+\): messages", result.stderr, re.M)
    assert len(found) == result.stderr.count("no shared memory") > 0, str(result)
    assert "ranks: 6: recursive_multiplying" in result.stderr, str(result)
    assert "hierarchy" not in result.stderr, str(result)


@pytest.mark.in_turn(1, "starter")
@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_settings_that_differ_between_hosts_are_noticed(three: Cluster, name: str, starter: str) -> None:
    mpi = on_hosts(name, three, SHAPE, starter)
    program = compile_program(mpi, PROGRAMS / "late.c")
    result = run_job(mpi, [*on_n1("export OFFBEAT_ALLREDUCE=ring"), program, "0", "0"]).succeeded()
    assert result.stderr.count("ranks have different OFFBEAT_ settings") == 1, str(result)
    assert (result.report.intercepted, result.report.served) == (3, 0), str(result)


def test_a_late_rank_is_named_with_its_host(three: Cluster, name: str) -> None:
    """Rank 4 is the second on n1."""
    mpi = on_hosts(name, three, SHAPE)
    program = compile_program(mpi, PROGRAMS / "late.c")
    result = run_job(mpi, [program, "4", "1600"], environment={"OFFBEAT_STALL_S": "1"}).succeeded()
    assert len(re.findall(r"rank 3 has waited \d+ s for rank 4 on n1 \(", result.stderr)) == 1, str(result)
    assert result.report.served == result.calls, str(result)
