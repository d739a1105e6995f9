# SPDX-License-Identifier: BSD-3-Clause
"""The reader of traces: what was written is read, what is missing is said, what is damaged is refused."""

import json
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import Offbeat
from made_traces import NO_CLOCK, START_NS, MadeFile, begun, iterations
from offbeat import trace
from offbeat.trace import Flag
from offbeat.trace.layout import Naming


def one_call(folder: Path, ranks: int = 2, **values: object) -> Path:
    for rank in range(ranks):
        made = begun(rank, ranks, **values)
        made.call(0, START_NS + 100 + rank, START_NS + 200)
        made.write(folder)
    return folder


def test_calls_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = begun(0, 1, every_call=4)
    made.call(0, START_NS + 1000, START_NS + 3000, collective="bcast", size=48, root=0, algorithm=0, flags=1)
    made.name(3, 2, "ring")  # between the calls, as a tracer may write it
    made.call(4, START_NS + 5000, START_NS + 5500, START_NS + 9000, size=12, flags=2, algorithm=2)
    made.call(8, START_NS + 9500, START_NS + 9600, 0, flags=2 | 8)
    found = trace.read(made.write(tmp_path).parent)
    assert (found.ranks, found.program, found.mpi, found.every_call) == (
        1,
        "./solver -n 7",
        "Open MPI 5.0.11",
        4,
    )
    calls = found.calls(0)
    assert calls["number"].tolist() == [1, 5, 9]
    assert [trace.COLLECTIVES[number] for number in calls["collective"]] == [
        "bcast",
        "allreduce",
        "allreduce",
    ]
    assert calls["arrival_ns"].tolist() == [0, 4000, 8500]
    assert calls["exit_ns"].tolist() == [2000, 4500, 8600]
    assert calls["completion_ns"].tolist() == [2000, 8000, -1]
    assert calls["bytes"].tolist() == [48, 12, 8]
    assert calls["root"].tolist() == [0, -1, -1]
    assert calls["flags"].tolist() == [Flag.IN_PLACE, Flag.NONBLOCKING, Flag.NONBLOCKING | Flag.PENDING]
    names = found.names(0, Naming.ALGORITHM)
    assert [names[number] for number in calls["algorithm"]] == [
        "native",
        "ring",
        "hierarchy(arrival_tree, ring)",
    ]


def test_names_longer_than_a_slot_are_read_and_made_safe(tmp_path: Path) -> None:
    made = begun(0, 1)
    made.name(3, 2, "pipeline(4, " * 12 + "ring" + ")" * 12)
    made.name(1, 2, "evil\x1b[31m\nname")
    made.call(0, START_NS, START_NS + 1)
    found = trace.read(made.write(tmp_path).parent)
    assert found.names(0, Naming.ALGORITHM)[2].startswith("pipeline(4, pipeline(4, ")
    assert found.names(0, Naming.TYPE)[2] == "evil?[31m?name"
    assert found.records == 1


def test_a_long_trace_is_not_copied(tmp_path: Path) -> None:
    path = iterations(tmp_path, 2, 1000, lambda rank, call: 0)
    file = trace.read(path).files[1]
    assert file.calls.base is not None
    assert not file.calls.flags["WRITEABLE"], "it is the mapped file"
    assert file.calls.strides == (64,)


def test_times_are_those_of_rank_0_by_the_clocks(tmp_path: Path) -> None:
    for rank, clock in enumerate(
        ((1, START_NS, 0, 0.0, 40.0), (3, START_NS, 5_000_000_000_000_007, 1e-6, 90.0))
    ):
        made = begun(rank, 2, start=clock)
        made.call(0, START_NS + 2_000_000, START_NS + 3_000_000)
        made.write(tmp_path)
    found = trace.read(tmp_path)
    arrivals = [found.calls(rank)["arrival_ns"][0] + found.origin_ns for rank in (0, 1)]
    assert arrivals == [START_NS + 2_000_000, START_NS + 2_000_000 + 5_000_000_000_000_007 + 2]
    assert found.clock_error_ns == 90


