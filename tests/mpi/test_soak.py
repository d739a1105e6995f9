# SPDX-License-Identifier: BSD-3-Clause
"""A few of the random programs of soak.py, which finds what nobody thought of when it runs for an hour."""

from __future__ import annotations

import pytest
import soak
from harness import INSIDE_OFFBEAT, Mpi

# No MPI fails them natively.
SEEDS = (500013, 500022)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(1, "seed", "mpi")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_runs_as_without_offbeat(mpi: Mpi, seed: int) -> None:
    outcome = soak.soak(soak.plan(mpi, seed, 3, steps=50), True)
    assert outcome.verdict == "ok", str(outcome)
