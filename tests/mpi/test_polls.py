# SPDX-License-Identifier: BSD-3-Clause
"""The tracer counts the bits of vectors that ranks combine. The report names the rank that Horovod waits for.

programs/polls.c calls MPI as Horovod does. That Horovod itself calls it so is shown by examples/horovod.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trace_file
from harness import ON_ONE_MPI, PROGRAMS, Mpi, compile_program
from test_devices import driver
from tracing import assert_sound, traced

STEPS, CYCLES = 40, 20  # a slow rank is late by CYCLES cycles of at least 1 ms
SLOW_FROM, CHANGE = 12, 20


def polled(mpi: Mpi, folder: Path, *slow: str, tensors: int = 5) -> dict[str, Any]:
    """What the report says about the training in a run in which some ranks are slow."""
    program = compile_program(mpi, PROGRAMS / "polls.c")
    traced(mpi, 2, [program, STEPS, tensors, *slow], folder).succeeded()
    assert_sound(trace_file.read_all(folder), 2)
    command = [sys.executable, "-m", "offbeat", "report", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["traces"][0]
    assert found["training"]["framework"] == "Horovod"
    assert found["training"]["steps"] == STEPS
    return found


def assert_slow(slow: dict[str, Any], rank: int, first: int, last: int) -> None:
    """A busy machine may delay a thread as long as the rank is late, and so hide a step or two."""
    assert slow["ranks"] == [rank]
    assert abs(slow["first_step"] - first) <= 2
    assert abs(slow["last_step"] - last) <= 2
    assert slow["late_steps"] >= 0.8 * (last + 1 - first)
    assert slow["late_s"] >= 0.9 * CYCLES / 1e3


def test_a_slow_rank_is_named(mpi: Mpi, tmp_path: Path) -> None:
    training = polled(mpi, tmp_path / "run.trace", f"1:{CYCLES}:{SLOW_FROM}:{STEPS}")["training"]
    (slow,) = training["slow"]
    assert_slow(slow, 1, SLOW_FROM, STEPS)
    assert training["sentences"][1].startswith("Rank 1 is the slow one, by ")


@ON_ONE_MPI
def test_the_slow_rank_changes(mpi: Mpi, tmp_path: Path) -> None:
    """The vector has two words."""
    slow = (f"0:{CYCLES}:1:{CHANGE}", f"1:{CYCLES}:{CHANGE + 1}:{STEPS}")
    training = polled(mpi, tmp_path / "run.trace", *slow, tensors=80)["training"]
    first, second = training["slow"]
    assert_slow(first, 0, 1, CHANGE)
    assert_slow(second, 1, CHANGE + 1, STEPS)


@ON_ONE_MPI
def test_no_rank_is_slow(mpi: Mpi, tmp_path: Path) -> None:
    """On a busy machine a thread may be late at polls, but not by so much, and that is no finding."""
    found = polled(mpi, tmp_path / "run.trace")
    assert all(slow["late_s"] < CYCLES / 2 / 1e3 for slow in found["training"]["slow"])
    assert all(place["least_bytes"] > 8 for each in found["findings"] for place in each["places"])


def test_the_bits_are_those_of_the_vector(mpi: Mpi, tmp_path: Path) -> None:
    program = compile_program(mpi, PROGRAMS / "bit_vectors.c", "-ldl")
    traced(mpi, 2, [program], tmp_path / "run.trace").succeeded()
    for trace in trace_file.read_all(tmp_path / "run.trace"):
        seen = [call.bits for call in trace.calls if call.collective == "allreduce"]
        # Rank 0 sets bits 0 to 4, rank 1 bits 0 to 2, in each of 1 and of 128 words.
        one, lost = (5, 2) if trace.rank == 0 else (3, 0)
        expected = [(one, lost), (128 * one, 128 * lost), *[None] * 6]
        assert seen == expected
        others = [call for call in trace.calls if call.bits is None]
        assert all(call.root == -1 for call in others if call.collective == "allreduce")


@ON_ONE_MPI
def test_memory_of_a_gpu_is_not_read(mpi: Mpi, tmp_path: Path) -> None:
    """It faults when the CPU touches it. Rank 0 passes it, and has no bits in its record."""
    program = compile_program(mpi, PROGRAMS / "bit_vectors.c", "-ldl")
    command = [program, driver("libcuda.so.1")]
    traced(mpi, 2, command, tmp_path / "run.trace", algorithms="recursive_doubling").succeeded()
    traces = trace_file.read_all(tmp_path / "run.trace")
    assert [trace.calls[0].bits for trace in traces] == [None, (3, 0)]
