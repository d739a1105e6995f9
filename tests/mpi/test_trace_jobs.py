# SPDX-License-Identifier: BSD-3-Clause
"""The tracer under programs that are more than one thread, one job or one host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import trace_file
from harness import PROGRAMS, Mpi, compile_program, on_mpis
from offbeat import trace
from offbeat.trace import metrics
from spawning import can_spawn, run_spawning
from trace_file import COLLECTIVES, INTER, SEVERAL_JOBS, TraceFile, is_sampled
from tracing import EVERY_COLLECTIVE, assert_sound, traced, tracer

# -- jobs that the program starts

ACROSS = {"barrier": 2, "bcast": 2, "allreduce": 2, "allgather": 2, "reduce": 2}  # of programs/spawned.c
MERGED = {"allreduce": 2, "bcast": 2, "barrier": 2}
THIS_IS_ROOT, BESIDE_ROOT = -2, -3


def with_spawned(
    mpi: Mpi, ranks: int, children: int, folder: Path
) -> tuple[list[TraceFile], list[TraceFile]]:
    """The traces of the parents and of the children, after both have said how often they called."""
    variables = {"LD_PRELOAD": str(tracer(mpi)), "OFFBEAT_TRACE": str(folder)}
    said = run_spawning(mpi, ranks, "spawned.c", str(children), variables=variables).stdout
    counted = re.findall(r"^counted (\w+) (\d+): all=3 halves=10 jobs=10 merged=6$", said, re.M)
    both = [
        (who, str(rank)) for who, many in (("parent", ranks), ("child", children)) for rank in range(many)
    ]
    assert sorted(counted) == sorted(both), said
    (spawned,) = folder.glob("spawned-*")
    return trace_file.read_all(folder), trace_file.read_all(spawned)


@can_spawn
def test_spawned_jobs_and_inter_communicators(mpi: Mpi, tmp_path: Path) -> None:
    folder, ranks, children = tmp_path / "run.trace", 2, 3
    parents, offspring = with_spawned(mpi, ranks, children, folder)
    assert parents[0].run != offspring[0].run
    for traces, own, is_child in ((parents, ranks, False), (offspring, children, True)):
        assert_sound(traces, own)
        for one in traces:
            kinds = {c.flags & (INTER | SEVERAL_JOBS): n for n, c in enumerate(one.communicators)}
            made = {
                kind: dict(Counter(c.collective for c in one.calls if c.communicator == number))
                for kind, number in kinds.items()
            }
            assert made == {
                0: {"allreduce": 3}, INTER: ACROSS, INTER | SEVERAL_JOBS: ACROSS, SEVERAL_JOBS: MERGED,
            }, one.rank  # fmt: skip
            assert one.communicators[kinds[SEVERAL_JOBS]].ranks == ranks + children
            assert one.communicators[kinds[INTER | SEVERAL_JOBS]].ranks == own
            roots = {c.root for c in one.calls if c.communicator == kinds[INTER | SEVERAL_JOBS]}
            told = 0 if is_child else BESIDE_ROOT if one.rank else THIS_IS_ROOT
            assert roots == {-1, told}
    merged = [c.members for c in parents[0].communicators if c.flags == SEVERAL_JOBS | 4]
    assert merged == [(0, 1, -1, -1, -1)]

    read = trace.read(folder)
    assert [line.partition(" is ")[0] for line in read.missing] == [next(folder.glob("spawned-*")).name]
    # MPIs give names to some communicators.
    assert str(read.communicators[0]) == "MPI_COMM_WORLD (all 2 ranks)"
    assert [str(c).partition(" (")[2] for c in read.communicators] == [
        "all 2 ranks)", "ranks 0..1)", "ranks 0..1, and another job)", "ranks 0..1, and another job)",
    ]  # fmt: skip
    calls = metrics.collect(read)
    assert len(calls.whole) == 3 + 10 + 10 + 6


# -- threads


@pytest.mark.parametrize("every", [1, 7])
def test_four_threads_on_four_communicators(mpi: Mpi, every: int, tmp_path: Path) -> None:
    """Each thread's own account, calls and times, is what was recorded."""
    folder, accounts = tmp_path / "run.trace", tmp_path / "accounts"
    accounts.mkdir()
    program = compile_program(mpi, PROGRAMS / "threads_stamped.c")
    traced(mpi, 2, [program, accounts], folder, OFFBEAT_TRACE_EVERY=str(every)).succeeded()
    traces = trace_file.read_all(folder)
    assert_sound(traces, 2)
    for one in traces:
        lines = [line.split() for line in (accounts / f"rank-{one.rank}").read_text().splitlines()]
        by_communicator: dict[tuple[str, str], list[list[str]]] = {}
        for thread, communicator, *call in lines:
            by_communicator.setdefault((thread, communicator), []).append(call)
        assert len({thread for thread, _ in by_communicator}) == 4
        assert one.made == len(lines) + 1, "and the program's MPI_Reduce at the end"
        recorded: dict[int, list[tuple[str, int, int, int, int]]] = {}
        for record in one.calls:
            what = (record.collective, record.number, record.count, record.arrival, record.completion)
            recorded.setdefault(record.communicator, []).append(what)
        unmatched = list(recorded.values())
        for calls in by_communicator.values():
            wanted = [call for call in calls if is_sampled(int(call[0]), every)]
            same = [found for found in unmatched if agree(found, wanted)]
            assert len(same) == 1, f"rank {one.rank}: {len(same)} communicators have {wanted[:2]}, ..."
            unmatched.remove(same[0])
        assert [[name for name, *_ in found] for found in unmatched] == [["reduce"]]