def test_two_synchronisations_are_weighed_by_time(tmp_path: Path) -> None:
    made = begun(0, 1, start=(2, START_NS, 1000, 0.0, 1.0), end=(2, START_NS + 1000, 3000, 0.0, 1.0))
    for number, at in enumerate((-500, 0, 250, 1000, 4000)):
        made.call(number, START_NS + at, START_NS + at)
    found = trace.read(made.write(tmp_path).parent)
    times = found.calls(0)["arrival_ns"] + found.origin_ns - START_NS
    assert times.tolist() == [500, 1000, 250 + 1500, 4000, 7000]


def test_communicators_go_by_their_names(tmp_path: Path) -> None:
    for rank in range(4):
        made = begun(rank, 4)
        made.name(4, 0, "MPI_COMM_WORLD")
        for number, (name, members) in enumerate([("rows", [0, 1]), ("twin", [0, 2]), ("twin", [0, 3])], 1):
            if rank in members:
                made.communicator(number if rank == 0 else 1, 0x100 * number, members)
            # A rank may give a communicator no name.
            if rank == members[1]:
                made.name(4, 1, name)
        made.call(0, START_NS + rank, START_NS + 50)
        made.write(tmp_path)
    assert [str(each) for each in trace.read(tmp_path).communicators] == [
        "MPI_COMM_WORLD (all 4 ranks)", "rows (ranks 0..1)",
        "communicator 2 (ranks 0, 2)", "communicator 3 (ranks 0, 3)",
    ]  # fmt: skip


def test_the_same_call_is_found_on_all_ranks(tmp_path: Path) -> None:
    # Ranks 1 and 3 have a communicator that is number 1 for one of them and 2 for the other.
    for rank in range(4):
        made = begun(rank, 4)
        if rank == 3:
            made.communicator(1, 0x111, [2, 3])
        if rank in (1, 3):
            made.communicator(2 if rank == 3 else 1, 0x222, [1, 3])
        made.call(0, START_NS + rank, START_NS + 50)
        if rank in (1, 3):
            for number in (0, 2, 5):
                number += rank == 3 and number == 5
                arrival = START_NS + 100 * (number + 1) + rank
                made.call(
                    number, arrival, arrival + 9, communicator=2 if rank == 3 else 1, size=4 * (rank + number)
                )
        made.write(tmp_path)
    found = trace.read(tmp_path)
    world, pair, lonely = found.communicators
    assert [str(c) for c in found.communicators] == [
        "communicator 0 (all 4 ranks)", "communicator 1 (ranks 1, 3)", "communicator 2 (2 ranks)",
    ]  # fmt: skip
    (block,) = found.blocks(world)
    assert block.arrival.tolist() == [[0, 1, 2, 3]]
    (block,) = found.blocks(pair)
    assert block.ranks.tolist() == [1, 3]
    assert block.number.tolist() == [1, 3, 6, 7]
    assert block.present.tolist() == [[True, True], [True, True], [True, False], [False, True]]
    assert block.arrival[:2].tolist() == [[101, 103], [301, 303]]
    assert block.bytes.tolist() == [12, 20, 24, 36]
    assert list(found.blocks(lonely)) == []


def test_blocks_are_cut_without_losing_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = iterations(tmp_path, 3, 100, lambda rank, call: rank)
    whole = next(iter(trace.read(path).blocks(trace.read(path).communicators[0])))
    monkeypatch.setattr("offbeat.trace.matching.BLOCK_BYTES", 7 * 3 * 32)
    found = trace.read(path)
    blocks = list(found.blocks(found.communicators[0]))
    assert len(blocks) == 15
    assert np.array_equal(np.concatenate([block.arrival for block in blocks]), whole.arrival)


def test_a_whole_trace_misses_nothing(tmp_path: Path) -> None:
    assert trace.read(one_call(tmp_path)).missing == []


