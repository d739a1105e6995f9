# SPDX-License-Identifier: BSD-3-Clause
"""What offbeat top concludes from counters."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import struct
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from offbeat.commands import top
from offbeat.errors import CommandError
from offbeat.live import activity, jobs, layout, places
from offbeat.live.layout import CollectiveCounts, CommunicatorCounts, Late, Process
from offbeat.reports import live_sheets
from rich.console import Console

SECOND = 1_000_000_000


def rank_at(rank: int, seconds: float, counts: CollectiveCounts, *, job: int = 7) -> Process:
    communicator = CommunicatorCounts("MPI_COMM_WORLD", rank, 2, 99, False, {"allreduce": counts})
    return Process(
        100 + rank, job, rank, 2, "n1", "mpich", "./a", round(seconds * SECOND), 1000.0, [communicator]
    )


@pytest.mark.parametrize("does", ["sleep 30", "exit 3"])
def test_a_host_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str
) -> None:
    (tmp_path / "ssh").write_text(f"#!/bin/sh\nexec {does}\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(top, "_HOST_LIMIT_S", 0.5 if "sleep" in does else 30)
    rank = rank_at(0, 5, CollectiveCounts())
    look = jobs.Snapshot(0, [rank], {rank.key: "n1"})
    with pytest.raises(CommandError, match="--where 0: no answer from n1"):
        top._say_where(jobs.Job("7", [rank]), 0, look, None)


def test_the_difference_of_two_looks() -> None:
    lengths = [0] * layout.WAIT_CLASSES
    before = CollectiveCounts(calls=100, served=100, bytes=800, inside_ns=SECOND, waiting_ns=SECOND // 2)
    before.late = {1: Late(10, SECOND // 2)}
    after = replace(before, calls=300, served=300, bytes=2400, inside_ns=3 * SECOND, waiting_ns=2 * SECOND)
    after.late = {1: Late(40, 2 * SECOND), 0: Late(1, 5)}
    after.lengths = [*lengths[:5], 30, *lengths[6:]]
    found = activity.between([rank_at(0, 5, before)], [rank_at(0, 9, after)])
    assert found.seconds == 4
    (row,) = found.rows
    assert (row.calls, row.served, row.bytes, row.server) == (200, 200, 1600, "offbeat")
    assert row.inside_ns == 2 * SECOND
    assert row.latest() == (1, Late(30, 3 * SECOND // 2))
    assert row.wait_ns(0.5) == 32_000
    assert found.waiting_share == {0: pytest.approx(1.5 / 4)}


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_call_to_which_a_rank_has_not_come(is_timed: bool) -> None:
    waits = CollectiveCounts(calls=17, is_inside=True, since_ns=3 * SECOND if is_timed else 0)
    computes = CollectiveCounts(calls=16)
    before = [rank_at(0, 5, waits), rank_at(1, 5, computes)]
    after = [rank_at(0, 8, replace(waits)), rank_at(1, 8, replace(computes))]
    (stuck,) = activity.between(before, after).stuck
    assert (stuck.collective, stuck.number, stuck.waiting, stuck.missing) == ("allreduce", 17, [0], [1])
    assert stuck.seconds == 3
    assert activity.between(after, [rank_at(0, 9, CollectiveCounts(calls=17))]).stuck == []


def test_a_place_is_the_way_to_the_program() -> None:
    inside = ["__GI___nanosleep() at nanosleep.c:25", "__nanosleep() at nanosleep.c:3"]
    frames = [
        "the system call clock_nanosleep",
        *inside,
        "usleep() at usleep.c:31",
        "main() at a.c:6",
        "_start() at b.S:1",
    ]
    way = "the system call clock_nanosleep, called from usleep() at usleep.c:31, called from main() at a.c:6"
    assert places.place(frames) == way
    assert places.place(["__init__() at a.py:1"]) == "__init__() at a.py:1"


def test_where_a_rank_is_while_others_wait_for_it() -> None:
    waits = rank_at(0, 5, CollectiveCounts(calls=17, is_inside=True))
    late = rank_at(1, 5, CollectiveCounts(calls=16))
    assert places.is_awaited(late, [waits, late])
    assert not places.is_awaited(waits, [waits, late])
    come = rank_at(1, 5, CollectiveCounts(calls=17, is_inside=True))
    assert not places.is_awaited(come, [waits, come])
    left = rank_at(0, 5, CollectiveCounts(calls=17))  # an operation that its rank did not wait for
    assert not places.is_awaited(late, [left, late])
    left.communicators[0].awaited_number = 17  # now its rank waits for it
    assert places.is_awaited(late, [left, late])
    left.communicators[0].awaited_number = 16  # or for one to which the late rank has come
    assert not places.is_awaited(late, [left, late])
    looks = iter([[waits, late], [waits, come], [waits, late], [waits, late], []])
    stacks = iter(
        [["step() at a.c:7", "main() at a.c:9", "_start() in a+0x1"], ["liboffbeat-mpich.so+0x1"], []]
    )
    found = places.watch(late.pid, 60, lambda: next(looks), lambda _: next(stacks))
    assert (found.looks, found.awaited) == (4, 1)  # in one it had come meanwhile, in one it did not answer
    assert found.texts == {"step() at a.c:7, called from main() at a.c:9": 1}


def test_a_call_that_is_not_over_counts_as_waiting() -> None:
    """The table agrees with the line about the hang."""
    waits = CollectiveCounts(calls=17, is_inside=True, since_ns=60 * SECOND)
    computes = CollectiveCounts(calls=16)
    before = [rank_at(0, 100, replace(waits)), rank_at(1, 100, replace(computes))]
    after = [rank_at(0, 110, replace(waits, since_ns=70 * SECOND)), rank_at(1, 110, replace(computes))]
    recent, total = activity.between(before, after), activity.between(None, after)
    assert recent.waiting_share == {0: 1.0, 1: 0.0}
    assert total.waiting_share == {0: pytest.approx(70 / 110), 1: 0.0}
    assert recent.rows[0].latest() == (1, Late(1, 10 * SECOND))


def test_a_group_that_was_begun_to_be_waited_for_names_its_oldest_call() -> None:
    def rank(number: int, calls: int, awaited: int) -> Process:
        counts = {"allreduce": CollectiveCounts(calls=calls)}
        group = CommunicatorCounts("", number, 2, 99, True, counts, awaited, "allreduce", 3 * SECOND)
        return Process(100 + number, 7, number, 2, "n1", "", "./a", 9 * SECOND, 1000.0, [group])

    found = activity.between(None, [rank(0, 12, 10), rank(1, 9, 0)])
    (stuck,) = found.stuck
    assert (stuck.number, stuck.waiting, stuck.missing, stuck.seconds) == (10, [0], [1], 3)
    assert found.rows[0].server == "offbeat"
    assert found.waiting_share[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("ranks", [2, 300])
@pytest.mark.parametrize("collectives", [1, 14])
def test_the_view_fits_80_columns_and_24_lines(ranks: int, collectives: int) -> None:
    counts = CollectiveCounts(calls=1_000_000, served=1, bytes=10**12, inside_ns=SECOND, waiting_ns=SECOND)
    counts.late, counts.algorithm = {1: Late(5, SECOND)}, "hierarchy(arrival_tree, ring)"
    names = [f"reduce_scatter_block{number}" for number in range(collectives)]
    processes = []
    for rank in range(ranks):
        own = rank_at(rank, 9, counts)
        own.program = "python " + 100 * "x"
        own.communicators[0].collectives = {name: replace(counts) for name in names}
        processes.append(own)
    total = activity.between(None, processes)
    recent = activity.between([rank_at(rank, 5, CollectiveCounts()) for rank in range(ranks)], processes)
    console = Console(width=80, height=24, file=io.StringIO())
    console.print(live_sheets.render(top._title(jobs.Job("a", processes)), recent, total, 80, 24))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 24, "\n".join(lines)
    assert max(map(len, lines)) <= 80, "\n".join(lines)
    heading = next(line for line in lines if "collective " in line)
    assert all(word in heading for word in ("waiting", "commun.", "mostly for")), heading


def looks_at(monkeypatch: pytest.MonkeyPatch, *looks: list[Process]) -> None:
    """Let top see these looks, one after the other."""
    left = iter(looks)
    monkeypatch.setattr(jobs, "read", lambda names: jobs.Snapshot(1, next(left)))
    monkeypatch.setattr("time.sleep", lambda seconds: None)


class Outline(HTMLParser):
    """The tags of a page that are open, and the columns of each line of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.columns: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)
        self.columns += [0] * (tag == "tr")
        if tag in ("th", "td"):
            self.columns[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("ranks", [2, 600])
def test_a_page_has_all_columns_and_is_small(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ranks: int
) -> None:
    counts = CollectiveCounts(calls=1_000_000, served=1, bytes=10**12, inside_ns=SECOND, waiting_ns=SECOND)
    counts.late, counts.algorithm, counts.waits = {1: Late(5, SECOND)}, "hierarchy(arrival_tree, ring)", 5
    counts.lengths[5] = 5
    world = CommunicatorCounts("a & b", 0, ranks, 1, False, {"barrier": counts})
    names = [f"reduce_scatter_block{number}" for number in range(150)]
    before, after = [], []
    for rank in range(ranks):
        shown = names if rank == 0 else ["barrier"]
        now = replace(world, rank=rank, collectives={name: replace(counts) for name in shown})
        after.append(Process(rank + 1, 7, rank, ranks, "n1", "mpich", "./<a>", 9 * SECOND, 1e3, [now]))
        then = replace(world, rank=rank, collectives={})
        before.append(Process(rank + 1, 7, rank, ranks, "n1", "mpich", "./<a>", 5 * SECOND, 1e3, [then]))
    monkeypatch.setitem(sys.modules, "plotly", None)  # not needed
    looks_at(monkeypatch, before, after)
    top.top(once=True, output=tmp_path / "live.html")
    text = (tmp_path / "live.html").read_text()
    assert len(text) < 200_000
    assert Outline(text).open == []
    drawn = min(ranks, 256)
    assert Outline(text).columns == [10] * 2 * (1 + 100) + [4] * (1 + drawn)
    assert "./<a>" not in text
    assert "./&lt;a&gt;" in text
    assert f"{ranks} of {ranks:,} ranks on n1" in text
    captions = re.findall(r"<caption>(.*?)(?:: <span|</caption>)", text)
    assert captions == ["the last 4 s", "since the start, 9 s", "time of each rank, the last 4 s"]
    for percent in (0, 50, 100):
        assert f"<span>{percent}%</span>" in text
    assert ("ranks that wait longer: --json" in text) == (ranks > drawn)
    assert "<script" not in text
    assert "src=" not in text


@pytest.mark.parametrize("how", ["ends", "is stopped", "is lost"])
def test_the_last_page_says_why_it_is_the_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str
) -> None:
    page = tmp_path / "live.html"
    waits = CollectiveCounts(calls=9, inside_ns=3 * SECOND, waiting_ns=2 * SECOND, waits=9)
    waits.late = {1: Late(9, waits.waiting_ns)}
    looks = iter([[rank_at(0, 1, CollectiveCounts())], [rank_at(0, 9, waits)]])
    pages = []

    def read(names: list[str]) -> jobs.Snapshot:
        if page.exists():
            pages.append(page.read_text())
        if len(pages) == 2:
            if how == "is stopped":
                signal.raise_signal(signal.SIGTERM)
            if how == "is lost":
                raise CommandError("--hosts: no answer from n1")
        return jobs.Snapshot(1, next(looks, []))

    monkeypatch.setattr(jobs, "read", read)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    if how == "is lost":
        with pytest.raises(CommandError, match="no answer"):
            top.top(output=page)
    else:
        top.top(output=page)
    first, second = pages
    last = page.read_text()
    for each in (first, second):
        assert '<meta http-equiv="refresh" content="1">' in each
        assert "the job runs; this page is loaded again every second" in each
    assert "since the start, 1 s" in first
    assert "the last 8 s" in second
    assert "refresh" not in last
    assert "the last 8 s" in last
    assert ("<dd>the job has ended</dd>" in last) == (how == "ends")
    assert ("offbeat top was stopped" in last) == (how != "ends")
    name = re.findall(r"offbeat top (\S+) --where 1 --seconds 10s", second)[0]
    assert name == jobs.jobs_of([rank_at(0, 1, waits)])[0].name
    assert f"{page} follows the job" in capsys.readouterr().out
    with pytest.raises(CommandError, match="add --force"):
        top.top(output=page)


