# SPDX-License-Identifier: BSD-3-Clause
"""Traces, reports and checks know every call that offbeat serves. Traces also know which algorithm it ran."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import trace_file
from harness import Mpi, Result, compile_client, library, run
from tracing import assert_sound, tracer

SERVED = (
    "allreduce", "barrier", "bcast", "reduce", "allgather", "allgatherv", "alltoall", "alltoallv", "gather",
    "gatherv", "scatter", "scatterv", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
)  # fmt: skip
FORMS = {"blocking": 3, "nonblocking": 6}  # of programs/interface_calls.c
WITH_LISTS = ("allgatherv", "alltoallv", "gatherv", "scatterv", "reduce_scatter")
OF_INTERFACE = tuple(name for name in SERVED if name not in WITH_LISTS)


def said(result: Result, rank: int) -> list[tuple[str, str, str]]:
    """Return the collective, the form and the algorithm of each call, as the program printed them."""
    return re.findall(rf"^ran {rank} (\w+) (\w+) (.+)$", result.stdout, re.M)


def traced(
    mpi: Mpi, ranks: int, command: list[str | Path], folder: Path, **settings: str
) -> tuple[Result, list[trace_file.TraceFile]]:
    environment = {
        "LD_PRELOAD": f"{tracer(mpi)}:{library(mpi.preload)}",
        "OFFBEAT_TRACE": str(folder),
        "OFFBEAT_REPORT": "1",
        **settings,
    }
    result = run(mpi, ranks, command, preload=False, environment=environment).succeeded()
    traces = trace_file.read_all(folder)
    assert_sound(traces, ranks)
    for trace in traces:
        ran = [(call.collective, call.form, call.algorithm) for call in trace.calls]
        assert len(ran) > 0
        assert ran == said(result, trace.rank), "the trace says otherwise than offbeat"
    return result, traces


def assert_counted(result: Result, trace: trace_file.TraceFile, name: str) -> None:
    """Check that rank 0's report counts as many calls, and as many native ones, as its trace."""
    algorithms = Counter(call.algorithm for call in trace.calls if call.collective == name)
    report = result.report_of(name)
    assert (report.intercepted, report.native) == (algorithms.total(), algorithms["native"]), name


CHOSEN = {"OFFBEAT_ALLREDUCE": "ring", "OFFBEAT_BCAST": "pipeline(2, native)", "OFFBEAT_ALLTOALL": "native"}


@pytest.mark.parametrize(("ranks", "settings"), [(2, {}), (3, {}), (2, CHOSEN)], ids=["2", "3", "2-chosen"])
def test_each_call_has_its_algorithm(mpi: Mpi, ranks: int, settings: dict[str, str], tmp_path: Path) -> None:
    program = compile_client(mpi, "algorithms.c")
    # See every_collective in test_trace.py.
    arguments = ["without-persistent"] if ranks > 2 and mpi.name in ("impi", "debian-mpich") else []
    result, traces = traced(mpi, ranks, [program, *arguments], tmp_path / "run.trace", **settings)
    for name in SERVED:
        assert_counted(result, traces[0], name)
    for trace in traces:
        blocking = [call for call in trace.calls if call.form == "blocking"]
        of_all_ranks = [call for call in blocking if trace.communicators[call.communicator].ranks == ranks]
        assert {call.algorithm for call in blocking if call not in of_all_ranks} <= {"copy", "native"}
        if settings:
            for setting, algorithm in settings.items():
                name = setting.removeprefix("OFFBEAT_").lower()
                assert {call.algorithm for call in of_all_ranks if call.collective == name} == {algorithm}
        else:
            short = [call for call in of_all_ranks if call.bytes <= 100]
            assert {call.collective for call in short} == set(SERVED)
            assert "native" not in {call.algorithm for call in short}, "offbeat serves each when it is short"


@pytest.mark.parametrize(("ranks", "board"), [(2, ""), (3, "0")], ids=["board", "messages"])
def test_calls_of_the_c_interface(mpi: Mpi, ranks: int, board: str, tmp_path: Path) -> None:
    program = compile_client(mpi, "interface_calls.c")
    settings = {"OFFBEAT_BOARD_KIB": board} if board else {}
    result, traces = traced(mpi, ranks, [program], tmp_path / "run.trace", **settings)
    for name in OF_INTERFACE:
        report = result.report_of(name)
        assert report.intercepted == report.served == 9, "three calls, three times"
    for trace in traces:
        assert {call.collective for call in trace.calls} == set(OF_INTERFACE)
        assert trace.counts == {(name, form): n for name in OF_INTERFACE for form, n in FORMS.items()}
        for call in trace.calls:
            assert call.algorithm != "native", "these calls never go to the host"
            of_each = trace.communicators[call.communicator].ranks
            many = of_each if call.collective in ("alltoall", "reduce_scatter_block") else 1
            moves = call.collective != "barrier"
            assert call.count in ((3, 1000) if moves else (0,))
            assert call.bytes == 4 * call.count * many
            assert call.type == ("float32" if moves else "")
            assert call.operation == (
                "sum" if "reduce" in call.collective or "scan" in call.collective else ""
            )
            assert call.root == (0 if call.collective in ("bcast", "reduce", "gather", "scatter") else -1)


def test_calls_of_the_c_interface_without_a_tracer(mpi: Mpi) -> None:
    result = run(mpi, 2, [compile_client(mpi, "interface_calls.c")]).succeeded()
    for name in OF_INTERFACE:
        report = result.report_of(name)
        assert report.intercepted == report.served == 9


@pytest.mark.parametrize("board", ["", "0"], ids=["board", "messages"])
def test_calls_of_the_c_interface_are_checked(mpi: Mpi, board: str) -> None:
    settings = {"OFFBEAT_CHECK": "1"} | ({"OFFBEAT_BOARD_KIB": board} if board else {})
    result = run(
        mpi, 2, [compile_client(mpi, "interface_calls.c"), "wrong"], environment=settings
    ).succeeded()
    lines = re.findall(r"^offbeat: mismatched .*rank 0 has .*; rank 1 has .*$", result.stderr, re.M)
    assert len(lines) == 5, str(result)
    assert "10 x float32, sum; rank 1 has 11 x float32, sum" in lines[0], lines[0]
