# SPDX-License-Identifier: BSD-3-Clause
"""MPICH's own tests of errors: a test that passes without offbeat passes under it.

Open MPI finds other errors than MPICH does, and fails most of these tests.
"""

from __future__ import annotations

import pytest
from harness import MPIS
from mpich_suite import Outcome, compile_tests, listed_in, outcome


@pytest.mark.in_turn(1, "name")
@pytest.mark.parametrize("topic", ["errors/coll", "errors/comm"])
@pytest.mark.parametrize("name", ["mpich", "impi"])
def test_mpich_tests_of_errors(name: str, topic: str) -> None:
    mpi = MPIS[name]
    programs = compile_tests(mpi, list(listed_in(topic)))
    passed, worse = 0, []
    for test, program in programs.items():
        found, said = outcome(mpi, test, program, preload=True)
        passed += found == Outcome.PASSES
        if found != Outcome.PASSES and outcome(mpi, test, program, preload=False)[0] > found:
            worse.append(f"{test.name} {found.name.lower()} under offbeat only\n{said}")
    assert not worse, "\n".join(worse)
    assert passed > len(programs) / 2, f"{passed} of {len(programs)} tests passed"
