# SPDX-License-Identifier: BSD-3-Clause
"""A run replayed with other collectives, against times computed by hand, and what is at stake."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Offbeat
from made_traces import START_NS, MadeFile, begun, iterations
from offbeat import trace
from offbeat.trace import metrics, needs, replay, stakes
from offbeat.trace.needs import Needs
from offbeat.trace.replay import Replay
from offbeat.trace.stakes import Stakes, Verdict


def taken(path: Path) -> Replay:
    return replay.replay_of_calls(metrics.collect(trace.read(path)))


def at_stake(path: Path) -> Stakes:
    found = stakes.stakes_of_calls(metrics.collect(trace.read(path)))
    assert found is not None
    return found


def perfect_ns(found: Replay) -> float:
    return float(found.run(np.zeros((1, len(found.rows))), independent=False).run_ns[0])


def one_call(folder: Path, collective: str, arrivals: Sequence[int], exits: Sequence[int], root: int) -> Path:
    for rank, (arrival, leave) in enumerate(zip(arrivals, exits, strict=True)):
        made = begun(rank, len(arrivals))
        made.call(0, START_NS + arrival, START_NS + leave, collective=collective, root=root)
        made.write(folder)
    return folder


def test_whom_a_rank_needs() -> None:
    arrival = np.array([[3, 1, 9, 4]])
    for kind, root, expected in (
        (Needs.ALL, -1, [9, 9, 9, 9]),
        (Needs.ROOT, 3, [4, 4, 9, 4]),
        (Needs.ALL_AT_ROOT, 1, [3, 9, 9, 4]),
        (Needs.LOWER, -1, [3, 3, 9, 9]),
        (Needs.NOBODY, -1, [3, 1, 9, 4]),
        (Needs.ROOT, -1, [3, 1, 9, 4]),  # the root is not recorded
    ):
        assert needs.last_needed_arrival(arrival, kind, root).tolist() == [expected], kind


def test_every_collective_has_its_needs() -> None:
    of = dict(zip(trace.COLLECTIVES, map(Needs, needs.NEEDS_OF_COLLECTIVE), strict=True))
    nobody = {name for name, kind in of.items() if kind is Needs.NOBODY and name}
    assert nobody == {name for name in trace.COLLECTIVES if name.startswith("neighbor_")}
    assert (of["bcast"], of["gatherv"], of["exscan"]) == (Needs.ROOT, Needs.ALL_AT_ROOT, Needs.LOWER)
    assert of["alltoallw"] is Needs.ALL


@pytest.mark.parametrize(
    ("collective", "root", "ends"),
    [
        ("allreduce", -1, 400),
        ("bcast", 0, 400),  # the last rank comes at 400 and needs only the root
        ("bcast", 2, 400),
        ("reduce", 1, 400),
        ("scan", -1, 400),
    ],
)
def test_a_perfect_call_ends_with_the_last_needed_arrival(
    tmp_path: Path, collective: str, root: int, ends: int
) -> None:
    path = one_call(tmp_path, collective, [100, 200, 400], [900, 900, 950], root)
    found = taken(path)
    assert (found.recorded_ns, perfect_ns(found)) == (950, ends)
    assert found.run().run_ns.tolist() == [950]


def test_what_a_rank_does_next_begins_when_it_could_leave(tmp_path: Path) -> None:
    """Rank 0 is the root of a bcast and then computes 1000 ns; it needs nobody, and 1 comes 600 later."""
    for rank, (arrival, leave, then) in enumerate([(100, 750, 1750), (700, 760, 1500)]):
        made = begun(rank, 2)
        made.call(0, START_NS + arrival, START_NS + leave, collective="bcast", root=0)
        made.call(1, START_NS + then, START_NS + 1800)
        made.write(tmp_path)
    found = taken(tmp_path)
    # Rank 0: at 100 + 1000; rank 1: at 700 + 740.
    assert (found.recorded_ns, perfect_ns(found)) == (1800, 1440)
    outcome = found.run(np.zeros((1, 2)), independent=False)
    assert outcome.waited_ns.tolist() == [340]
    # With 50 ns for each call: rank 0 at 150 + 1000, rank 1 at 750 + 740, and 50 more.
    assert found.run(np.full((1, 2), 50.0)).run_ns.tolist() == [1540]


def test_non_blocking_calls_take_their_own_time_only(tmp_path: Path) -> None:
    for rank in range(2):
        made = begun(rank, 2)
        made.call(0, START_NS + 100, START_NS + 150, START_NS + 700, flags=2)
        made.call(1, START_NS + 900, START_NS + 1000)
        made.write(tmp_path)
    found = taken(tmp_path)
    assert len(found.rows) == 1
    assert perfect_ns(found) == 100 + 750
    assert found.run(np.zeros((1, 1))).run_ns.tolist() == [900]


def several_communicators(folder: Path, seed: int, ranks: int = 4, steps: int = 60) -> Path:
    """Rows, columns and all ranks in turn, with rooted collectives, from which ranks go on early."""
    generator = random.Random(seed)
    files = [begun(rank, ranks) for rank in range(ranks)]
    groups = [list(range(ranks)), [0, 1], [2, 3], [0, 2], [1, 3]]
    numbers: dict[tuple[int, int], int] = {}
    for number, group in enumerate(groups):
        for rank in group:
            numbers[rank, number] = sum((rank, earlier) in numbers for earlier in range(number))
            if number:
                files[rank].communicator(numbers[rank, number], 0xABC + number, group)
    clock = [START_NS + generator.randrange(500) for _ in range(ranks)]
    calls = [0] * len(groups)
    for _ in range(steps):
        which = generator.randrange(len(groups))
        group = groups[which]
        name = generator.choice(["allreduce", "bcast", "reduce", "scan", "barrier"])
        root = generator.randrange(len(group)) if name in ("bcast", "reduce") else -1
        arrival = np.array([[clock[rank] + generator.randrange(1000) for rank in group]])
        kind = int(needs.NEEDS_OF_COLLECTIVE[trace.COLLECTIVES.index(name)])
        free = needs.last_needed_arrival(arrival, kind, root)[0]
        for place, rank in enumerate(group):
            leave = int(free[place]) + generator.randrange(200)
            files[rank].call(
                calls[which], int(arrival[0, place]), leave,
                collective=name, root=root, communicator=numbers[rank, which],
            )  # fmt: skip
            clock[rank] = leave
        calls[which] += 1
    for made in files:
        made.write(folder)
    return folder


@pytest.mark.parametrize("seed", range(6))
def test_with_the_recorded_times_the_run_is_what_it_was(tmp_path: Path, seed: int) -> None:
    found = taken(several_communicators(tmp_path, seed))
    assert len(found.rows) == 60
    assert found.run().run_ns.tolist() == [found.recorded_ns]
    nan = np.full((2, len(found.rows)), np.nan)
    assert found.run(nan).run_ns.tolist() == 2 * [found.recorded_ns]
    assert perfect_ns(found) < found.recorded_ns


def test_some_seed_needs_more_than_the_order_of_the_last_arrivals(tmp_path: Path) -> None:
    calls = [metrics.collect(trace.read(several_communicators(tmp_path / f"{k}", k))) for k in range(6)]
    orders = [replay.replay_of_calls(each).rows for each in calls]
    last = [each.table["last"][order] for each, order in zip(calls, orders, strict=True)]
    assert any((np.diff(times) < 0).any() for times in last)


@pytest.mark.parametrize("ranks", [2, 5])
def test_calls_together_are_as_calls_one_by_one(
    tmp_path: Path, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(3)
    found = taken(iterations(tmp_path, ranks, 50, lambda rank, call: generator.randrange(9000)))
    stays = np.array([[0.0] * 50, [float(generator.randrange(5000)) for _ in range(50)]])
    together = found.run(stays)
    monkeypatch.setattr("offbeat.trace.replay._TOGETHER", 1)
    one_by_one = found.run(stays)
    assert together.run_ns.tolist() == one_by_one.run_ns.tolist()
    assert together.waited_ns.tolist() == one_by_one.waited_ns.tolist()


def test_threads_in_calls_at_the_same_time_do_not_stop_the_replay(tmp_path: Path) -> None:
    """Rank 0 is in A, then in B; rank 1 the other way round: no order is right for both."""
    for rank in range(2):
        made = begun(rank, 2)
        made.communicator(1, 0xDEF, [0, 1])
        for communicator, arrival in ((0, 100), (1, 200)) if rank == 0 else ((1, 100), (0, 200)):
            made.call(0, START_NS + arrival, START_NS + 900, communicator=communicator)
        made.write(tmp_path)
    found = taken(tmp_path)
    assert len(found.rows) == 2
    assert found.recorded_ns == 900
    assert 0 <= perfect_ns(found) <= 900


def test_nothing_to_gain(offbeat: Offbeat, tmp_path: Path) -> None:
    """5 us of collectives in each ms of the run."""
    path = iterations(tmp_path / "run.trace", 4, 100, lambda rank, call: 0, step_ns=1_000_000)
    found = at_stake(path)
    assert found.verdict is Verdict.NOTHING
    assert found.in_collectives == pytest.approx(0.0051, abs=0.0002)
    done = offbeat("report", "run.trace")
    assert "Collectives take 0.5% of the run of 101 ms: nothing to gain.\n" in done.stdout
    assert "offbeat bench" not in done.stdout


def test_only_faster_collectives_help(tmp_path: Path) -> None:
    """50 us in each 150 us, and nobody is late; the first call begins 1 ms after MPI_Init."""
    found = at_stake(iterations(tmp_path, 4, 100, lambda r, c: 0, step_ns=100_000, duration_ns=50_000))
    assert found.verdict is Verdict.ALGORITHMS
    assert found.run_s == pytest.approx(1e-3 + 100 * 150e-6 - 100e-6, rel=1e-3)
    assert found.perfect_saves_s == pytest.approx(100 * 50e-6, rel=0.01)
    assert found.waiting == 0


def test_one_late_rank(tmp_path: Path) -> None:
    """Rank 3 computes 100 us longer than the others: of 4 ranks 3 wait that long, 75 us on average."""
    found = at_stake(iterations(tmp_path, 4, 100, lambda rank, call: 100_000 * (rank == 3), duration_ns=100))
    assert found.verdict is Verdict.LATENESS
    assert found.even_saves_s == pytest.approx(100 * 75e-6, rel=0.01)
    assert found.perfect_saves < 0.01
    assert "No algorithm helps much: find out why ranks are late." in found.sentences


def test_lateness_that_collectives_hand_on_is_told_apart(tmp_path: Path) -> None:
    """Rank 1 leaves each call 100 us after rank 0, and so is late in the next: perfect ones have no wait."""
    for rank in range(2):
        made = begun(rank, 2)
        now = START_NS
        for call in range(50):
            arrival = now + 10_000 + 100_000 * rank
            made.call(call, arrival, now + 111_000 + 100_000 * rank)
            now += 111_000
        made.write(tmp_path)
    found = at_stake(tmp_path)
    assert found.waiting > 0.3
    assert found.even_saves < 0.03
    assert any("late only because they left other collectives late" in line for line in found.sentences)


def test_calls_that_are_not_recorded_count(tmp_path: Path) -> None:
    """Every 4th call is recorded: what it takes counts four times."""
    values: dict[str, Any] = {"step_ns": 1_000_000, "duration_ns": 10_000}
    whole = at_stake(iterations(tmp_path / "a", 2, 50, lambda rank, call: 0, **values))
    some = at_stake(iterations(tmp_path / "b", 2, 50, lambda rank, call: 0, every_call=4, **values))
    assert some.in_collectives == pytest.approx(4 * whole.in_collectives)
    assert some.perfect_saves_s == pytest.approx(4 * whole.perfect_saves_s)
    assert some.sentences[-1] == "One in 4 calls is recorded, so each counts 4 times here."


def test_the_run_is_from_init_to_finalize(tmp_path: Path) -> None:
    def made(rank: int, end_ns: int) -> MadeFile:
        file = begun(rank, 2, end=(1, START_NS + end_ns, 0, 0.0, 0.0))
        file.call(0, START_NS + 1000, START_NS + 2000)
        return file

    for rank, end_ns in enumerate((50_000, 40_000)):
        made(rank, end_ns).write(tmp_path)
    found = trace.read(tmp_path)
    begin, end = found.span_ns
    assert (begin, end) == (-1000, 49_000)


def test_a_trace_without_calls_to_compare_has_no_stakes(tmp_path: Path) -> None:
    made = begun(0, 1)
    made.call(0, START_NS, START_NS + 1)
    path = made.write(tmp_path).parent
    assert stakes.stakes_of_calls(metrics.collect(trace.read(path))) is None
    assert taken(path).run().run_ns.tolist() == [1]


def test_nothing_is_said_of_waits_that_a_trace_does_not_show(tmp_path: Path) -> None:
    """Rank 0 begins 20 calls and waits 20 ms for each, outside of the calls, as PyTorch does."""
    ms = 1_000_000
    for rank in range(2):
        made = begun(rank, 2)
        for k in range(20):
            begin = START_NS + k * 30 * ms + rank * 20 * ms
            end = START_NS + k * 30 * ms + 20 * ms + 1000
            made.call(k, begin, begin + 1000, end, flags=2)
        made.write(tmp_path)
    found = at_stake(tmp_path)
    assert found.under_way == pytest.approx(0.35, abs=0.02)
    assert "nothing to gain" not in " ".join(found.sentences)
    assert "non-blocking ones, as PyTorch's all are, are under way for" in found.sentences[0]
