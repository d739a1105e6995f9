# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of offbeat tune: times of several jobs, scores, who is behind, and who wins."""

from __future__ import annotations

import math
import random

import pytest
from offbeat.tune import race
from offbeat.tune.race import Estimate, Score, Timing


def row(**us: float) -> dict[str, Estimate]:
    return {name: Estimate(math.log(value), 0.01) for name, value in us.items()}


def test_a_job_that_was_slow_as_a_whole_does_not_count() -> None:
    """b is 2 times slower than a in one job, and c is 1.5 times slower than a in a job 3 times slower."""
    us = {(0, "a"): 10.0, (0, "b"): 20.0, (1, "a"): 30.0, (1, "c"): 45.0}
    found = race.estimates([Timing(job, name, math.log(value), 0.01) for (job, name), value in us.items()])
    assert found["b"].us / found["a"].us == pytest.approx(2.0, rel=1e-3)
    assert found["c"].us / found["a"].us == pytest.approx(1.5, rel=1e-3)
    assert found["c"].error > found["b"].error, "it is compared through a"


def test_one_shared_algorithm_is_no_proof_where_jobs_differ_much() -> None:
    """The algorithm that ties the second job to the first was 20 times slower there, and c was not."""
    us = {(0, "a"): 10.0, (0, "b"): 12.0, (1, "a"): 200.0, (1, "c"): 10.0, (2, "a"): 10.0, (2, "d"): 12.0}
    found = race.estimates([Timing(job, name, math.log(value), 0.01) for (job, name), value in us.items()])
    assert found["c"].us < 1.0
    scores = race.scores([found], list(found))
    assert not race.is_better(scores["c"], scores["b"])


def test_jobs_that_disagree_make_a_time_less_certain() -> None:
    def error(*second: float) -> float:
        timings = [Timing(0, name, math.log(10.0), 0.01) for name in "abc"]
        timings += [Timing(1, name, math.log(us), 0.01) for name, us in zip("abc", second, strict=True)]
        return race.estimates(timings)["a"].error

    assert error(10.0, 10.0, 10.0) < 0.02
    assert error(15.0, 10.0, 10.0) > 0.1


def test_a_timing_needs_positive_finite_times() -> None:
    timing = race.timing(3, "a", 10.0, 9.5, 10.5, 100)
    assert timing is not None
    assert timing.log_us == math.log(10.0)
    assert timing.error == pytest.approx(math.hypot(math.log(10.5 / 9.5) / 3.92, 0.01), rel=1e-3)
    for median, low, high in ((0.0, 0.0, 1.0), (1.0, -1.0, 2.0), (1.0, 0.5, math.inf)):
        assert race.timing(0, "a", median, low, high, 100) is None


def test_few_samples_cannot_be_precise() -> None:
    few, enough = (race.timing(0, "a", 10.0, 9.99, 10.01, samples) for samples in (49, 50))
    assert few is not None
    assert enough is not None
    assert few.error > 0.1 > 0.02 > enough.error


def test_scores_are_means_of_normalised_delays() -> None:
    found = race.scores([row(a=10, b=20), row(a=30, b=15)], ["a", "b", "never"])
    assert found["a"].value == pytest.approx((1 + 2) / 2)
    assert found["b"].value == pytest.approx((2 + 1) / 2)
    assert race.scores([row(a=10, b=20), row(a=30)], ["a", "b"]).keys() == {"a"}, "only complete ones"
    assert race.scores([row(a=10), row(b=30)], ["a", "b"]) == {}


def test_who_is_behind_is_so_with_certainty() -> None:
    found = {"best": Score(1.0, 0.01), "near": Score(1.03, 0.01), "far": Score(1.1, 0.01)}
    assert race.behind(found, tests=20) == {"far"}
    unsure = {**found, "far": Score(1.1, 0.1)}
    assert race.behind(unsure, tests=20) == set()
    assert race.behind({}, tests=20) == set()


def test_the_best_algorithm_is_hardly_ever_behind() -> None:
    """In at most 5% of the races, even if 11 others are as good; noise alone decides here."""
    generator = random.Random(1)
    false_alarms = 0
    for _ in range(400):
        rows = [{f"a{k}": Estimate(generator.gauss(0, 0.02), 0.02) for k in range(12)} for _ in range(3)]
        found = race.scores(rows, list(rows[0]))
        false_alarms += "a0" in race.behind(found, tests=12)
    assert 0 < false_alarms <= 0.05 * 400


def test_native_wins_ties_and_then_the_rule_in_force() -> None:
    found = {"native": Score(1.02, 0.005), "ring": Score(1.0, 0.005), "tree": Score(1.01, 0.005)}
    assert race.choose(found, "native", ["tree"], None) == "native"
    slower = {**found, "native": Score(1.04, 0.005)}
    assert race.choose(slower, "native", ["tree"], "ring") == "tree"
    assert race.choose(slower, "native", ["other"], "tree") == "tree", "as the neighbour"
    assert race.choose(slower, "native", ["other"], "native") == "ring"
    assert race.choose(slower, "native", [], None) == "ring"


def test_the_rule_in_force_stays_unless_another_one_is_better_with_certainty() -> None:
    found = {"native": Score(2.0, 0.01), "ring": Score(1.0, 0.01), "tree": Score(1.1, 0.01)}
    assert race.choose(found, "native", ["tree"], None) == "ring"
    noisy = {name: Score(score.value, 0.1) for name, score in found.items()}
    assert race.choose(noisy, "native", ["tree"], None) == "tree"
    assert race.choose(noisy, "native", ["native", "tree"], None) == "tree", "of alternatives the best one"


def test_native_does_not_win_by_noise() -> None:
    found = {"native": Score(1.0, 0.3), "tree": Score(1.02, 0.3)}
    assert race.choose(found, "native", ["tree"], None) == "tree"


def test_a_race_is_decided_when_nothing_can_be_better_by_more_than_a_tie() -> None:
    found = {"a": Score(1.0, 0.002), "b": Score(1.0, 0.002)}
    assert race.is_decided(found, "a", tests=10), "equal is good enough"
    assert not race.is_decided({**found, "b": Score(1.0, 0.05)}, "a", tests=10)
    assert not race.is_decided({**found, "b": Score(0.97, 0.01)}, "a", tests=10)
    assert race.is_decided({"a": Score(1.0, 0.5)}, "a", tests=10)