def agree(recorded: list[tuple[str, int, int, int, int]], account: list[list[str]]) -> bool:
    """Whether the calls are the same, and each within the times at which its thread made it."""
    if len(recorded) != len(account):
        return False
    return all(
        (name, number, count) == (line[1], int(line[0]), int(line[2]))
        and int(line[3]) <= arrival <= completion <= int(line[4])
        for (name, number, count, arrival, completion), line in zip(recorded, account, strict=True)
    )


# -- hosts

SECONDS_APART = 1000  # the clocks of two made-up hosts
# A rank in namespaces of its own: another name, and a clock that started at another time. All else is shared.
UNSHARE = f"unshare {'' if os.geteuid() == 0 else '--map-root-user'} --uts --time --fork --monotonic"
AS_HOST = (
    "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; host=$((rank / 2)); "
    f"exec {UNSHARE} $((host * {SECONDS_APART})) "
    'sh -c \'hostname "$0"; exec "$@"\' node$host "$@"'
)


def can_make_hosts() -> bool:
    return subprocess.run(["sh", "-c", f"{UNSHARE} 5 true"], capture_output=True).returncode == 0


@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich"))
def test_several_hosts_have_one_clock(mpi: Mpi, tmp_path: Path) -> None:
    """Two hosts of two ranks, whose clocks are 1000 s apart: that is found, and calls match."""
    if not can_make_hosts():
        pytest.skip("no time namespaces here")
    program = compile_program(mpi, EVERY_COLLECTIVE)
    folder = tmp_path / "run.trace"
    traced(mpi, 4, ["sh", "-c", AS_HOST, "sh", program, "without-persistent"], folder).succeeded()
    traces = trace_file.read_all(folder)
    assert_sound(traces, 4, one_host=False)
    assert [one.host for one in traces] == ["node0", "node0", "node1", "node1"]
    for one in traces:
        is_first = one.host == "node0"
        assert one.begin.kind == one.end.kind == (1 if is_first else 3)
        for clock in (one.begin, one.end):
            # The truth is the planted one: all of this is one machine.
            error_ns = clock.offset + (0 if is_first else SECONDS_APART * 10**9)
            assert abs(error_ns) < 2_000_000
            assert clock.residual == 0 if is_first else clock.residual < 2_000_000
    # A single one may happen to be right to the nanosecond.
    assert max(clock.residual for one in traces for clock in (one.begin, one.end)) > 0
    read = trace.read(folder)
    assert read.missing == []
    assert 0 < read.clock_error_ns < 2_000_000
    calls = metrics.collect(read)
    assert len(calls.whole) == len(calls.table) == len(COLLECTIVES) * (3 + 2)
    # A barrier lasts until the last rank has come, on whichever host it is.
    barriers = calls.table[(calls.table["collective"] == COLLECTIVES.index("barrier") + 1)]
    assert (barriers["end"] >= barriers["last"]).all()
    assert barriers["omega"].max() < 1e9


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_files_of_hosts_that_share_no_folder_are_put_together(mpi: Mpi, tmp_path: Path) -> None:
    """Each host has its part of the trace: what is missing is said, and copying is all it takes."""
    program = compile_program(mpi, EVERY_COLLECTIVE)
    script = f'OFFBEAT_TRACE={tmp_path}/disk$((OMPI_COMM_WORLD_RANK / 2))/run.trace exec "$@"'
    traced(mpi, 4, ["sh", "-c", script, "sh", program], tmp_path / "unused").succeeded()
    first, second = (tmp_path / disk / "run.trace" for disk in ("disk0", "disk1"))
    assert trace.read(first).missing == ["no readable file of ranks 2..3"]
    for path in second.iterdir():
        shutil.copy(path, first)
    assert_sound(trace_file.read_all(first), 4)
    assert trace.read(first).missing == []
