# SPDX-License-Identifier: BSD-3-Clause
"""Planted lateness is found: who, where, when, by how much."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import Offbeat
from made_traces import START_NS, begun, iterations
from offbeat import trace
from offbeat.trace import diagnosis, metrics
from offbeat.trace.findings import Diagnosis, Kind

SKEW_NS = 2_000_000


def jitter(seed: int, most_ns: int = 3000) -> Callable[[], int]:
    generator = random.Random(seed)
    return lambda: generator.randrange(most_ns)


def diagnosed(path: Path) -> Diagnosis:
    return diagnosis.diagnose(metrics.collect(trace.read(path)))


def late_every_tenth(path: Path, ranks: int = 8, seed: int = 1) -> Path:
    """Rank 3 sleeps 2 ms before every 10th call; sizes take turns."""
    noise = jitter(seed)
    return iterations(
        path,
        ranks,
        1000,
        lambda rank, call: noise() + (SKEW_NS if rank == 3 and call % 10 == 9 else 0),
        size=lambda call: 8 if call % 2 else 1 << 20,
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_rank_late_before_every_tenth_call(tmp_path: Path, seed: int) -> None:
    (finding,) = diagnosed(late_every_tenth(tmp_path, seed=seed)).findings
    assert (finding.kind, finding.ranks) == (Kind.LATE, (3,))
    (occurrence,) = finding.occurrences
    assert trace.COLLECTIVES[occurrence.group.collective] == "allreduce"
    assert (occurrence.group.least_bytes, occurrence.group.most_bytes) == (8, 8)
    assert str(occurrence.of_communicator) == "every 10th"
    assert str(occurrence.of_kind) == "every 5th"
    assert occurrence.numbers[:3].tolist() == [10, 20, 30]
    assert len(occurrence.rows) == 100
    assert occurrence.lateness_us[1] == pytest.approx(SKEW_NS / 1e3, rel=0.05)
    assert finding.waited_s == pytest.approx(100 * 7 * SKEW_NS / 1e9, rel=0.05)


def test_the_report_names_rank_call_and_size(offbeat: Offbeat, tmp_path: Path) -> None:
    late_every_tenth(tmp_path / "run.trace")
    done = offbeat("report", "run.trace")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "1. Rank 3 is late by 2000 µs (median;" in said
    assert "at allreduce of 8 B on communicator 0 (all 8 ranks), before every 5th such call" in said
    assert "every 10th call on the communicator (call numbers 10, 20, 30, ...; 100 of 500 such calls)" in said
    assert "Look at what rank 3 alone does before every 5th such call" in said
    assert said.count("--pattern skew.txt") == 1
    assert "offbeat bench -n 8 --sizes 8 --patterns balanced,./skew.txt --skew 200" in said
    assert "offbeat predict run.trace --from bench.json" in said


def late_everywhere(path: Path) -> Path:
    """Rank 3 is always late, and rank 1 twice as long, but seldom; three sizes take turns."""
    noise = jitter(1)

    def late(rank: int, call: int) -> int:
        return noise() + 50_000 * (rank == 3) + 200_000 * (rank == 1 and call % 30 == 7)

    return iterations(path, 4, 600, late, size=lambda call: (8, 64, 512)[call % 3])


def test_alike_findings_are_one(tmp_path: Path) -> None:
    """The longest wait is first, in the findings and in the occurrences of each."""
    first, second = diagnosed(late_everywhere(tmp_path)).findings
    assert (first.ranks, sorted(each.group.most_bytes for each in first.occurrences)) == ((3,), [8, 64, 512])
    assert (second.ranks, [each.group.most_bytes for each in second.occurrences]) == ((1,), [64])
    waits = [each.waited_s for each in first.occurrences]
    assert waits == sorted(waits, reverse=True)
    assert first.waited_s == pytest.approx(sum(waits))
    assert first.waited_s > second.waited_s
    assert first.sentence.startswith("Rank 3 is late at 3 kinds of call. The others wait for it for ")
    assert len(first.details) == 3
    assert first.details[0].startswith("by 49.9 µs (median; ")
    assert second.details == []


def test_advice_and_commands_are_said_once(offbeat: Offbeat, tmp_path: Path) -> None:
    late_everywhere(tmp_path / "run.trace")
    said = " ".join(offbeat("report", "run.trace").stdout.split())
    assert said.count("Rank 3 always arrives last: give it less work") == 1
    assert said.count("offbeat bench ") == 1
    assert said.count("`offbeat top --where 3 --seconds 10s` while it runs") == 1
    assert "--sizes 8,64,512 " in said


def test_the_same_advice_is_not_said_twice(tmp_path: Path) -> None:
    """Two sets of ranks in their own order have one cause."""
    noise = jitter(1)

    def late(rank: int, call: int) -> int:
        return noise() + 20_000 * (rank if call % 2 else 7 - rank)

    path = iterations(tmp_path, 8, 200, late, size=lambda call: 8 if call % 2 else 64)
    found = diagnosed(path)
    assert [finding.ranks for finding in found.findings] in ([(6, 7), (0, 1)], [(0, 1), (6, 7)])
    assert found.advice[0].startswith("The work between the calls differs from rank to rank")
    assert found.advice[1] == "As for finding 1."


def test_noise_of_all_ranks_hides_nothing(tmp_path: Path) -> None:
    noise = random.Random(6)

    def late(rank: int, call: int) -> int:
        interrupted = 15_000 * (noise.random() < 0.1)
        return noise.randrange(1000) + interrupted + SKEW_NS * (rank == 3 and call % 10 == 9)

    finding = diagnosed(iterations(tmp_path, 4, 600, late, duration_ns=2000)).findings[0]
    (occurrence,) = finding.occurrences
    assert (finding.ranks, str(occurrence.of_kind), len(occurrence.rows)) == ((3,), "every 10th", 60)
    assert occurrence.lateness_us[1] == pytest.approx(2000, rel=0.02)


def test_a_rank_that_is_always_late(tmp_path: Path) -> None:
    noise = jitter(1)
    path = iterations(tmp_path, 4, 200, lambda rank, call: noise() + 50_000 * (rank == 1))
    (finding,) = diagnosed(path).findings
    assert (finding.ranks, finding.occurrences[0].when) == ((1,), "in 200 of 200 such calls")
    assert "give it less work" in finding.advice


def test_of_two_ranks_one_late(tmp_path: Path) -> None:
    noise = jitter(1)
    path = iterations(tmp_path, 2, 200, lambda rank, call: noise() + 50_000 * (rank == 1 and call % 4 == 0))
    finding = diagnosed(path).findings[0]
    assert (finding.ranks, str(finding.occurrences[0].of_kind)) == ((1,), "every 4th")


def test_two_ranks_at_different_calls_are_two_findings(tmp_path: Path) -> None:
    noise = jitter(1)

    def late(rank: int, call: int) -> int:
        return noise() + 900_000 * (rank == 2 and call % 5 == 0) + 500_000 * (rank == 6 and call % 7 == 3)

    first, second = diagnosed(iterations(tmp_path, 8, 700, late)).findings
    periods = [(finding.ranks, str(finding.occurrences[0].of_kind)) for finding in (first, second)]
    assert periods == [((2,), "every 5th"), ((6,), "every 7th")]
    assert second.occurrences[0].lateness_us[1] == pytest.approx(500, rel=0.05)


def test_all_ranks_of_a_node_late(tmp_path: Path) -> None:
    noise = jitter(1)

    def late(rank: int, call: int) -> int:
        return noise() + 80_000 * (rank // 3 == 1)

    path = iterations(tmp_path, 9, 100, late, hosts=lambda rank: f"n{rank // 3}")
    (finding,) = diagnosed(path).findings
    assert (finding.ranks, finding.host) == ((3, 4, 5), "n1")
    assert finding.sentence.startswith("All ranks on n1 (3..5) are late by 8")


def test_another_rank_each_time(tmp_path: Path) -> None:
    generator = random.Random(4)
    stragglers = [generator.randrange(8) for _ in range(400)]
    path = iterations(tmp_path, 8, 400, lambda rank, call: 100_000 * (rank == stragglers[call]))
    (finding,) = diagnosed(path).findings
    assert (finding.kind, finding.ranks) == (Kind.VARYING, ())
    assert finding.sentence.startswith("A different rank each time is late by 100 µs")


def test_ranks_one_after_the_other(tmp_path: Path) -> None:
    noise = jitter(1)
    path = iterations(tmp_path, 8, 100, lambda rank, call: noise() + 20_000 * rank)
    (finding,) = diagnosed(path).findings
    assert (finding.kind, finding.ranks) == (Kind.SPREAD, (6, 7))
    assert "mostly in the same order, ranks 6..7 last, spread over 140 µs" in finding.sentence


def test_ranks_in_any_order(tmp_path: Path) -> None:
    noise = jitter(1, 100_000)
    (finding,) = diagnosed(iterations(tmp_path, 8, 300, lambda rank, call: noise())).findings
    assert (finding.kind, finding.ranks) == (Kind.SPREAD, ())


def test_a_balanced_program_has_no_finding(tmp_path: Path) -> None:
    noise = jitter(1, 300)
    found = diagnosed(iterations(tmp_path, 8, 300, lambda rank, call: noise()))
    assert found.findings == []
    assert "No rank is late often enough" in found.summary


def test_what_the_clocks_cannot_tell_is_not_told(tmp_path: Path) -> None:
    clock = (2, START_NS, 0, 0.0, 100_000.0)
    path = iterations(tmp_path, 4, 100, lambda rank, call: 50_000 * (rank == 1), start=clock)
    assert diagnosed(path).findings == []


def test_calls_of_a_killed_rank_do_not_count(tmp_path: Path) -> None:
    path = late_every_tenth(tmp_path)
    cut = path / "rank-000006.trace"
    cut.write_bytes(cut.read_bytes()[: 4096 + 64 * 404])
    found = diagnosed(path)
    assert [finding.ranks for finding in found.findings] == [(3,)]
    assert len(found.findings[0].occurrences[0].rows) == 40


@pytest.mark.parametrize(("waited_ms", "said"), [(10, True), (0.1, False)])
def test_overloaded_cores_are_named_before_late_ranks(
    offbeat: Offbeat, tmp_path: Path, waited_ms: float, said: bool
) -> None:
    """The run takes 32 ms."""
    path = iterations(
        tmp_path / "run.trace", 4, 200, lambda rank, call: 50_000 * (rank == 1),
        contention_at_start=(5_000_000, 10), contention_at_end=(5_000_000 + int(1e6 * waited_ms), 310),
    )  # fmt: skip
    shown = " ".join(offbeat("report", str(path)).stdout.split())
    crowded = shown.find("Cores were overloaded: rank 0 was without one for 31% of the run and preempted")
    assert (crowded > 0) == said
    if said:
        assert crowded < shown.index("Rank 1 is late")
        assert "preempted 300 times; so were ranks 1..3. Give each rank a core of its own" in shown
    assert ("find out why ranks are late" in shown.lower()) == (not said)  # first the cores
    (document,) = json.loads(offbeat("report", "--json", str(path)).stdout)["traces"]
    assert (document["contention"] is not None) == said


def test_the_next_command_measures_the_costliest_collective(offbeat: Offbeat, tmp_path: Path) -> None:
    """There are as many allreduces as bcasts, but those take a tenth of the time."""
    files = [begun(rank, 3) for rank in range(3)]
    now = START_NS + 1_000_000
    for number in range(200):
        name, takes_ns = ("allreduce", 5_000) if number % 2 else ("bcast", 50_000)
        for file in files:
            file.call(
                number, now, now + takes_ns, collective=name, size=4096, root=0 if name == "bcast" else -1
            )
        now += 100_000
    for file in files:
        file.write(tmp_path / "run.trace")
    shown = offbeat("report", "run.trace").stdout
    assert "offbeat bench -n 3 --collectives bcast --sizes 4096 --json bench.json" in shown


def test_a_trace_with_nothing_to_compare(tmp_path: Path) -> None:
    made = begun(0, 1)
    made.call(0, START_NS, START_NS + 1)
    assert "nothing to compare" in diagnosed(made.write(tmp_path).parent).summary
    assert diagnosed(tmp_path).findings == []


def test_one_late_call_is_told_by_its_number(tmp_path: Path) -> None:
    noise = jitter(1)
    path = iterations(tmp_path, 4, 200, lambda rank, call: noise() + 6_704_000 * (rank == 1 and call == 96))
    (finding,) = diagnosed(path).findings
    assert finding.sentence.startswith("Rank 1 is late by 670")
    assert (
        " µs at allreduce of 8 B on communicator 0 (all 4 ranks), in one call (number 97)."
        in finding.sentence
    )


def test_a_rank_that_is_late_in_most_calls_is_not_always_late(tmp_path: Path) -> None:
    noise = jitter(1)
    path = iterations(tmp_path, 4, 200, lambda rank, call: noise() + 50_000 * (rank == 1 and call % 10 != 3))
    (finding,) = diagnosed(path).findings
    assert "Rank 1 mostly arrives last: give it less work" in finding.advice


def test_a_rank_that_is_always_late_in_one_kind_of_call_only(tmp_path: Path) -> None:
    noise = jitter(1)

    def late(rank: int, call: int) -> int:
        return noise() + 50_000 * (rank == 1 and (call % 2 == 0 or call % 20 == 1))

    path = iterations(tmp_path, 4, 200, late, size=lambda call: 64 if call % 2 else 8)
    (finding, *_) = diagnosed(path).findings
    assert len(finding.occurrences) == 2
    assert "Rank 1 mostly arrives last: give it less work" in finding.advice


def test_a_pattern_file_comes_without_the_report(offbeat: Offbeat, tmp_path: Path) -> None:
    late_every_tenth(tmp_path / "run.trace")
    assert offbeat("report", "run.trace", "--pattern", "skew.txt").stdout == "Wrote skew.txt\n"
