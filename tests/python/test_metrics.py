# SPDX-License-Identifier: BSD-3-Clause
"""The metrics of papers 0 and 4 against values computed by hand."""

from pathlib import Path

import numpy as np
import pytest
from made_traces import START_NS, begun, iterations
from offbeat import trace
from offbeat.bench import arrival_patterns
from offbeat.errors import CommandError
from offbeat.reports import trace_sheets
from offbeat.trace import formulas, message_time, metrics, summaries
from offbeat.trace.message_time import MessageTime

# Arrivals 0, 3, 5, 12 us: mean 5, distances 5, 2, 0, 7; usual 3.
ARRIVALS = np.array([[0, 3000, 5000, 12000]])
ENDS = np.array([[13000, 14000, 13000, 12500]])


def test_worst_and_average_imbalance() -> None:
    assert formulas.worst_imbalance(ARRIVALS).tolist() == [12000]
    assert formulas.average_imbalance(ARRIVALS).tolist() == [3500]
    assert formulas.usual_arrival(ARRIVALS).tolist() == [3000]
    far = ARRIVALS + 10**17  # no digits are lost in a long run
    assert formulas.average_imbalance(far).tolist() == [3500]


def test_absent_ranks_do_not_count() -> None:
    present = np.array([[True, True, True, False]])
    assert formulas.worst_imbalance(ARRIVALS, present).tolist() == [5000]
    assert formulas.average_imbalance(ARRIVALS, present)[0] == pytest.approx((8 + 1 + 7) / 9 * 1000)
    assert formulas.usual_arrival(ARRIVALS, present).tolist() == [3000]


def test_node_wide_imbalance_is_the_average_over_nodes() -> None:
    nodes = np.array([0, 0, 1, 1])
    assert formulas.node_wide(formulas.worst_imbalance, ARRIVALS, nodes).tolist() == [(3000 + 7000) / 2]
    assert formulas.node_wide(formulas.average_imbalance, ARRIVALS, nodes).tolist() == [(1500 + 3500) / 2]
    alone = np.array([0, 1, 2, 2])  # a node with one rank has no imbalance to speak of
    assert formulas.node_wide(formulas.worst_imbalance, ARRIVALS, alone).tolist() == [7000]


def test_delays() -> None:
    assert formulas.total_delay(ARRIVALS, ENDS).tolist() == [14000]
    assert formulas.last_delay(ARRIVALS, ENDS).tolist() == [2000]


def test_waiting_ends_when_the_last_rank_arrives_or_the_rank_leaves() -> None:
    assert formulas.waiting(ARRIVALS, ENDS).tolist() == [[12000, 9000, 7000, 0]]
    early = np.array([[4000, 14000, 13000, 12500]])  # such as the root of a broadcast
    assert formulas.waiting(ARRIVALS, early).tolist() == [[4000, 9000, 7000, 0]]


def test_skew_is_measured_from_the_first_arrival() -> None:
    assert formulas.skew(ARRIVALS + 77).tolist() == [[0, 3000, 5000, 12000]]


def test_message_times_between_and_above_the_measured_sizes() -> None:
    alpha = MessageTime.from_pairs({1024: 2.0, 0: 1.0}, "test")
    assert alpha(np.array([0, 512, 1024, 4096])).tolist() == [1000, 1500, 2000, 8000]


def made(tmp_path: Path) -> trace.Trace:
    """Two nodes with two ranks, two calls of 8 bytes and a barrier; then one that rank 3 never leaves."""
    for rank in range(4):
        file = begun(rank, 4, host=f"n{rank // 2}")
        for call, scale in enumerate((1, 2)):
            begin = START_NS + 100_000 * call
            file.call(call, begin + scale * int(ARRIVALS[0, rank]), begin + scale * int(ENDS[0, rank]))
        file.call(2, START_NS + 200_000, START_NS + 201_000, collective="barrier", size=0)
        file.call(3, START_NS + 300_000, START_NS + 301_000 if rank < 3 else 0, flags=0 if rank < 3 else 8)
        file.write(tmp_path)
    return trace.read(tmp_path)


def test_a_trace_is_measured_call_by_call(tmp_path: Path) -> None:
    calls = metrics.collect(made(tmp_path))
    first, second, barrier, open_call = calls.table
    assert (first["omega"], first["delta"], first["node_omega"], first["node_delta"]) == (
        12000,
        3500,
        5000,
        2500,
    )
    assert (first["waiting"], first["in_call"], first["last_rank"]) == (28000, 13000 + 11000 + 8000 + 500, 3)
    assert (first["lateness"], first["early_spread"]) == (9000, 3000)
    assert second["omega"] == 24000
    assert barrier["omega"] == 0
    assert not open_call["complete"]
    assert len(calls.whole) == 3
    assert calls.mean_skew.tolist() == [0, 3000, 5000, 12000]
    assert calls.mean_skew_us() == [0, 3, 5, 12]


