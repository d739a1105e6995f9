# SPDX-License-Identifier: BSD-3-Clause
"""The report of a training names the rank that the others wait for."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import jobs
import pytest
from offbeat import trace
from offbeat.trace import frameworks, metrics

STEPS = 40


def ready_at(rank: jobs.Rank) -> list[float]:
    """When a rank was ready for the first call of each step, in seconds."""
    line = re.search(r"^ready: (.*)$", rank.out, re.MULTILINE)
    assert line, rank.out + rank.err
    return [float(each) for each in line[1].split()]


@pytest.mark.in_turn(1, "way", "how", "late")
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("how", ["sleep", "busy"])
@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_a_late_rank_is_named(way: str, how: str, late: int, tmp_path: Path) -> None:
    folder = tmp_path / "run.trace"
    late_ms = round(20 * jobs.load())  # more than what other programs cost the ranks
    arguments = (way, how, str(late), str(late_ms), str(STEPS))
    ranks = jobs.start("slow_rank.py", 2, *arguments, settings={"OFFBEAT_TRACE": str(folder)})
    jobs.all_right(ranks)
    known = frameworks.training_of_calls(metrics.collect(trace.read(folder)))
    assert known is not None
    assert (known.framework, known.steps) == ({"ddp": "DDP", "fsdp2": "FSDP"}[way], STEPS)
    slow = max(known.slow, key=lambda each: each.late_ns * each.late_steps)
    assert slow.ranks == (late,), known.sentences
    mine, other = ready_at(ranks[late]), ready_at(ranks[1 - late])
    late_s = [a - b for a, b in zip(mine, other, strict=True)][slow.first_step - 1 : slow.last_step]
    # Other programs delay the ranks between the moments that are compared.
    within = min(0.1 * jobs.load(), 0.5)
    assert slow.late_ns / 1e9 == pytest.approx(statistics.median(late_s), rel=within), known.sentences
    assert slow.late_steps > STEPS / 2
    assert abs(slow.first_step - (STEPS // 4 + 1)) <= 2
