# SPDX-License-Identifier: BSD-3-Clause
"""The backend on several nodes, which MPI connects."""

from __future__ import annotations

import re
from pathlib import Path

import jobs
import pytest

SIZE = 4


@pytest.fixture(params=[name for name in sorted(jobs.MPIS) if Path(jobs.MPIS[name][0]).is_file()])
def mpi(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def all_right_on_nodes(job: jobs.Rank, least_checks: int, size: int = SIZE) -> None:
    counts = re.findall(r"rank \d+: (\d+) checks, (\d+) wrong", job.out)
    assert job.exit_code == 0, jobs.text_of([job])
    assert len(counts) == size, jobs.text_of([job])
    assert all(int(checks) >= least_checks and wrong == "0" for checks, wrong in counts), jobs.text_of([job])


@pytest.mark.in_turn(1, "mpi")
def test_every_collective(mpi: str) -> None:
    job = jobs.start_on_nodes(mpi, 2, "collectives.py", SIZE)
    all_right_on_nodes(job, 1500)
    assert f"in a group of {SIZE} ranks: hierarchy(" in job.err
    assert "one node" not in job.err


@pytest.mark.in_turn(1, "mpi", "program", "least_checks", "ranks_per_node")
@pytest.mark.parametrize("ranks_per_node", [1, 2, 3])
@pytest.mark.parametrize(
    ("program", "least_checks"),
    [("messages.py", 12), ("calls.py", 110), ("sequences.py", 100), ("training.py", 15)],
)
def test_programs(mpi: str, program: str, least_checks: int, ranks_per_node: int) -> None:
    arguments = {"sequences.py": ("30", "7"), "training.py": ("1",)}.get(program, ())
    job = jobs.start_on_nodes(mpi, ranks_per_node, program, SIZE, *arguments)
    all_right_on_nodes(job, least_checks)


@pytest.mark.in_turn(1, "mpi")
def test_errors_reach_all_nodes(mpi: str) -> None:
    job = jobs.start_on_nodes(mpi, 2, "failures.py", SIZE, "errors-on-nodes")
    for what, words in (
        # Ranks of the other node may leave the first call before they hear of the error.
        ("after an error", "mismatched allreduce: rank 0 has 1000 x float32, sum; rank 1 has 1001 x float32"),
        ("late", "has waited 1 s for "),
        ("no message", "rank 0 receives 40 bytes from rank 1 with tag 0"),
        ("late, begun", "has waited 1 s for "),
        ("given up", "rank 1 has given up: abort() of the process group"),
    ):
        lines = re.findall(rf"^{what}: ([\d.]+) s: DistBackendError: offbeat: (.*)$", job.out, re.MULTILINE)
        assert len(lines) == (1 if what == "no message" else SIZE), jobs.text_of([job])
        assert all(words in line for _, line in lines), jobs.text_of([job])
        assert all(float(seconds) < 2 * jobs.soon_s() for seconds, _ in lines), jobs.text_of([job])


@pytest.mark.in_turn(1, "mpi", "case")
@pytest.mark.parametrize("case", ["killed", "killed-begun"])
def test_a_killed_rank_ends_the_job(mpi: str, case: str) -> None:
    """The launcher may end the others before they can say who died. What they do say is right."""
    job = jobs.start_on_nodes(mpi, 2, "failures.py", SIZE, case, limit_s=100)
    assert job.exit_code != 0
    # The root is rank 0. A rank of the other node may have sent its part before anybody misses rank 1.
    sent_to_root = ("reduce", "gather")
    for name, end in re.findall(r"^killed, (\w+): (.*)", job.out, re.MULTILINE):
        is_done = name in sent_to_root and end.endswith(" s: no error")
        assert is_done or "the process of rank 1 has died" in end, jobs.text_of([job])