def test_imbalance_factors_are_averages_of_the_calls_factors(tmp_path: Path) -> None:
    calls = metrics.collect(made(tmp_path))
    every, small = summaries.imbalance(calls, MessageTime.from_pairs({0: 1.0, 8: 2.0}, "test"))
    assert (every.size_class, small.size_class, every.calls, small.calls) == ("all", "small", 3, 3)
    assert every.worst.us == pytest.approx((12 + 24 + 0) / 3)
    assert every.worst.factor == pytest.approx((6 + 12 + 0) / 3)
    assert every.average.factor == pytest.approx((3.5 + 7) / 2 / 3)
    assert every.node_worst.factor == pytest.approx((5 + 10) / 2 / 3)
    assert summaries.imbalance(calls, None)[0].worst.factor is None


def test_shares_of_calls_and_time(tmp_path: Path) -> None:
    calls = metrics.collect(made(tmp_path))
    allreduce, barrier = summaries.shares(calls)
    in_allreduce, in_barrier = 3 * 32_500, 4 * 1000
    assert (trace.COLLECTIVES[allreduce.collective], allreduce.calls) == ("allreduce", 2)
    assert allreduce.call_share == pytest.approx(2 / 3)
    assert allreduce.time_share == pytest.approx(in_allreduce / (in_allreduce + in_barrier))
    assert allreduce.waiting_ns == 3 * 28_000
    assert allreduce.communicating_ns == in_allreduce - 3 * 28_000
    assert (barrier.calls, barrier.time_ns, barrier.waiting_ns) == (1, in_barrier, 0)


def test_size_classes() -> None:
    names = [summaries.SIZE_CLASSES[number] for number in summaries.size_class([0, 1024, 1025, 65536, 65537])]
    assert names == ["small", "small", "medium", "medium", "large"]


def test_who_is_last_how_often_and_by_how_much(tmp_path: Path) -> None:
    late = {0: (1, 4000), 1: (1, 6000), 2: (2, 1000)}  # call: (rank, ns)
    path = iterations(tmp_path, 3, 3, lambda rank, call: late[call][1] if rank == late[call][0] else 0)
    first, second, third = summaries.lateness(metrics.collect(trace.read(path)))
    assert (first.calls_last, first.lateness_us, first.mean_skew_us) == (0, 0, 0)
    assert (second.calls_last, second.lateness_us) == (2, 5.0)
    assert second.mean_skew_us == pytest.approx(10 / 3)
    assert second.share_last == pytest.approx(2 / 3)
    assert second.waited_s == pytest.approx(2 * 10e-6)
    assert (third.calls_last, third.lateness_us) == (1, 1.0)


def test_nonblocking_calls_are_not_waiting(tmp_path: Path) -> None:
    for rank in range(2):
        file = begun(rank, 2)
        file.call(0, START_NS + 1000 * rank, START_NS + 1000 * rank + 10, START_NS + 5000, flags=2)
        file.write(tmp_path)
    calls = metrics.collect(trace.read(tmp_path))
    (call,) = calls.whole
    assert (call["waiting"], call["in_call"], call["end"] - call["last"]) == (0, 20, 4000)
    last = trace_sheets.ranks(calls)
    assert [(row[0].text, row[-1].text) for row in last.rows] == [("rank 1", "-"), ("rank 0", "0.00 µs")]
    shares = trace_sheets.shares(calls)
    assert [cell.text for cell in shares.rows[0][-3:]] == ["-", "0.02 µs", "-"]
    for sheet in (last, shares):
        assert "Non-blocking calls record no waiting" in sheet.note


def test_tables_of_blocking_calls_say_nothing_of_others(tmp_path: Path) -> None:
    calls = metrics.collect(made(tmp_path))
    for sheet in (trace_sheets.ranks(calls), trace_sheets.shares(calls)):
        assert "non-blocking" not in sheet.note
        assert all(cell.text != "-" for row in sheet.rows for cell in row)


def test_the_time_of_a_message_is_estimated_from_the_fastest_calls(tmp_path: Path) -> None:
    path = iterations(tmp_path, 2, 50, lambda rank, call: 0, duration_ns=3000)
    alpha = message_time.estimate_message_time(metrics.collect(trace.read(path)))
    assert alpha is not None
    assert alpha(8) == pytest.approx(3100, abs=1)


def test_message_times_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "alpha.txt"
    path.write_text("# bytes us\n8 1.5\n1024 2.5  # and more\n")
    assert MessageTime.read(path)(1024) == 2500
    for text, message in (("8 x\n", "line 1"), ("8 0\n", "line 1"), ("# nothing\n", "no line")):
        path.write_text(text)
        with pytest.raises(CommandError, match=message):
            MessageTime.read(path)


def test_a_trace_is_a_pattern_to_replay(tmp_path: Path) -> None:
    path = iterations(tmp_path / "run.trace", 4, 10, lambda rank, call: 1000 * rank)
    assert arrival_patterns.read_delays(path) == [0, 1, 2, 3]
    assert arrival_patterns.find_pattern(str(path)).rounds(4, 1) == [[0, 1 / 3, 2 / 3, 1]]
