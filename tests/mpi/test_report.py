# SPDX-License-Identifier: BSD-3-Clause
"""Real programs, traced and reported: what was planted in them is what the report says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import PROGRAMS, ROOT, VENV, Mpi, Result, clean_environment, execute, on_mpis, said

EXAMPLES = ROOT / "examples"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
ON_OPENMPI = on_mpis(lambda mpi: mpi.name == "openmpi")


def offbeat(mpi: Mpi, *arguments: object) -> Result:
    command = [str(VENV / "bin" / "offbeat"), *map(str, arguments)]
    return execute(command, clean_environment(mpi) | ONE_THREAD, timeout=100).succeeded()


def traced(mpi: Mpi, ranks: int, folder: Path, program: Path, *arguments: str) -> Result:
    assert mpi.python is not None
    return offbeat(mpi, "trace", "-n", str(ranks), "-o", folder, "--", mpi.python, program, *arguments)


@ON_OPENMPI
def test_a_rank_that_sleeps_before_every_tenth_call_is_diagnosed(mpi: Mpi, tmp_path: Path) -> None:
    result = traced(mpi, 4, tmp_path / "run.trace", PROGRAMS / "planted.py")
    planted_ms = float(said(r"^planted ([\d.]+)$", result.stdout))
    text = " ".join(offbeat(mpi, "report", tmp_path / "run.trace").stdout.split())
    # On a busy machine it may be late at other calls, too.
    found = re.search(
        r"1\. Rank 3 is late (?:at \d kinds of call\. [^-]* - )?by ([\d.]+) ms \(median; .*? "
        r"at allreduce of 8 B on (.*?), (.*?)\.",
        text,
    )
    assert found is not None, text
    assert abs(float(found[1]) - planted_ms) <= 0.05 * planted_ms, text
    assert found[2].endswith("(all 4 ranks)")
    assert "every 10th call on the communicator" in found[3]
    assert "(call numbers 10, 20, 30, ...; " in text


@ON_OPENMPI
def test_training_is_waiting_for_the_rank_with_more_data(mpi: Mpi, tmp_path: Path) -> None:
    arguments = ("--steps", "60", "--samples", "768")
    result = traced(mpi, 2, tmp_path / "run.trace", EXAMPLES / "training.py", *arguments)
    assert "weights on 2 ranks: equal" in result.stdout
    text = " ".join(offbeat(mpi, "report", tmp_path / "run.trace").stdout.split())
    # On a busy machine it may be late at other calls, too.
    first = text.partition(" 2. ")[0]
    assert re.search(
        r"1\. Rank 1 is late (by|at \d kinds of call\.) .* at allreduce of 256 KiB on ", first
    ), text


@ON_OPENMPI
@pytest.mark.parametrize("dealt", [[], ["--even"]])
def test_conjugate_gradients_converge(mpi: Mpi, tmp_path: Path, dealt: list[str]) -> None:
    result = traced(mpi, 2, tmp_path / "run.trace", EXAMPLES / "krylov.py", "--edge", "100", *dealt)
    iterations = int(said(r"^(\d+) iterations", result.stdout))
    text = " ".join(offbeat(mpi, "report", tmp_path / "run.trace").stdout.split())
    # Two dot products in each iteration, one before, two to check, and the maximum of the times.
    assert f"allreduce, small {2 * iterations + 3}" in text, text


@ON_OPENMPI
def test_message_times_are_read_by_the_report(mpi: Mpi, tmp_path: Path) -> None:
    program = ROOT / "benchmarks" / "message_time.py"
    result = offbeat(mpi, "run", "-n", "2", "--", mpi.python, program, "--largest", "1024")
    (tmp_path / "alpha.txt").write_text(result.stdout)
    traced(mpi, 2, tmp_path / "run.trace", EXAMPLES / "krylov.py", "--edge", "40")
    said = offbeat(mpi, "report", tmp_path / "run.trace", "--alpha", tmp_path / "alpha.txt").stdout
    assert "alpha: measured (alpha.txt)" in said