def test_what_is_missing_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    for rank in (0, 1, 2, 5):
        made = begun(
            rank, 6, flags=0 if rank == 2 else 1, lost=7 if rank == 1 else 0, made=3 if rank == 2 else 9
        )
        made.call(0, START_NS + rank, START_NS + 200)
        made.write(tmp_path)
    (tmp_path / "rank-000004.trace").write_bytes(b"OFFBEAT\n short")
    found = trace.read(tmp_path)
    assert found.missing == [
        "rank-000004.trace cannot be read: it is cut off: its header has 14 of 4096 bytes",
        "no readable file of ranks 3..4",
        "not ended in order (killed, or still running): rank 2",
        "rank 2 stopped after 3 calls; the rank that went furthest made 9",
        "7 calls not recorded (disk full, file cut, or OFFBEAT_TRACE_MIB reached): rank 1",
    ]
    (block,) = found.blocks(found.communicators[0])
    assert block.arrival.tolist() == [[0, 1, 2, 5]]


def test_the_call_in_which_a_rank_was_killed_is_said(tmp_path: Path) -> None:
    for rank in range(2):
        made = begun(rank, 2, flags=0)
        made.call(0, START_NS, START_NS + 9)
        if rank == 1:
            made.call(1, START_NS + 20, 0, flags=8, collective="bcast", root=0)
        made.write(tmp_path)
    assert trace.read(tmp_path).missing == [
        "not ended in order (killed, or still running): ranks 0..1",
        "rank 0 stopped after 1 call; the rank that went furthest made 2",
        "rank 1 had not left bcast 2 on communicator 0 (all 2 ranks)",
    ]


def test_a_report_about_a_hang_begins_with_who_has_not_come(offbeat: Offbeat, tmp_path: Path) -> None:
    for rank in range(3):
        made = begun(rank, 3, flags=0)
        made.call(0, START_NS + rank, START_NS + 9)
        if rank != 1:
            made.call(1, START_NS + 20, 0, flags=8, collective="bcast", root=0)
        made.write(tmp_path / "run.trace")
    shown = offbeat("report", "run.trace").stdout
    said = " ".join(shown.split())
    assert shown.index("What matters") < shown.index("missing: "), shown
    assert "Only faster algorithms help" not in said  # the hang is what matters
    assert (
        "What matters The run has not ended in order (killed, or still running): rank 1 has not come to "
        "bcast 2 on communicator 0 (all 3 ranks), in which ranks 0, 2 wait." in said
    ), said


def test_clocks_that_were_not_synchronised_are_said(tmp_path: Path) -> None:
    for rank, host in enumerate(("n0", "n1", "n0")):
        made = begun(rank, 3, host=host, start=NO_CLOCK)
        made.call(0, START_NS + rank, START_NS + 9)
        made.write(tmp_path)
    found = trace.read(tmp_path)
    assert found.missing == [
        "clocks are not synchronised, so times are only those of the wall clocks: rank 1"
    ]
    assert np.isnan(found.clock_error_ns)


def test_a_trace_that_is_being_written(tmp_path: Path) -> None:
    made = begun(0, 1, flags=0)
    made.call(0, START_NS, START_NS + 5)
    raw = bytearray(made.to_bytes())
    # The next record is being written: it is there, and not yet counted.
    (tmp_path / "rank-000000.trace").write_bytes(bytes(raw) + b"\x01" + b"\xff" * 63 + b"\0" * 640)
    assert trace.read(tmp_path).calls(0)["number"].tolist() == [1]


def test_files_of_another_run_or_twice_are_left_out(tmp_path: Path) -> None:
    one_call(tmp_path, 3)
    other = begun(1, 3, run=78)
    (tmp_path / "rank-000001.trace").write_bytes(other.to_bytes())
    (tmp_path / "rank-000009.trace").write_bytes((tmp_path / "rank-000000.trace").read_bytes())
    assert trace.read(tmp_path).missing == [
        "rank-000001.trace is not used: it belongs to another run",
        "rank-000009.trace is not used: it has the same rank as rank-000000.trace",
        "no readable file of rank 1",
    ]


def test_ranks_that_do_not_record_are_not_missing(tmp_path: Path) -> None:
    for rank in range(3):
        made = begun(rank, 3, flags=3 if rank == 1 else 1)
        if rank != 1:
            made.call(0, START_NS + rank, START_NS + 9)
        made.write(tmp_path)
    found = trace.read(tmp_path)
    assert (found.missing, found.recording) == ([], [0, 2])


