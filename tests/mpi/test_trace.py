# SPDX-License-Identifier: BSD-3-Clause
"""The tracer under real MPIs: what it records is what the program did."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
import trace_file
from harness import (
    ON_ONE_MPI,
    PROGRAMS,
    ROOT,
    VENV,
    Mpi,
    clean_environment,
    compile_program,
    descendants,
    end,
    execute,
    on_mpis,
    run,
)
from trace_file import COLLECTIVES, ENDED, IN_PLACE, SILENT, TraceFile, is_sampled
from tracing import EVERY_COLLECTIVE, assert_sound, traced, tracer

BLOCKING, NONBLOCKING, STARTS = 3, 2, 4  # of programs/every_collective.c


def every_collective(
    mpi: Mpi, ranks: int, *, large_counts: bool = False
) -> tuple[list[str | Path], dict[str, int]]:
    """The program that makes each collective, and how often it does so in each form."""
    flags = ["-DLARGE_COUNTS"] if large_counts else []
    name = f"every_collective{'_large' if large_counts else ''}"
    program = compile_program(mpi, EVERY_COLLECTIVE, *flags, name=name)
    forms = {"blocking": BLOCKING, "nonblocking": NONBLOCKING}
    if mpi.name == "debian-openmpi":  # 4.1 has none
        return [program], forms
    # MPICH 4.0 and Intel MPI 2021.18 end in "Invalid communicator", traced or not, when persistent ones of
    # more than two ranks are started again.
    if ranks > 2 and mpi.name in ("impi", "debian-mpich"):
        return [program, "without-persistent"], forms
    return [program], forms | {"persistent": STARTS}


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_in_every_form(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    check_every_collective(mpi, ranks, tmp_path, *every_collective(mpi, ranks))


@on_mpis(lambda mpi: mpi.has_large_counts)
def test_every_collective_with_large_counts(mpi: Mpi, tmp_path: Path) -> None:
    check_every_collective(mpi, 2, tmp_path, *every_collective(mpi, 2, large_counts=True))


def check_every_collective(
    mpi: Mpi, ranks: int, tmp_path: Path, command: list[str | Path], forms: dict[str, int]
) -> None:
    traced(mpi, ranks, command, tmp_path / "run.trace").succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert_sound(traces, ranks)
    contributed = dict.fromkeys(COLLECTIVES, 12)  # 3 ints
    to_each = ("alltoall", "alltoallv", "alltoallw", "reduce_scatter", "reduce_scatter_block")
    contributed |= dict.fromkeys(to_each, 12 * ranks)
    contributed |= {name: 24 for name in COLLECTIVES if name.startswith("neighbor_alltoall")}
    contributed["barrier"] = 0
    rooted = {"bcast", "reduce", "gather", "gatherv", "scatter", "scatterv"}
    for trace in traces:
        assert trace.counts == {(name, form): n for name in COLLECTIVES for form, n in forms.items()}
        assert trace.program == " ".join(map(str, command))
        for call in trace.calls:
            assert call.bytes == contributed[call.collective], call
            assert call.root == (ranks - 1 if call.collective in rooted else -1)
            is_typed = call.collective not in ("barrier", "alltoallw", "neighbor_alltoallw")
            assert call.type == ("MPI_INT" if is_typed else "")
            assert (call.operation != "") == ("reduce" in call.collective or "scan" in call.collective), call
            assert call.algorithm == "native"


# mpi4py takes the vendor's ABI first.
@on_mpis(lambda mpi: mpi.python is not None and mpi.family != "mpiabi")
@pytest.mark.parametrize("ranks", [2, 3])
def test_python_and_many_communicators(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    traced(mpi, ranks, [mpi.python, PROGRAMS / "communicators.py"], tmp_path / "run.trace").succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert_sound(traces, ranks)
    for trace in traces:
        assert trace.counts == {
            ("allreduce", "blocking"): 6, ("allreduce", "nonblocking"): 1, ("barrier", "nonblocking"): 2,
            ("bcast", "blocking"): 4, ("barrier", "blocking"): 2,
        }  # fmt: skip
        assert [call.operation for call in trace.calls[:6]] == ["MPI_SUM"] * 5 + ["MPI_MAX"]
        assert [call.flags & IN_PLACE for call in trace.calls[:6]] == [0] * 5 + [IN_PLACE]
        derived = [call for call in trace.calls if call.type not in ("MPI_DOUBLE", "")]
        assert [(call.type, call.count, call.bytes) for call in derived] == [("user-defined", 2, 32)]
        # WORLD, three duplicates of the half, the half, SELF
        assert len(trace.communicators) == 6
        assert {"MPI_COMM_WORLD", "MPI_COMM_SELF"} <= set(trace.names.values())


@pytest.mark.parametrize("algorithms", [None, "recursive_doubling"])
def test_calls_while_the_program_exits(mpi: Mpi, algorithms: str | None, tmp_path: Path) -> None:
    command = [compile_program(mpi, PROGRAMS / "at_exit.c")]
    traced(mpi, 2, command, tmp_path / "run.trace", algorithms=algorithms).succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert_sound(traces, 2)
    for trace in traces:
        assert trace.counts[("allreduce", "nonblocking")] == trace.counts[("allreduce", "blocking")] == 8


def test_offbeats_algorithms(mpi: Mpi, tmp_path: Path) -> None:
    command, forms = every_collective(mpi, 2)
    traced(mpi, 2, command, tmp_path / "run.trace", algorithms="recursive_doubling").succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert_sound(traces, 2)
    for trace in traces:
        assert trace.counts == {(name, form): n for name in COLLECTIVES for form, n in forms.items()}
        ran = Counter((call.collective, call.form) for call in trace.calls if call.algorithm != "native")
        assert ran[("allreduce", "blocking")] == BLOCKING
        never = {"alltoallw", *(name for name in COLLECTIVES if "neighbor" in name)}
        assert not never & {name for name, _ in ran}
        of_allreduce = {call.algorithm for call in trace.calls if call.collective == "allreduce"}
        assert of_allreduce <= {"recursive_doubling", "native"}, "native: where messages do not advance"


def test_samples(mpi: Mpi, tmp_path: Path) -> None:
    command, forms = every_collective(mpi, 3)
    settings = {"OFFBEAT_TRACE_EVERY": "7", "OFFBEAT_TRACE_RANKS_EVERY": "2"}
    traced(mpi, 3, command, tmp_path / "run.trace", **settings).succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert_sound(traces, 3)
    made = len(COLLECTIVES) * sum(forms.values())
    for trace in traces:
        assert (trace.made, trace.every, trace.every_rank) == (made, 7, 2)
        recorded = [] if trace.rank == 1 else [k for k in range(made) if is_sampled(k, 7)]
        assert trace.rank == 1 or len({number % 7 for number in recorded}) > 1
        assert [call.number for call in trace.calls] == recorded
        assert bool(trace.flags & SILENT) == (trace.rank == 1)


def started(mpi: Mpi, ranks: int, folder: Path, calls: int) -> subprocess.Popen[bytes]:
    program = compile_program(mpi, PROGRAMS / "endless.c")
    variables = [f"LD_PRELOAD={tracer(mpi)}", f"OFFBEAT_TRACE={folder}"]
    return subprocess.Popen(
        [*mpi.launch(ranks), "env", *variables, str(program), str(calls)],
        env=clean_environment(mpi), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def reached(folder: Path, ranks: int, calls: int, patience_s: float = 60) -> list[TraceFile]:
    """The traces, read while the program runs, as soon as each rank has begun ``calls`` calls."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        files = sorted(folder.glob("rank-*.trace"))
        # A header without its first bytes is still being written.
        if len(files) == ranks and all(path.read_bytes()[:8] == b"OFFBEAT\n" for path in files):
            traces = [trace_file.read(path) for path in files]
            if all(len(trace.calls) >= calls for trace in traces):
                return traces
        time.sleep(0.05)
    raise AssertionError(f"{ranks} ranks have not made {calls} calls in {patience_s} s")


