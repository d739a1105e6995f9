# SPDX-License-Identifier: BSD-3-Clause
"""Horovod is recognised by its polls, and the rank that the others wait for is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakes import Offbeat
from made_traces import START_NS, MadeRanks, begun
from offbeat import trace
from offbeat.trace import frameworks, horovod, metrics

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000_000
IN_PLACE, BITS = 1, 16
SIZES = (5_120, 2_768_896, 18_560, 2_304, 40)  # the bytes of the gradients
STEP_BYTES = sum(SIZES)


class Horovod(MadeRanks):
    """Ranks that call MPI as Horovod's threads do. Each method makes one call on all ranks."""

    def __init__(self, ranks: int, *, timeline: bool = False, **values: object) -> None:
        super().__init__(ranks, **values)
        for file in self.files:
            file.name(1, 2, "MPI_LONG_LONG_INT", 8)
        self.now, self.timeline = START_NS + MS, timeline

    def call(
        self, size: int = 4, words: Sequence[int] | None = None, lasts: int = 20_000, **fields: object
    ) -> None:
        flags = 0 if words is None else IN_PLACE | BITS
        for rank, file in enumerate(self.files):
            word = {} if words is None else {"root": words[rank]}
            leave = self.now + lasts
            file.call(self.number, self.now, leave, size=size, flags=flags, **fields | word)  # type: ignore[arg-type]
        self.number += 1
        self.now += lasts + 10_000

    def poll(self, ready: Sequence[set[int]]) -> set[int]:
        """Returns the tensors that are ready everywhere."""
        agreed = set.intersection(*ready)
        either = set.union(*ready)
        words = []
        for mine in ready:
            have, lost = 3 + len(mine), len(mine - agreed)
            if self.timeline:  # a second vector has the complement
                have, lost = have + 64 - len(mine), lost + len(either - mine)
            words.append(have | lost << 16)
        self.call(16 if self.timeline else 8, words)
        return agreed


def trained(
    folder: Path,
    steps: int,
    late_ms: Callable[[int, int], float],
    *,
    ranks: int = 2,
    seed: int = 1,
    asks: bool = False,
    metric: int = 0,
    backward_ms: Callable[[int], float] = lambda rank: 0,
    **values: object,
) -> Path:
    """A rank has its gradients 5 to 9 ms after a step begins, and ``late_ms(rank, step)`` later.

    Steps count from 1. A rank takes ``backward_ms(rank)`` longer from one gradient to the next.
    With ``asks`` the first step is one in which the ranks ask for tensors. After
    every ``metric`` steps there is another allreduce of 4 bytes.
    """
    made, dice = Horovod(ranks, **values), random.Random(seed)  # type: ignore[arg-type]
    for step in range(1, steps + 1):
        begin = made.now
        at = [
            [
                begin + (5 + t * (1 + backward_ms(rank)) + late_ms(rank, step)) * MS + dice.randrange(MS)
                for t in range(len(SIZES))
            ]
            for rank in range(ranks)
        ]
        left = set(range(len(SIZES)))
        while left:
            made.now += MS
            ready = [{t for t in left if mine[t] <= made.now} for mine in at]
            if asks and step == 1:
                made.poll([set() for _ in at])
                made.call(collective="gather", root=0)
                agreed = set.intersection(*ready)
            else:
                agreed = made.poll(ready)
            if agreed:
                made.call(sum(SIZES[t] for t in agreed))
            left -= agreed
        if metric and step % metric == 0:
            made.call(4)
    return made.write(folder)


def found(path: Path) -> horovod.Horovod:
    known = frameworks.training_of_calls(metrics.collect(trace.read(path)))
    assert isinstance(known, horovod.Horovod)
    return known


def test_a_slow_rank_is_named(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 60, lambda rank, step: 20 if rank == 1 and step >= 12 else 0))
    assert (known.steps, known.step_bytes) == (60, STEP_BYTES)
    (slow,) = known.slow
    assert (slow.ranks, slow.first_step, slow.last_step, slow.late_steps) == ((1,), 12, 60, 49)
    assert slow.late_ns == pytest.approx(20 * MS, rel=0.05)
    assert known.sentences[0].startswith(f"Looks like Horovod: {known.polls:,} polls, ")
    assert known.sentences[0].endswith(" gradient calls in 60 steps, 2.7 MiB a step.")
    assert known.sentences[1].startswith("Rank 1 is the slow one, by ")
    assert known.sentences[1].endswith(" since step 12.")
    assert any("rank 1 does" in line for line in known.advice)