def test_a_page_is_of_one_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranks = [rank_at(0, 1, CollectiveCounts(), job=job) for job in (7 << 32, 8 << 32)]
    looks_at(monkeypatch, ranks)
    with pytest.raises(CommandError, match=r"-o: several jobs run here; .*, so name one"):
        top.top(output=tmp_path / "live.html")
    with pytest.raises(CommandError, match="leave -o out"):
        top.top(where=0, output=tmp_path / "live.html")
    assert list(tmp_path.iterdir()) == []


def test_ranks_belong_to_jobs() -> None:
    ranks = [rank_at(1, 1, CollectiveCounts()), rank_at(0, 1, CollectiveCounts())]
    alone = rank_at(0, 1, CollectiveCounts(), job=0)
    found = jobs.jobs_of([*ranks, alone])
    assert [[each.rank for each in job.processes] for job in found] == [[0, 1], [0]]


def test_one_of_several_jobs_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [rank_at(0, 1, CollectiveCounts(), job=job) for job in (7 << 32, 8 << 32)]
    monkeypatch.setattr(jobs, "read", lambda names: jobs.Snapshot(1, ranks))
    top.top(as_json=True)
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert [(each["ranks_here"], each["program"]) for each in listed] == [(1, "./a"), (1, "./a")]
    top.top()
    shown = capsys.readouterr()
    assert all(f"{each['job']}  1 rank here  ./a" in shown.out for each in listed)
    assert "offbeat top JOB" in shown.err
    with pytest.raises(CommandError, match="name one"):
        top.top(where=0)