@pytest.mark.parametrize("victims", ["one", "all"])
def test_a_killed_program_leaves_its_calls(mpi: Mpi, victims: str, tmp_path: Path) -> None:
    folder, calls = tmp_path / "run.trace", 2000
    job = started(mpi, 2, folder, calls)
    try:
        reached(folder, 2, calls)
        deadline = time.monotonic() + 30
        first = folder / "rank-000000.trace"
        while len(trace_file.read(first).calls) <= calls and time.monotonic() < deadline:
            time.sleep(0.05)
        ranks = [pid for pid in descendants(job.pid) if "endless" in os.readlink(f"/proc/{pid}/exe")]
        assert len(ranks) == 2
        for pid in ranks[:1] if victims == "one" else ranks:
            os.kill(pid, signal.SIGKILL)
        job.wait(60)
    finally:
        if job.poll() is None:
            end(job)
    waiting, missing = trace_file.read_all(folder)
    assert not (waiting.flags | missing.flags) & ENDED
    assert [call.is_complete for call in missing.calls] == [True] * calls
    assert [call.is_complete for call in waiting.calls] == [True] * calls + [False], "where it was is known"
    assert (waiting.calls[-1].exit, waiting.calls[-1].completion) == (0, 0)


def test_a_trace_that_exists_is_not_overwritten(mpi: Mpi, tmp_path: Path) -> None:
    program = compile_program(mpi, EVERY_COLLECTIVE)
    folder = tmp_path / "run.trace"
    traced(mpi, 2, [program], folder).succeeded()
    before = [path.read_bytes() for path in sorted(folder.iterdir())]
    again = traced(mpi, 3, [program, "without-persistent"], folder).succeeded()
    assert "exists already" in again.stderr
    assert [path.read_bytes() for path in sorted(folder.iterdir())] == before