def changed(at: int, new: bytes) -> bytes:
    made = begun(0, 2)
    made.call(0, START_NS, START_NS + 1)
    raw = bytearray(made.to_bytes())
    raw[at : at + len(new)] = new
    return bytes(raw)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is not a trace of offbeat"),
        (b"\x7fELF" + b"\0" * 9000, "it is not a trace of offbeat"),
        (b"OFFBEAT\n" + b"\0" * 50, "its header has 58 of 4096 bytes"),
        (changed(8, b"\2\0\0\0"), "its format has version 2, this offbeat reads version 1"),
        (changed(12, b"\0\1"), "its header is damaged: wrong lengths"),
        (changed(24, b"\2"), "its header is damaged: rank 2 of 2"),
        (changed(28, b"\xff\xff\xff\xff"), "its header is damaged"),
        (changed(88, b"\7"), "impossible clocks"),
        (changed(4096, b"\x09"), "slot 0 is damaged: a record of kind 9"),
        (changed(4100, b"\0"), "slot 0 is damaged: a record of 0 slots"),
        (changed(4100, b"\xff\xff\xff\xff"), "slot 0 is damaged: a record of 4294967295 slots"),
        (changed(4108, b"\x09"), "slot 0 is damaged: an impossible communicator"),
        (changed(4096 + 64 + 1, b"\7"), "slot 1 is damaged: an impossible name"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(
    offbeat: Offbeat, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "run.trace").mkdir()
    (tmp_path / "run.trace" / "rank-000000.trace").write_bytes(content)
    done = offbeat("report", "run.trace")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("offbeat: run.trace: rank-000000.trace cannot be read: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_trace_at_all(offbeat: Offbeat, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, message in (("empty", "there is no rank-*.trace in it"), ("nowhere", "no such trace")):
        done = offbeat("report", name)
        assert done.returncode == 2
        assert message in done.stderr


def test_damaged_records_are_left_out_and_counted(tmp_path: Path) -> None:
    made = begun(0, 1)
    for number in range(5):
        made.call(number, START_NS + 10 * number, START_NS + 10 * number + 5)
    raw = bytearray(made.to_bytes())
    first = len(raw) - 5 * 64
    raw[first + 2] = 99  # a collective that there is not
    raw[first + 64 + 15] = 0x7F  # an arrival in the far future
    raw[first + 128 + 4] = 9  # a communicator that there is not
    (tmp_path / "rank-000000.trace").write_bytes(bytes(raw))
    found = trace.read(tmp_path)
    assert found.missing == ["rank-000000.trace has 3 damaged records, not used"]
    assert found.calls(0)["number"].tolist() == [4, 5]


def test_a_file_that_was_cut_keeps_what_it_has(tmp_path: Path) -> None:
    path = iterations(tmp_path, 2, 10, lambda rank, call: 0) / "rank-000001.trace"
    path.write_bytes(path.read_bytes()[:-100])
    found = trace.read(tmp_path)
    assert found.missing == ["rank-000001.trace is cut off: 2 of its 14 slots are missing"]
    assert found.calls(1)["number"].tolist() == list(range(1, 9))


FUZZ = """
import sys
from pathlib import Path
from offbeat import trace
from offbeat.trace import diagnosis, message_time, metrics, summaries
from offbeat.errors import CommandError
for folder in sorted(Path(sys.argv[1]).iterdir()):
    try:
        found = trace.read(folder)
        calls = metrics.collect(found)
        diagnosis.diagnose(calls).summary
        found.missing, [found.calls(rank) for rank in found.recording]
        summaries.lateness(calls), summaries.shares(calls), message_time.estimate_message_time(calls)
    except CommandError as error:
        assert "\\n" not in str(error), error
    except Exception as error:
        raise AssertionError(f"{folder.name}: {error!r}") from error
print("done")
"""


def mutated(raw: bytes, generator: random.Random) -> bytes:
    kind = generator.randrange(4)
    if kind == 0:
        return raw[: generator.randrange(len(raw))]
    if kind == 1:
        return generator.randbytes(generator.randrange(10_000))
    changed = bytearray(raw)
    for _ in range(1 if kind == 2 else 40):
        # Most of a header is zeros that nobody reads.
        begin = generator.choice((0, 0, 4096))
        at = generator.randrange(begin, 840 if begin == 0 else len(raw))
        changed[at] ^= 1 << generator.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("seed", [1, 2])
def test_damage_never_gives_a_traceback_or_takes_the_memory(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    whole = iterations(tmp_path / "whole", 3, 12, lambda rank, call: generator.randrange(5000))
    files = {path.name: path.read_bytes() for path in whole.iterdir()}
    folders = tmp_path / "mutated"
    for number in range(250):
        folder = folders / f"{number:04}"
        folder.mkdir(parents=True)
        for name, raw in files.items():
            damage = generator.random() < 0.6
            (folder / name).write_bytes(mutated(raw, generator) if damage else raw)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FUZZ, str(folders)],
        capture_output=True, text=True, timeout=100, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr[-2000:]


def test_a_data_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = trace.read(one_call(tmp_path)).dataframe()
    assert frame["rank"].tolist() == [0, 1]
    assert frame["arrival_ns"].tolist() == [0, 1]
    assert frame["collective"].tolist() == ["allreduce", "allreduce"]
    assert frame["type"].tolist() == ["MPI_FLOAT", "MPI_FLOAT"]


def test_export_for_perfetto(offbeat: Offbeat, tmp_path: Path) -> None:
    for rank in range(2):
        made = begun(rank, 2)
        made.call(0, START_NS + 1000 * rank, START_NS + 5000)
        made.call(1, START_NS + 9000, START_NS + 9100, START_NS + 12000, flags=2)
        made.write(tmp_path / "run.trace")
    assert offbeat("export", "run.trace", "-o", "run.json").stdout == "Wrote 4 calls to run.json\n"
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    first = [event for event in events if event["pid"] == 0 and event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in first] == [
        ("allreduce", 0.0, 5.0), ("waiting", 0.0, 1.0), ("communicating", 1.0, 4.0), ("allreduce", 9.0, 0.1),
    ]  # fmt: skip
    assert [(event["ph"], event["ts"]) for event in events if event.get("cat") == "pending"][:2] == [
        ("b", 9.0), ("e", 12.0),
    ]  # fmt: skip
    assert first[0]["args"]["algorithm"] == "hierarchy(arrival_tree, ring)"
    done = offbeat("export", "run.trace", "-o", "run.json")
    assert "add --force" in done.stderr
    assert offbeat("export", "run.trace", "-o", "late.json", "--from", "0.000008").stdout.startswith(
        "Wrote 2"
    )


def test_export_as_a_table(offbeat: Offbeat, tmp_path: Path) -> None:
    one_call(tmp_path / "run.trace")
    assert offbeat("export", "run.trace", "-o", "run.csv").returncode == 0
    header, first, second = (tmp_path / "run.csv").read_text().splitlines()
    assert header.startswith("rank,communicator,number,collective,arrival_us")
    assert (
        second == '1,0,1,allreduce,0.001,0.100,0.100,8,2,,MPI_FLOAT,MPI_SUM,"hierarchy(arrival_tree, ring)"'
    )
    assert first.startswith("0,0,1,allreduce,0.000,")


def test_calls_that_do_not_match_are_left_out(tmp_path: Path) -> None:
    from offbeat.trace import metrics

    for rank in range(2):
        made = begun(rank, 2)
        made.call(0, START_NS, START_NS + 1, collective="barrier" if rank else "allreduce")
        made.call(1, START_NS + 5, START_NS + 6)
        made.write(tmp_path)
    calls = metrics.collect(trace.read(tmp_path))
    assert (calls.mismatched, calls.table["number"].tolist()) == (1, [2])


def test_the_made_files_are_as_long_as_the_format_says() -> None:
    assert len(MadeFile(0, 1).to_bytes()) == 4096
    made = MadeFile(0, 40)
    made.communicator(0, 1, list(range(39, -1, -1)))
    assert len(made.to_bytes()) == 4096 + 64, "this is not its rank 0, so the ranks are not listed"