@pytest.mark.parametrize(("waits_s", "is_said"), [(2, True), (0.01, False)])
def test_one_look_says_how_to_ask_where_the_late_rank_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], waits_s: float, is_said: bool
) -> None:
    waits = CollectiveCounts(calls=9, inside_ns=2 * SECOND, waiting_ns=round(waits_s * SECOND), waits=9)
    waits.late = {1: Late(9, waits.waiting_ns)}
    looks = iter([[rank_at(0, 1, CollectiveCounts())], [rank_at(0, 9, waits)]])
    monkeypatch.setattr(jobs, "read", lambda names: jobs.Snapshot(1, next(looks)))
    top.top("100", once=True, seconds="1ms")
    said = "offbeat: where rank 1 is while others wait: offbeat top 100 --where 1 --seconds 10s\n"
    assert capsys.readouterr().err == (said if is_said else "")


def test_another_host_is_asked_for_the_place_of_its_rank(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rank = rank_at(1, 1, CollectiveCounts())
    monkeypatch.setattr(top, "_look", lambda hosts: jobs.Snapshot(1, [rank], {rank.key: "n1"}))
    monkeypatch.setattr(top, "_way_to", lambda host: ("echo", host))
    top.top(hosts="n1", where=1, seconds="20ms")
    assert capfd.readouterr().out.endswith(" top 101 --where 1 --seconds 0.020000s\n")
    monkeypatch.setattr(top, "_way_to", lambda host: ("false", host))
    with pytest.raises(CommandError, match="no answer from n1"):
        top.top(hosts="n1", where=1, seconds="20ms")


def test_counters_are_parsed_and_sent() -> None:
    header = struct.pack(
        "<8sIIQiiiIQq64s64s", layout.MAGIC, layout.LAYOUT, 2, 7, 100, 1, 2, 2000, 1000, 500, b"n1", b"mpich"
    )
    communicator = struct.pack("<IIIIQ64s", 1, 1, 2, 0, 99, b"MPI_COMM_WORLD").ljust(128, b"\0")
    words = [5, 4, 40, 3000, 2_000_000, 1_000_000, 3, 5, *range(layout.WAIT_CLASSES)]
    late = [2, 3, 1_000_000] + 15 * [0]
    collective = struct.pack("<8Q24I" + "IIQ" * 6 + "64s", *words, *late, b"ring")
    blank = bytes(layout.BLOCK_BYTES)
    data = header.ljust(layout.BLOCK_BYTES, b"\0") + blank
    data += (communicator + collective).ljust(layout.BLOCK_BYTES, b"\0")
    # Two ticks are a nanosecond.
    found = layout.parse(data, ["allreduce"], 1000 + 2 * SECOND, 500 + SECOND)
    assert found is not None
    (world,) = found.communicators
    counts = world.collectives["allreduce"]
    assert (world.name, world.identity, counts.calls, counts.served) == ("MPI_COMM_WORLD", 99, 5, 4)
    assert (counts.inside_ns, counts.waiting_ns, counts.algorithm) == (1_000_000, 500_000, "ring")
    assert counts.late == {1: Late(3, 500_000)}
    assert counts.is_inside
    assert layout.from_json(layout.to_json(found)) == found
    block = communicator[:88] + struct.pack("<3Q", 5, 0, 0)  # it waits for a call that it has begun
    data = (data[: 2 * layout.BLOCK_BYTES] + block.ljust(128, b"\0") + collective).ljust(len(data), b"\0")
    found = layout.parse(data, ["allreduce"], 1000 + 2 * SECOND, 500 + SECOND)
    assert found is not None
    (world,) = found.communicators
    assert (world.awaited_number, world.awaited_collective) == (5, "allreduce")
    assert world.awaited_ns == SECOND - 1000
    assert layout.parse(b"\0" * len(data), ["allreduce"], 0, 0) is None