def test_without_a_folder_and_without_mpi_nothing_happens(mpi: Mpi, tmp_path: Path) -> None:
    program = compile_program(mpi, EVERY_COLLECTIVE)
    run(mpi, 2, [program], preload=tracer(mpi), cwd=tmp_path).succeeded()
    shell = ["sh", "-c", "true; exit 0"]
    traced(mpi, 2, shell, tmp_path / "run.trace").succeeded()
    assert list(tmp_path.iterdir()) == []


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_the_commands(mpi: Mpi, tmp_path: Path) -> None:
    (program,), forms = every_collective(mpi, 2)
    offbeat = [str(VENV / "bin" / "offbeat")]
    calls = 2 * len(COLLECTIVES) * sum(forms.values())
    for arguments, algorithms in (
        (["trace", "-n", "2", "-o", "a.trace"], {"native"}),
        (["trace", "-n", "2", "-o", "b.trace", "--allreduce", "ring"], {"ring"}),
        (["run", "-n", "2", "--trace", "c.trace", "--allreduce", "ring"], {"ring"}),
    ):
        command = [*offbeat, *arguments, "--", str(program)]
        done = execute(command, clean_environment(mpi), 120, tmp_path).succeeded()
        folder = next(Path(word) for word in arguments if word.endswith(".trace"))
        if arguments[0] == "trace":
            assert done.stderr == (
                f"offbeat: {calls} collective calls on 2 ranks, traced in {folder}; "
                f"next: offbeat report {folder}\n"
            )
        traces = trace_file.read_all(tmp_path / folder)
        assert_sound(traces, 2)
        of_allreduce = [call for trace in traces for call in trace.calls if call.collective == "allreduce"]
        assert {call.algorithm for call in of_allreduce} == algorithms


def error_of(program: Path, mpi: Mpi, *arguments: str, largest: float) -> float:
    """Return the least error in ns of up to ten runs, which end with the first one that is small enough.

    A clock can be read exactly only while both ranks have a core.
    """
    least = math.inf
    for _ in range(10):
        said = run(mpi, 2, [program, "planted", *arguments], preload=False).succeeded().stdout
        least = min(least, float(said.split()[1]))
        if least < largest:
            break
    return least


@ON_ONE_MPI
@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich"))
@pytest.mark.in_turn(1, "method", "mpi")
@pytest.mark.parametrize("method", ["hca3", "offset"])
def test_global_clock(mpi: Mpi, method: str) -> None:
    """Planted offsets of seconds and drifts are found through shared memory; load costs accuracy."""
    source = PROGRAMS / "clock_check.cpp"
    flags = ["-std=c++20", f"-I{ROOT / 'src'}", str(ROOT / "src" / "clock" / "synchronise.cpp")]
    program = compile_program(mpi, source, *flags)
    assert error_of(program, mpi, method, largest=1000) < 1000
    # As between hosts; what is measured has 100 microseconds in each direction, and both ranks run here.
    assert error_of(program, mpi, method, "4", "100", largest=5000) < 5000
    shared = run(mpi, 2, [program, "shared"], preload=False).succeeded()
    assert shared.stdout.startswith("error 0 residual 0 ")
