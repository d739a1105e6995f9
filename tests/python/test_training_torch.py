# SPDX-License-Identifier: BSD-3-Clause
"""Training with PyTorch is recognised, and the rank that the others wait for is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakes import Offbeat
from made_traces import START_NS, MadeRanks
from offbeat import trace
from offbeat.trace import frameworks, metrics
from offbeat.trace.pytorch import PyTorch

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000_000
NONBLOCKING = 2
BUCKETS = (1 << 20, 1 << 20, 512 << 10)
STEP_BYTES = sum(BUCKETS)
NAMED = "no MPI, PyTorch"


class Ranks(MadeRanks):
    """Processes with PyTorch. Each method makes one call on all ranks."""

    def __init__(self, ranks: int, **values: object) -> None:
        super().__init__(ranks, **{"mpi": NAMED} | values)
        self.free = 0.0

    def call(
        self, arrival: Sequence[float], *, lasts: float = 0.5, waits: bool = True, **fields: object
    ) -> float:
        """Returns when it is over. Calls come one after the other. Times are milliseconds."""
        begin = max(*arrival, self.free)
        self.free = begin + lasts
        for file, mine in zip(self.files, arrival, strict=True):
            at, end = (START_NS + int(time * MS) for time in (mine, self.free))
            leave = end if waits else at + 10_000
            flags = 0 if waits else NONBLOCKING
            file.call(self.number, at, leave, end, flags=flags, **fields)  # type: ignore[arg-type]
        self.number += 1
        return self.free


def trained(
    folder: Path,
    steps: int,
    late_ms: Callable[[int, int], float],
    *,
    ranks: int = 2,
    buckets: Sequence[int] = BUCKETS,
    backward_ms: Callable[[int], float] = lambda rank: 0,
    buffers: bool = False,
    loss_every: int = 0,
    lasts: float = 0.5,
    **values: object,
) -> Path:
    """DDP: a rank begins the buckets 5, 6, ... ms after a step begins, and ``late_ms(rank, step)`` later.

    With ``buffers`` rank 0 broadcasts before that, which no rank leaves earlier than it.
    """
    made, dice = Ranks(ranks, **values), random.Random(3)
    begin = [10.0] * ranks
    for step in range(1, steps + 1):
        now = [begin[rank] + late_ms(rank, step) + 0.1 * dice.random() for rank in range(ranks)]
        if buffers:
            over = made.call(now, lasts=0.1, collective="bcast", root=0, size=2048)
            now = [max(mine, over if now[0] > mine else mine) for mine in now]
        for number, size in enumerate(buckets):
            at = [mine + 5 + number * (1 + backward_ms(rank)) for rank, mine in enumerate(now)]
            over = made.call(at, waits=False, size=size, lasts=lasts)
        begin = [over + 1 + 0.1 * dice.random() for _ in range(ranks)]
        if loss_every and step % loss_every == 0:
            begin = [made.call(begin, size=4, lasts=0.05)] * ranks
    return made.write(folder)


def found(path: Path) -> PyTorch:
    known = frameworks.training_of_calls(metrics.collect(trace.read(path)))
    assert isinstance(known, PyTorch)
    return known


@pytest.mark.parametrize("loss_every", [0, 1, 10])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("buffers", [False, True])
def test_a_slow_rank_is_named(tmp_path: Path, rank: int, buffers: bool, loss_every: int) -> None:
    """Also if the others have waited for it before the first gradient."""

    def late_ms(each: int, step: int) -> float:
        return 20 if each == rank and step >= 12 else 0

    known = found(trained(tmp_path, 60, late_ms, buffers=buffers, loss_every=loss_every))
    assert (known.framework, known.steps, known.step_bytes) == ("DDP", 60, STEP_BYTES)
    (slow,) = known.slow
    assert (slow.ranks, slow.first_step, slow.last_step) == ((rank,), 12, 60)
    assert slow.late_ns == pytest.approx(20 * MS, rel=0.05)
    first, second, third = known.sentences
    assert first == "Looks like DDP: 180 gradient calls in 60 steps, 2.5 MiB a step."
    assert second.startswith(f"Rank {rank} is the slow one, by ")
    assert second.endswith(" since step 12.")
    assert third.startswith("Communication takes ")
    assert known.advice[0].startswith(f"Look at what rank {rank} does before the backward pass: ")


def test_how_much_the_calls_take(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 40, lambda rank, step: 0))
    # The buckets take 0.5 ms each, at 5, 6 and 7 ms. The step takes 1 ms more.
    assert known.slow == ()
    assert known.step_ns == pytest.approx(8.6 * MS, rel=0.03)
    assert known.gradient_ns == pytest.approx(1.5 * MS, rel=0.01)
    assert known.communication_ns == pytest.approx(1.5 * MS, rel=0.01)
    assert known.exposed_ns == pytest.approx(0.5 * MS, rel=0.01)
    assert known.bandwidth == pytest.approx(STEP_BYTES / 0.0015, rel=0.01)
    assert "(17%), 0.5 ms of it after the backward pass. Gradients travel at 1.6 GiB/s." in known.sentences[2]


def test_calls_that_wait_for_each_other(tmp_path: Path) -> None:
    """Buckets of 2 ms are begun every 1 ms, so the last one begins when it can."""
    known = found(trained(tmp_path, 40, lambda rank, step: 0, lasts=2))
    assert known.gradient_ns == pytest.approx(6 * MS, rel=0.02)
    assert known.exposed_ns == pytest.approx(4 * MS, rel=0.05)


def test_a_rank_that_is_slow_in_the_backward_pass(tmp_path: Path) -> None:
    known = found(trained(tmp_path, 40, lambda rank, step: 0, ranks=3, backward_ms=lambda rank: rank == 1))
    (slow,) = known.slow
    assert slow.ranks == (1,)
    assert slow.in_backward_pass
    assert slow.late_ns == pytest.approx(2 * MS, rel=0.1)


def test_a_different_rank_each_time(tmp_path: Path) -> None:
    dice = random.Random(5)
    late = [dice.randrange(4) for _ in range(100)]
    known = found(trained(tmp_path, 80, lambda rank, step: 10 if late[step] == rank else 0, ranks=4))
    assert known.slow == ()
    assert known.sentences[1].startswith("No rank is slow throughout")


def test_layers_that_fsdp_shards(tmp_path: Path) -> None:
    made = Ranks(2)
    begin = 10.0
    for step in range(40):
        late = 20.0 if step >= 20 else 0.0
        for layer, size in enumerate((4096, 65536)):  # forward
            begin = made.call([begin + layer, begin + layer + late], collective="allgather", size=size)
            late = 0
        for size in (65536, 4096):  # backward
            begin = made.call([begin + 2] * 2, collective="reduce_scatter_block", size=size)
    known = found(made.write(tmp_path))
    assert (known.framework, known.steps, known.step_bytes) == ("FSDP", 40, 69632)
    (slow,) = known.slow
    assert (slow.ranks, slow.first_step) == ((1,), 21)
    assert slow.late_ns == pytest.approx(20 * MS, rel=0.05)
    assert known.communication_ns == pytest.approx(2 * MS, rel=0.01)
    assert "backward pass" not in known.sentences[-1]


@pytest.mark.parametrize(
    ("buckets", "lasts", "words"),
    [
        (BUCKETS, 0.005, "hardly matter"),
        ((64 << 10,) * 3 + (32 << 10,) * 3, 0.5, "a larger bucket_cap_mb"),
        ((16 << 20,), 5, "With a smaller bucket_cap_mb"),
        ((16 << 20, 8 << 20), 5, "fp16_compress_hook"),
    ],
)
def test_advice_is_given_where_the_times_support_it(
    tmp_path: Path, buckets: Sequence[int], lasts: float, words: str
) -> None:
    known = found(trained(tmp_path, 30, lambda rank, step: 0, buckets=buckets, lasts=lasts))
    (line,) = known.advice
    assert words in line


@pytest.mark.parametrize("mpi", ["no MPI", "Open MPI 5.0.11"])
def test_other_programs_are_not_taken_for_training(tmp_path: Path, mpi: str) -> None:
    trained(tmp_path, 30, lambda rank, step: 0, mpi=mpi)
    assert frameworks.training_of_calls(metrics.collect(trace.read(tmp_path))) is None


def test_without_steps_the_report_is_the_usual_one(tmp_path: Path) -> None:
    made, dice = Ranks(2), random.Random(1)
    begin = 1.0
    for _ in range(100):
        begin = made.call([begin, begin + 1], size=4 * dice.randrange(1, 1 << 20))
    made.write(tmp_path)
    assert frameworks.training_of_calls(metrics.collect(trace.read(tmp_path))) is None


def test_the_report_in_all_its_forms(tmp_path: Path, offbeat: Offbeat) -> None:
    trained(tmp_path / "run.trace", 60, lambda rank, step: 20 if rank == 1 and step >= 12 else 0)
    done = offbeat("report", "run.trace", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    sentence = "Rank 1 is the slow one, by "
    said = " ".join(done.stdout.split())
    assert sentence in said
    assert "Polls" not in said
    assert "polls" not in said
    assert sentence in (tmp_path / "page.html").read_text()
    known = json.loads(offbeat("report", "run.trace", "--json").stdout)["traces"][0]["training"]
    assert known["framework"] == "DDP"
    assert known["slow"][0]["ranks"] == [1]
    assert known["after_backward_s_per_step"] == pytest.approx(0.0005, rel=0.01)
    described = (ROOT / "docs" / "reference" / "report-format.md").read_text()
    assert all(f'"{name}": ' in described for name in known)
