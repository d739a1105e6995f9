# SPDX-License-Identifier: BSD-3-Clause
"""Simulated times against measured ones: made-up times, and those that were measured (model_check.json)."""

from __future__ import annotations

from dataclasses import replace

import model_check
import pytest
import result_file
from offbeat.simulate import agreement, machine
from offbeat.simulate.agreement import Time

# 8 bytes take 2 us within a node.
PLAIN = """\
name = "plain"
[core]
combine_ns_per_byte = 0
step_ns = 1000
[within_node]
latency_us = 1
bandwidth_gb_per_s = 0.008
[between_nodes]
latency_us = 2
bandwidth_gb_per_s = 0.001
"""


def time(algorithm: str, us: float, **values: object) -> Time:
    usual = Time(2, 8, "balanced", 0.0, 1, algorithm, us)
    return replace(usual, **values)  # type: ignore[arg-type]


def test_times_are_simulated_as_they_were_measured() -> None:
    plain = machine.parse(PLAIN, "plain")
    ours, native = time("recursive_doubling", 9), time("native(recursive_doubling)", 9)
    late = time("recursive_doubling", 9, pattern="last_delayed", skew_us=100.0)
    unknown = time("native(linear_sync)", 9)
    board = time("arrival_tree", 9)
    found = agreement.simulated_us(plain, [ours, native, late, unknown, board])
    assert found == pytest.approx({ours: 1 + 2 + 1, native: 2, late: 4})


def test_order_and_times_are_counted() -> None:
    one, two, three = time("ring", 10), time("binomial", 11), time("rabenseifner", 20)
    found = agreement.compare({one: 12, two: 13, three: 30})
    assert (found.times, found.times_that_agree, found.median_ratio) == (3, 2, 1.2)
    assert (found.pairs, found.pairs_in_order) == (2, 2), "10 and 11 have no order"
    found = agreement.compare({one: 12, two: 13, three: 12.5})
    assert (found.times_that_agree, found.pairs_in_order, found.order_share) == (2, 1, 0.5)
    only = agreement.compare({one: 12, two: 13, three: 12.5}, algorithm="ring")
    assert (only.times, only.pairs) == (1, 1)
    assert agreement.compare({one: 12, two: 13}, size_bytes=9).times == 0
    other_cell, other_call = time("ring", 100, size_bytes=16), time("ring", 100, collective="bcast")
    assert (
        agreement.compare({one: 12, other_cell: 5, other_call: 5, time("ring", 100, mpi="other"): 5}).pairs
        == 0
    )
    for equal in ({one: 12, three: 12}, {three: 12, one: 12}):
        found = agreement.compare(equal)
        assert (found.pairs, found.pairs_in_order) == (1, 0), "equal simulated times have no order"


def test_the_model_agrees_with_the_measured_node() -> None:
    """The machine file and the times of benchmarks/model_check.py. A worse model fails here."""
    document = result_file.read(result_file.FOLDER / "model_check.json")
    times = [Time.from_json(cell) for cell in document["cells"]]
    simulated = agreement.simulated_us(machine.parse(document["machine_file"], "model_check.json"), times)
    assert len(simulated) == len(times)
    ours, all_ = agreement.compare(agreement.of_offbeat(simulated)), agreement.compare(simulated)
    assert ours.order_share >= 0.98
    assert ours.times_share >= 0.70
    assert all_.order_share >= 0.82
    assert all_.times_share >= 0.60
    assert ours.pairs >= 250
    assert all_.pairs >= 600


def test_the_script_compares_a_file_again(capsys: pytest.CaptureFixture[str]) -> None:
    path = result_file.FOLDER / "model_check.json"
    model_check.main(["--again", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| of | times | within 25% |")
    assert lines[-1].startswith(f"| all | {len(result_file.read(path)['cells'])} |")
