# SPDX-License-Identifier: BSD-3-Clause
"""A trace as an OTF2 archive, read back by the library of the format."""

import json
from pathlib import Path
from typing import Any

import otf2
from fakes import Offbeat
from made_traces import START_NS, begun

RANKS = 3
NONBLOCKING = 2


def made(folder: Path) -> Path:
    """An allreduce of 64 bytes, and a non-blocking one that completes after it. Rank 2 is late."""
    for rank in range(RANKS):
        file = begun(rank, RANKS)
        arrival = START_NS + (50_000 if rank == 2 else 10_000)
        file.call(0, arrival, START_NS + 80_000, size=64, algorithm=1)
        file.call(
            1, START_NS + 90_000, START_NS + 91_000, size=8, completion=START_NS + 95_000, flags=NONBLOCKING
        )
        file.write(folder)
    return folder


def test_an_archive_has_the_calls_of_the_trace(offbeat: Offbeat, tmp_path: Path) -> None:
    made(tmp_path / "run.trace")
    done = offbeat("export", "run.trace", "-o", "run.otf2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"output": "run.otf2", "format": "OTF2", "calls": 2 * RANKS}
    events: dict[str, list[Any]] = {}
    with otf2.reader.open(str(tmp_path / "run.otf2" / "traces.otf2")) as archive:
        assert archive.definitions.clock_properties.timer_resolution == 10**9
        assert [len(comm.group.members) for comm in archive.definitions.comms] == [RANKS]
        for location, event in archive.events:
            events.setdefault(location.name, []).append(event)
    assert sorted(events) == [f"rank {rank}" for rank in range(RANKS)]
    for rank in range(RANKS):
        mine = events[f"rank {rank}"]
        assert [type(event).__name__ for event in mine] == [
            "Enter", "MpiCollectiveBegin", "MpiCollectiveEnd", "Leave",
            "Enter", "NonBlockingCollectiveRequest", "Leave", "NonBlockingCollectiveComplete",
        ]  # fmt: skip
        enter, _, end, leave = mine[:4]
        assert enter.region.name == "MPI_Allreduce"
        assert list(enter.attributes.values()) == ["hierarchy(arrival_tree, ring)"]
        assert leave.time - enter.time == (30_000 if rank == 2 else 70_000)
        assert (end.collective_op, end.size_sent) == (otf2.CollectiveOp.ALLREDUCE, 64)
        assert mine[4].region.name == "MPI_Iallreduce"
        assert mine[7].time - mine[4].time == 5_000
        assert mine[7].request_id == mine[5].request_id


def test_an_archive_is_replaced_only_on_demand(offbeat: Offbeat, tmp_path: Path) -> None:
    made(tmp_path / "run.trace")
    assert offbeat("export", "run.trace", "-o", "run.otf2").returncode == 0
    again = offbeat("export", "run.trace", "-o", "run.otf2")
    assert (again.returncode, again.stderr) == (2, "offbeat: run.otf2 exists; add --force to replace it\n")
    done = offbeat("export", "run.trace", "-o", "run.otf2", "--force", "--to", "0.00007")
    assert (done.returncode, done.stdout) == (0, f"Wrote {RANKS} calls to run.otf2\n")
    (tmp_path / "mine.otf2").mkdir()
    (tmp_path / "mine.otf2" / "notes").write_text("mine")
    assert "is not an OTF2 archive" in offbeat("export", "run.trace", "-o", "mine.otf2", "--force").stderr
    assert (tmp_path / "mine.otf2" / "notes").exists()