def test_the_slow_rank_changes(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 60, lambda rank, step: 15 if rank == (step > 30) else 0))
    assert [(slow.ranks, slow.first_step, slow.last_step) for slow in known.slow] == [
        ((0,), 1, 30),
        ((1,), 31, 60),
    ]
    assert known.sentences[1].endswith(", in steps 1 to 30.")
    assert known.sentences[2].endswith(", since step 31.")


def test_the_slow_ranks_of_a_node(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 40, lambda rank, step: 20 if rank >= 3 else 0, ranks=5))
    (slow,) = known.slow
    assert slow.ranks == (3, 4)
    assert known.sentences[1].startswith("Ranks 3..4 are the slow ones, by ")
    assert "since" not in known.sentences[1]


def test_a_rank_that_is_slow_in_the_backward_pass(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 60, lambda rank, step: 0, backward_ms=lambda rank: 3 if rank == 0 else 0))
    (slow,) = known.slow
    assert (slow.ranks, slow.in_backward_pass) == ((0,), True)
    assert slow.late_ns == slow.last_ns == pytest.approx(12 * MS, rel=0.1)
    assert known.sentences[1].endswith(" Only the last gradient is late, not the first.")
    assert "Rank 0 computes more slowly" in known.advice[0]


def test_what_a_late_begin_causes_is_told_beside_it(tmp_path: Path) -> None:
    late = 10
    path = trained(tmp_path, 60, lambda rank, step: late * rank, backward_ms=lambda rank: 5 * rank)
    (slow,) = found(path).slow
    assert (slow.ranks, slow.in_backward_pass) == ((1,), False)
    assert slow.late_ns == pytest.approx(late * MS, rel=0.05)
    assert slow.last_ns == pytest.approx((late + 4 * 5) * MS, rel=0.05)
    assert "The last gradient is late by 30" in found(path).sentences[1]


@pytest.mark.parametrize("seed", range(5))
def test_no_rank_is_slow(tmp_path: Path, seed: int) -> None:
    known = found(trained(tmp_path, 100, lambda rank, step: 0, seed=seed))
    assert known.slow == ()
    assert known.sentences[1].startswith("No rank is slow: ")


@pytest.mark.parametrize("seed", range(5))
def test_a_different_rank_each_time(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    late = [[dice.expovariate(1 / 6) for _ in range(101)] for _ in range(2)]
    known = found(trained(tmp_path, 100, lambda rank, step: late[rank][step], seed=seed))
    assert known.slow == ()
    assert known.sentences[1].endswith("a different rank each time.")


@pytest.mark.parametrize("metric", [1, 7])
def test_other_allreduces_do_not_hide_the_steps(tmp_path: Path, metric: int) -> None:
    known = found(trained(tmp_path, 40, lambda rank, step: 10 * rank, metric=metric))
    assert known.steps == 40
    assert known.slow[0].ranks == (1,)


def test_a_step_in_which_tensors_are_new(tmp_path: Path) -> None:
    """Gathers follow the polls, whose bits then do not say who is ready."""
    known = found(trained(tmp_path, 40, lambda rank, step: 10 * (1 - rank), asks=True))
    assert known.steps == 40
    (slow,) = known.slow
    assert (slow.ranks, slow.first_step) == ((0,), 2)


def test_the_timeline_hides_who_is_ready(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 40, lambda rank, step: 20 * rank, timeline=True))
    assert (known.steps, known.slow, known.hides_ready) == (40, (), True)
    assert "HOROVOD_TIMELINE" in known.sentences[1]


def test_equal_gradients_in_two_calls_of_a_step(tmp_path: Path) -> None:
    """Only the pauses tell that two of these calls are one step."""
    made = Horovod(2)
    for _ in range(40):
        made.now += 10 * MS
        made.poll([set(), set()])
        for tensor in range(2):
            made.now += MS
            made.poll([{tensor}, {tensor}])
            made.call(4096)
    assert found(made.write(tmp_path)).steps == 40


def advice(path: Path, sizes: Sequence[int], *, at_once: bool, lasts: int, pause_ms: float = 1) -> str:
    """What the report says to steps with calls of these sizes, each after its own polls or all at once."""
    made, dice = Horovod(2), random.Random(1)
    for _ in range(40):
        for number, size in enumerate(sizes):
            if number == 0 or not at_once:
                for _ in range(4):
                    made.now += int(dice.choice([1, 1, 1, pause_ms]) * MS)
                    made.poll([set(), set()])
                made.now += MS
                made.poll([{number}, {number}])
            made.call(size, lasts=lasts)
    return " ".join(found(made.write(path)).advice)


MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "at_once", "lasts", "pause_ms", "expected"),
    [
        ([64 * MIB, 64 * MIB, 20 * MIB], True, 10 * MS, 1, "try a larger HOROVOD_FUSION_THRESHOLD"),
        ([64 * MIB, 60 * MIB, 20 * MIB], False, 10 * MS, 1, ""),
        ([4096, 8192, 100, 40_000], False, MS, 1, "4 gradient calls of 12.8 KiB on average"),
        ([4096, 8192, 100, 40_000], False, 1000, 1, "gradient calls take too little"),
        ([8 * MIB], False, MS, 20, "use fewer of them per rank"),
        ([8 * MIB], False, MS, 1, ""),
    ],
)
def test_advice_is_given_where_the_times_support_it(
    tmp_path: Path, sizes: list[int], at_once: bool, lasts: int, pause_ms: float, expected: str
) -> None:
    said = advice(tmp_path, sizes, at_once=at_once, lasts=lasts, pause_ms=pause_ms)
    assert expected in said
    assert bool(said) == bool(expected)


def test_no_steps(tmp_path: Path) -> None:
    made, dice = Horovod(2), random.Random(1)
    for _ in range(100):
        made.now += MS
        made.poll([set(), set()])
        made.poll([{1}, {1}])
        made.call(4 * dice.randrange(1000, 1_000_000))
    known = found(made.write(tmp_path))
    assert (known.steps, known.slow) == (0, ())
    assert known.sentences == [
        "Looks like Horovod: 200 polls, 100 gradient calls. The steps of the training cannot be found: the "
        "sizes of the gradient calls do not repeat."
    ]


def test_polls_without_gradients(tmp_path: Path, offbeat: Offbeat) -> None:
    made = Horovod(2)
    for _ in range(100):
        made.now += MS
        made.poll([set(), set()])
    made.write(tmp_path / "run.trace")
    done = offbeat("report", "run.trace", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "100 polls, 0 gradient calls" in done.stdout
    assert "too few gradient calls" in done.stdout


def test_other_programs_are_not_taken_for_horovod(tmp_path: Path) -> None:
    made = [begun(rank, 2) for rank in range(2)]
    for number in range(200):
        for file in made:
            file.call(
                number, START_NS + number * MS, START_NS + number * MS + 9, flags=IN_PLACE | BITS, root=7
            )
    for file in made:
        file.write(tmp_path)
    calls = metrics.collect(trace.read(tmp_path))
    assert frameworks.training_of_calls(calls) is None
    assert len(calls.whole) == 200
    assert set(calls.whole["root"].tolist()) == {-1}


def test_the_report_in_all_its_forms(tmp_path: Path, offbeat: Offbeat) -> None:
    trained(tmp_path / "run.trace", 60, lambda rank, step: 20 if rank == 1 and step >= 12 else 0)
    done = offbeat("report", "run.trace", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    sentence = "Rank 1 is the slow one, by "
    said = " ".join(done.stdout.split())
    assert sentence in said
    assert "When ranks are ready with their gradients" in said
    assert "is late by" not in said  # the polls are no findings
    page = (tmp_path / "page.html").read_text()
    assert sentence in page
    assert 'id="figure-steps"' in page
    found = json.loads(offbeat("report", "run.trace", "--json").stdout)["traces"][0]
    assert found["findings"] == []
    assert found["training"]["slow"][0]["ranks"] == [1]
    assert found["training"]["slow"][0]["late_s"] == pytest.approx(0.020, rel=0.05)
    assert found["training"]["step_bytes"] == STEP_BYTES
    described = (ROOT / "docs" / "reference" / "report-format.md").read_text()
    assert all(f'"{name}": ' in described for name in (*found["training"], *found["training"]["slow"][0]))


def test_a_damaged_number_of_bits_is_no_crash(tmp_path: Path) -> None:
    trained(tmp_path, 40, lambda rank, step: 0)
    path = tmp_path / "rank-000001.trace"
    data = bytearray(path.read_bytes())
    for slot in range(4096, len(data), 64 * 7):
        if data[slot] == 1:
            data[slot + 56 : slot + 60] = b"\xff" * 4
    path.write_bytes(data)
    frameworks.training_of_calls(metrics.collect(trace.read(tmp_path)))
