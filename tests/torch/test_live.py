# SPDX-License-Identifier: BSD-3-Clause
"""A training that runs can be looked at: who waits, for whom, and where the late rank is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jobs
import pytest
from offbeat import trace
from offbeat.trace import metrics, stakes

WAYS = ("sync", "async", "ddp")


@contextmanager
def job(*arguments: str, **settings: str) -> Iterator[list[jobs.Rank]]:
    """A job of live.py that is under way. The ranks are in the list when it has ended."""
    ended: list[jobs.Rank] = []
    thread = threading.Thread(
        target=lambda: ended.extend(jobs.start("live.py", 2, *arguments, settings=settings))
    )
    thread.start()
    try:
        yield ended
    finally:
        thread.join()


def top(*arguments: str) -> str:
    """What `offbeat top` prints."""
    command = [sys.executable, "-m", "offbeat", "top", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def process_of_job(arguments: Sequence[str]) -> str:
    """A process of the job, when it has made some calls."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for each in json.loads(top("--raw")):
            calls = [one["collectives"].get("allreduce", {"calls": 0}) for one in each["communicators"]]
            if list(arguments) == each["program"].split()[-len(arguments) :] and sum(
                one["calls"] for one in calls
            ):
                return str(each["pid"])
        time.sleep(0.2)
    raise AssertionError("no job")


@pytest.mark.in_turn(1, "way")
@pytest.mark.parametrize("way", WAYS)
def test_the_waiting_of_a_training_is_seen(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "run.trace"
    with job(way, "late", "8", OFFBEAT_REPORT="1", OFFBEAT_TRACE=str(folder)) as ranks:
        pid = process_of_job((way, "late", "8"))
        time.sleep(1)
        recent: dict[str, Any] = json.loads(top(pid, "--json", "--seconds", "2s"))["recent"]
    jobs.all_right(ranks)
    (row,) = [each for each in recent["rows"] if each["collective"] == "allreduce"]
    assert row["latest_rank"] == 1, recent
    assert row["waiting_share"] > 0.2, recent
    waiting = recent["waiting_share_of_rank"]
    assert waiting["0"] > 0.4, recent
    assert waiting["1"] < waiting["0"] / 4, recent
    text = jobs.text_of(ranks)
    assert re.search(r"^offbeat: time in collectives: .*\(waiting for the last rank", text, re.M), text
    late = re.search(r"^offbeat: most of the waiting is for rank 1: (\d+)%", text, re.M)
    assert late is not None, text
    assert int(late[1]) > 80, text
    if way == "sync":  # the program waits for these calls at once
        found = stakes.stakes_of_calls(metrics.collect(trace.read(folder)))
        assert found is not None
        assert found.waiting > 0.2, found


@pytest.mark.in_turn(1, "way")
@pytest.mark.parametrize("way", WAYS)
def test_the_place_in_which_a_rank_is_often_late(way: str) -> None:
    with job(way, "late", "10") as ranks:
        pid = process_of_job((way, "late", "10"))
        shown = top(pid, "--where", "1", "--seconds", "3s")
        of_other = top(pid, "--where", "0", "--seconds", "1s")
    jobs.all_right(ranks)
    found = re.match(r"rank 1: others waited for it in (\d+) of (\d+) looks over 3 s; it was in\n(.*)", shown)
    assert found is not None, shown
    assert int(found[1]) > int(found[2]) / 4, shown
    assert re.match(r" +\d+ x load_batch\(\) at live\.py:\d+", found[3]), shown
    waited = re.match(r"rank 0: others waited for it in (\d+) of (\d+)", of_other)
    assert waited is None or int(waited[1]) < int(waited[2]) / 4, of_other


@pytest.mark.in_turn(1, "way")
@pytest.mark.parametrize("way", WAYS)
def test_a_hang_is_named(way: str) -> None:
    with job(way, "hang", "6", OFFBEAT_STALL_S="1") as ranks:
        pid = process_of_job((way, "hang", "6"))
        time.sleep(4)
        shown = top(pid, "--once", "--seconds", "1s")
    jobs.all_right(ranks)
    text = jobs.text_of(ranks)
    line = re.search(
        r"^offbeat: allreduce number (\d+) on this group, .*: rank 0 has waited \S+ s for rank 1 on \S+; "
        r"rank 1 is in .*load_batch\(\) at live\.py:26$",
        text,
        re.M,
    )
    assert line is not None, text
    assert re.search(rf"rank 1 has not come to allreduce (number )?{line[1]} of group of 2", shown), (
        shown,
        text,
    )
