# SPDX-License-Identifier: BSD-3-Clause
"""Running programs under the tracer, and what holds for each trace of a program that ended in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import PROGRAMS, Mpi, Result, library, run
from trace_file import ENDED, INTER, SEVERAL_JOBS, SILENT, Communicator, TraceFile

EVERY_COLLECTIVE = PROGRAMS / "every_collective.c"


def tracer(mpi: Mpi) -> Path:
    plain = library(mpi.preload)
    return plain.with_name(plain.name.replace("liboffbeat-", "liboffbeat-trace-"))


def traced(
    mpi: Mpi,
    ranks: int,
    command: Sequence[object],
    folder: Path,
    *,
    algorithms: str | None = None,
    **settings: str,
) -> Result:
    """Run a program under the tracer, and under offbeat where `algorithms` names one."""
    preload = [tracer(mpi), *([library(mpi.preload)] if algorithms else [])]
    environment = {"LD_PRELOAD": ":".join(map(str, preload)), "OFFBEAT_TRACE": str(folder), **settings}
    return run(mpi, ranks, command, preload=False, allreduce=algorithms, environment=environment)


def assert_sound(traces: list[TraceFile], ranks: int, *, one_host: bool = True) -> None:
    """What holds for each trace of a program that ended in order."""
    assert len(traces) == ranks
    for trace in traces:
        assert (trace.ranks, trace.lost) == (ranks, 0)
        assert trace.flags & ENDED
        if one_host:
            assert trace.begin.kind == trace.end.kind == 1, "one host, one clock"
        for call in trace.calls:
            assert call.is_complete
            assert trace.begin.at < call.arrival <= call.exit <= call.completion < trace.end.at
        by_communicator: dict[int, list[int]] = {}
        for call in trace.calls:
            by_communicator.setdefault(call.communicator, []).append(call.number)
        if trace.every == 1 and not trace.flags & SILENT:
            assert len(trace.calls) == trace.made
            for numbers in by_communicator.values():
                assert sorted(numbers) == list(range(len(numbers)))
    assert_same_communicators(traces)


def assert_same_communicators(traces: list[TraceFile]) -> None:
    """An identity stands for the same ranks and the same calls in every file."""
    found: dict[int, list[tuple[TraceFile, Communicator, list[tuple[str, str, int]]]]] = {}
    for trace in traces:
        assert len({c.identity for c in trace.communicators}) == len(trace.communicators)
        for number, communicator in enumerate(trace.communicators):
            calls = [(c.collective, c.form, c.number) for c in trace.calls if c.communicator == number]
            found.setdefault(communicator.identity, []).append((trace, communicator, calls))
    silent = {trace.rank for trace in traces if trace.flags & SILENT}
    for uses in found.values():
        # An inter-communicator has a list for each side; where rank 0 is of another job there is none.
        lists = [communicator.members for _, communicator, _ in uses if communicator.members is not None]
        members = {rank for listed in lists for rank in listed if rank >= 0}
        recording = [(trace.rank, c, calls) for trace, c, calls in uses if trace.rank not in silent]
        assert len({c.flags & (INTER | SEVERAL_JOBS) for _, c, _ in recording}) <= 1
        assert lists or all(c.flags & SEVERAL_JOBS for _, c, _ in recording)
        if lists:
            assert sorted(members - silent) == [world for world, _, _ in recording]
            places = {place for listed in lists for place in enumerate(listed)}
            assert places >= {(c.rank, world) for world, c, _ in recording}
        assert len({str(calls) for _, _, calls in recording}) <= 1
