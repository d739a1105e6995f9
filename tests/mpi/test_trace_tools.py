# SPDX-License-Identifier: BSD-3-Clause
"""The tracer beside another tool: wherever that stands, each sees the program's calls as if it were alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trace_file
from harness import PROGRAMS, Mpi, compile_program, library, run
from trace_file import COLLECTIVES
from tracing import EVERY_COLLECTIVE, assert_sound, tracer

TOOL = PROGRAMS / "tracer_tool.c"
FORMS = {"blocking": 3, "nonblocking": 2}  # of programs/every_collective.c without persistent ones
OWN = {("barrier", "blocking"): 1, ("reduce", "blocking"): 1}  # what the tool itself calls
SEEN = "tool: 2 starts, 6 allreduces, 4 iallreduces, 2 communicators, 2 freed"


def shared_tool(mpi: Mpi, *, both_levels: bool = False) -> Path:
    """The tool as a library: named, and linked to the MPI, such that it could be taken for it."""
    flags, name = (["-DBOTH_LEVELS"], "libmpi_both.so") if both_levels else ([], "libmpi_counter.so")
    return compile_program(mpi, TOOL, "-shared", "-fPIC", *flags, name=name)


def program_with_tool(mpi: Mpi, place: str) -> tuple[Path, list[Path], list[Path]]:
    """The program, and what is preloaded before and behind the tracer."""
    match place:
        case "part of the program":
            return compile_program(mpi, EVERY_COLLECTIVE, str(TOOL), name="with_tool"), [], []
        case "linked" | "linked, both levels":
            tool = shared_tool(mpi, both_levels=place != "linked")
            flags = ("-Wl,--no-as-needed", str(tool))
            return compile_program(mpi, EVERY_COLLECTIVE, *flags, name=f"linked_to_{tool.stem}"), [], []
        case "preloaded before the tracer":
            return compile_program(mpi, EVERY_COLLECTIVE), [shared_tool(mpi)], []
        case _:
            return compile_program(mpi, EVERY_COLLECTIVE), [], [shared_tool(mpi)]


@pytest.mark.in_turn(1, "offbeat", "mpi")
@pytest.mark.parametrize("offbeat", [False, True], ids=["host", "offbeat"])
@pytest.mark.parametrize(
    "place",
    [
        "part of the program", "preloaded before the tracer", "preloaded behind the tracer", "linked",
        "linked, both levels",
    ],
)  # fmt: skip
def test_a_tool_and_the_tracer_see_each_call_once(
    mpi: Mpi, place: str, offbeat: bool, tmp_path: Path
) -> None:
    program, before, behind = program_with_tool(mpi, place)
    command = [program, "without-persistent"]

    def seen(libraries: list[Path], **settings: str) -> str:
        environment = {"LD_PRELOAD": ":".join(map(str, libraries)), **settings}
        done = run(mpi, 2, command, preload=False, environment=environment).succeeded()
        return next(line for line in done.stdout.splitlines() if line.startswith("tool:"))

    assert seen([*before, *behind]) == SEEN
    ours = [tracer(mpi), *([library(mpi.preload)] if offbeat else [])]
    folder, algorithm = tmp_path / "run.trace", "recursive_doubling" if offbeat else "native"
    settings = {"OFFBEAT_TRACE": str(folder), "OFFBEAT_ALLREDUCE": algorithm}
    assert seen([*before, *ours, *behind], **settings) == SEEN

    # A tool in front of the tracer is a part of the program: nobody could tell its calls from the program's.
    is_in_front = place in ("part of the program", "preloaded before the tracer")
    expected = Counter({(name, form): n for name in COLLECTIVES for form, n in FORMS.items()})
    expected.update(OWN if is_in_front else {})
    traces = trace_file.read_all(folder)
    assert_sound(traces, 2)
    for trace in traces:
        assert trace.counts == expected
        blocking = [c for c in trace.calls if (c.collective, c.form) == ("allreduce", "blocking")]
        assert {call.algorithm for call in blocking} == {algorithm}
