# SPDX-License-Identifier: BSD-3-Clause
"""mpi4jax, if it is there: all its allreduces are served."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from harness import BUILD, MPIS, ROOT, VENV, clean_environment, execute

TRAIN = ROOT / "examples" / "mpi4jax" / "train_mpi4jax.py"
PYTHON = Path(os.environ.get("OFFBEAT_TEST_MPI4JAX", BUILD / "mpi4jax" / "bin" / "python"))


def test_training_learns_and_ranks_agree() -> None:
    if not PYTHON.exists():
        pytest.skip(f"no mpi4jax: examples/mpi4jax/README.md says how to build it in {PYTHON.parents[1]}")
    command = [str(VENV / "bin" / "offbeat"), "run", "-n", "2", "--", str(PYTHON), str(TRAIN)]
    environment = clean_environment(MPIS["openmpi"]) | {"OFFBEAT_REPORT": "1"}
    result = execute(command, environment, timeout=200).succeeded()
    losses = [float(each) for each in re.findall(r"^step +\d+ +loss ([\d.]+)$", result.stdout, re.M)]
    assert losses[-1] < losses[0] / 3, str(result)
    assert re.search(r"^weights \w{16}, equal on 2 ranks$", result.stdout, re.M), str(result)
    assert [each.native for each in result.reports_of("allreduce")] == [0], str(result)
    assert result.reports_of("allreduce")[0].served == 300, str(result)
