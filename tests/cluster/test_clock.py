# SPDX-License-Identifier: BSD-3-Clause
"""Tracing on hosts whose clocks are far apart: one time for all of them, and calls that fit together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trace_file
from harness import compile_program
from hosts import Cluster, parse_shape
from launch import on_hosts, run_job
from offbeat import trace
from offbeat.trace import metrics
from trace_file import COLLECTIVES
from tracing import EVERY_COLLECTIVE, assert_sound, tracer

SECONDS_APART = 1000
MOST_WRONG_NS = 5_000_000  # where eight ranks share two cores, messages are late by milliseconds


@pytest.fixture(scope="module")
def apart() -> Iterator[Cluster]:
    """Three hosts, each of which has been up for 1000 s longer than the one before."""
    with Cluster(3, seconds_apart=SECONDS_APART) as made:
        made.shape(1000, 50)
        yield made


def test_one_clock_for_all_hosts(apart: Cluster, name: str, tmp_path: Path) -> None:
    mpi = on_hosts(name, apart, parse_shape("3+2+1"))
    program = compile_program(mpi, EVERY_COLLECTIVE)
    folder = tmp_path / "run.trace"
    settings = {"OFFBEAT_TRACE": str(folder)}
    run_job(mpi, [program, "without-persistent"], preload=tracer(mpi), environment=settings).succeeded()
    traces = trace_file.read_all(folder)
    assert_sound(traces, 6, one_host=False)
    assert [one.host for one in traces] == ["n0", "n0", "n0", "n1", "n1", "n2"]
    for one in traces:
        host = int(one.host[1:])
        for clock in (one.begin, one.end):
            assert clock.kind == (3 if host else 1)
            # All of this is one machine, so the truth is what was planted.
            assert abs(clock.offset + host * SECONDS_APART * 10**9) < MOST_WRONG_NS
    read = trace.read(folder)
    assert read.missing == []
    assert 0 < read.clock_error_ns < MOST_WRONG_NS
    calls = metrics.collect(read)
    assert len(calls.whole) == len(calls.table) == len(COLLECTIVES) * (3 + 2)
    # A barrier lasts until the last rank has come, on whichever host it is.
    barriers = calls.table[calls.table["collective"] == COLLECTIVES.index("barrier") + 1]
    assert (barriers["end"] >= barriers["last"] - read.clock_error_ns).all()
