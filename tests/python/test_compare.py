# SPDX-License-Identifier: BSD-3-Clause
"""offbeat compare: what counts as a difference, and the exit codes."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from fakes import Offbeat, benchmark_of, result_of
from offbeat.bench.compare import FASTER, NO_DIFFERENCE, SLOWER, compare, conditions
from offbeat.bench.results import Benchmark, WrongData
from offbeat.bench.samples import summarize
from offbeat.errors import CommandError


def verdicts(first: Benchmark, second: Benchmark, **options: Any) -> list[str]:
    return [c.verdict for c in compare(first, second, **{"threshold": 0.05, **options})]


def test_a_difference_counts_when_it_is_certain_and_above_the_threshold() -> None:
    before = benchmark_of(result_of("native", 10.0))
    assert verdicts(before, benchmark_of(result_of("native", 12.0))) == [SLOWER]
    assert verdicts(before, benchmark_of(result_of("native", 8.0))) == [FASTER]
    assert verdicts(before, benchmark_of(result_of("native", 10.4))) == [NO_DIFFERENCE]
    assert verdicts(before, benchmark_of(result_of("native", 12.0)), threshold=0.5) == [NO_DIFFERENCE]
    assert verdicts(before, benchmark_of(result_of("native", 12.0, spread=1.9))) == [NO_DIFFERENCE]


def test_the_interval_holds_the_ratio() -> None:
    (c,) = compare(
        benchmark_of(result_of("native", 10.0)), benchmark_of(result_of("native", 20.0)), threshold=0
    )
    assert c.ratio == pytest.approx(2.0)
    assert 1.9 < c.low < 2.0 < c.high < 2.1


def test_relative_to_native_a_slower_machine_is_no_difference() -> None:
    before = benchmark_of(result_of("native", 10.0), result_of("ring", 5.0), result_of("linear", 5.0))
    after = benchmark_of(result_of("native", 20.0), result_of("ring", 10.0), result_of("linear", 20.0))
    assert verdicts(before, after) == [SLOWER, SLOWER, SLOWER]
    assert verdicts(before, after, relative=True) == [NO_DIFFERENCE, SLOWER]


def test_only_what_both_have_is_compared() -> None:
    before = benchmark_of(result_of("native"), result_of("ring"))
    after = benchmark_of(result_of("native"), result_of("native", size=128))
    assert len(compare(before, after, threshold=0.05)) == 1
    with pytest.raises(CommandError, match="no cell in common"):
        compare(before, benchmark_of(result_of("native", size=128)), threshold=0.05)


def test_other_conditions_are_named() -> None:
    before, after = benchmark_of(result_of("native")), benchmark_of(result_of("native"))
    assert conditions(before, after) == []
    after.about["mpi"]["version"] = "6"
    after.about["environment"] = {"OMPI_MCA_btl": "tcp"}
    assert conditions(before, after) == ["mpi, version: 5, 6", "environment, OMPI_MCA_btl: None, tcp"]


def test_noise_that_lasts_widens_the_interval() -> None:
    generator = random.Random(1)
    quick = [generator.gauss(10, 1) for _ in range(1000)]
    lasting = [sample + (5 if i // 100 % 2 else 0) for i, sample in enumerate(quick)]
    shuffled = generator.sample(lasting, len(lasting))
    assert summarize(quick).ci95_high - summarize(quick).ci95_low < 0.5
    width = summarize(lasting).ci95_high - summarize(lasting).ci95_low
    assert width > 2.5
    assert summarize(lasting).median == summarize(shuffled).median


def test_percentiles_are_interpolated() -> None:
    delay = summarize([4.0, 1.0, 3.0, 2.0])
    assert (delay.median, delay.mean) == (2.5, 2.5)
    assert (delay.p10, delay.p25, delay.p75, delay.p90) == pytest.approx((1.3, 1.75, 3.25, 3.7))
    assert summarize([7.0]).ci95_low == summarize([7.0]).ci95_high == 7.0


@pytest.mark.parametrize(
    ("median", "exit_code", "said"),
    [(10.0, 0, "1 no difference seen"), (20.0, 1, "1 slower"), (5.0, 0, "1 faster")],
)
def test_exit_codes(offbeat: Offbeat, tmp_path: Path, median: float, exit_code: int, said: str) -> None:
    benchmark_of(result_of("native", 10.0)).write(tmp_path / "a.json")
    benchmark_of(result_of("native", median)).write(tmp_path / "b.json")
    done = offbeat("compare", "a.json", "b.json", "--all")
    assert (done.returncode, said in done.stdout) == (exit_code, True), done.stdout + done.stderr
    parsed = json.loads(offbeat("compare", "a.json", "b.json", "--json").stdout)
    assert parsed["cells"][0]["ratio"] == pytest.approx(median / 10)


def test_a_wrong_result_fails(offbeat: Offbeat, tmp_path: Path) -> None:
    good = result_of("native")
    benchmark_of(good).write(tmp_path / "a.json")
    bad = result_of("ring", status="wrong", wrong_data=WrongData(1, 0, 0, 5.0, 4.0))
    benchmark_of(good, bad).write(tmp_path / "b.json")
    done = offbeat("compare", "a.json", "b.json")
    assert done.returncode == 1
    assert "b.json has wrong results, the first: ring at 64 B" in done.stderr


def test_bad_input(offbeat: Offbeat, tmp_path: Path) -> None:
    benchmark_of(result_of("native")).write(tmp_path / "a.json")
    for arguments, message in (
        (["a.json", "none.json"], "cannot read none.json"),
        (["a.json", "a.json", "--threshold", "much"], "--threshold much: write a percentage"),
    ):
        done = offbeat("compare", *arguments)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
