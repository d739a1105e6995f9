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

SLOW_MS = 20
STEPS, CHANGE = 40, 20


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


def allowed_ms(training: dict[str, Any]) -> float:
    """A rank is seen to be ready in the next poll. A busy machine makes the polls rare."""
    poll = training["poll_interval_us"]
    return SLOW_MS / 10 + (poll["median"] + poll["p90"]) / 1e3


def test_a_slow_rank_is_named(mpi: Mpi, tmp_path: Path) -> None:
    training = polled(mpi, tmp_path / "run.trace", f"1:{SLOW_MS}:12:{STEPS}")["training"]
    (slow,) = training["slow"]
    assert slow["ranks"] == [1]
    assert abs(slow["first_step"] - 12) <= 2
    assert slow["last_step"] >= STEPS - 2
    assert abs(1e3 * slow["late_s"] - SLOW_MS) <= allowed_ms(training)
    assert "Rank 1 is the slow one, by " in " ".join(training["sentences"])


@ON_ONE_MPI
def test_the_slow_rank_changes(mpi: Mpi, tmp_path: Path) -> None:
    """The vector has two words."""
    slow = (f"0:{SLOW_MS}:1:{CHANGE}", f"1:{SLOW_MS}:{CHANGE + 1}:{STEPS}")
    training = polled(mpi, tmp_path / "run.trace", *slow, tensors=80)["training"]
    first, second = training["slow"]
    assert (first["ranks"], second["ranks"]) == ([0], [1])
    assert abs(first["last_step"] - CHANGE) <= 2
    assert abs(second["first_step"] - CHANGE - 1) <= 2


@ON_ONE_MPI
def test_no_rank_is_slow(mpi: Mpi, tmp_path: Path) -> None:
    """The lateness of a thread at a poll is no finding."""
    found = polled(mpi, tmp_path / "run.trace")
    assert found["training"]["slow"] == []
    assert all(place["least_bytes"] > 100 for each in found["findings"] for place in each["places"])
    assert any(line.startswith("No rank is slow") for line in found["training"]["sentences"])


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
