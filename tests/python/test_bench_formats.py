# SPDX-License-Identifier: BSD-3-Clause
"""The formats of other benchmarks, bandwidths, and what a cell can vary."""

import csv
import io
import re
from dataclasses import replace

import pytest
from fakes import benchmark_of, result_of
from offbeat.bench import bandwidth, plan, results
from offbeat.bench.plan import Cell, Plan
from offbeat.bench.results import NOT_SERVED, WRONG, Benchmark, Result, WrongData
from offbeat.errors import CommandError
from offbeat.reports import bench_formats


def timed(result: Result, *times: float, **of_cell: object) -> Result:
    least, mean, most = times or (1.0, 2.0, 3.0)
    return replace(result, cell=result.cell._replace(**of_cell), t_min_us=least, t_avg_us=mean, t_max_us=most)  # type: ignore[arg-type]


def some() -> Benchmark:
    found = benchmark_of(
        timed(result_of("native", 10.0, size=1024)),
        timed(result_of("ring", 4.0, size=1024), 1.5, 2.5, 3.5),
        timed(result_of("ring", 5.0, size=1024), in_place=True),
        timed(result_of("native", 8.0, size=64, collective="reduce"), type="int32", operation="max", root=1),
        result_of("ring", collective="bcast", size=64, status=NOT_SERVED),
    )
    return replace(found, plan=replace(found.plan, ranks=4))


@pytest.mark.parametrize(
    ("collective", "size", "data", "on_the_bus"),
    [
        ("allreduce", 1000, 1000, 1.5),
        ("bcast", 1000, 1000, 1.0),
        ("reduce", 1000, 1000, 1.0),
        ("reduce_scatter", 1000, 1000, 0.75),
        ("reduce_scatter_block", 250, 1000, 0.75),
        ("allgather", 250, 1000, 0.75),
        ("alltoall", 250, 1000, 0.75),
        ("scan", 1000, 1000, 1.0),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(collective: str, size: int, data: int, on_the_bus: float) -> None:
    """1000 bytes in 10 us are 0.1 GB/s."""
    assert bandwidth.total_bytes(collective, size, 4) == data
    found = bandwidth.bandwidth_of_result(result_of("native", 10.0, collective=collective, size=size), 4)
    assert found is not None
    assert found.algorithm == pytest.approx(0.1)
    assert found.bus == pytest.approx(0.1 * on_the_bus)


def test_a_barrier_has_no_bandwidth() -> None:
    assert bandwidth.bandwidth_of_result(result_of("native", 10.0, collective="barrier", size=0), 4) is None


def test_csv_is_tidy() -> None:
    rows = list(csv.DictReader(io.StringIO(bench_formats.as_csv(some()))))
    assert len(rows) == 5
    ring = rows[1]
    assert (ring["collective"], ring["algorithm"], ring["size_bytes"], ring["count"]) == (
        "allreduce", "ring", "1024", "256",
    )  # fmt: skip
    assert (ring["type"], ring["operation"], ring["root"], ring["in_place"]) == ("float", "sum", "", "0")
    assert (ring["t_min_us"], ring["t_avg_us"], ring["t_max_us"]) == ("1.5", "2.5", "3.5")
    assert float(ring["last_delay_us"]) == pytest.approx(4.0)
    assert float(ring["algbw_gbs"]) == pytest.approx(0.256)
    assert float(ring["busbw_gbs"]) == pytest.approx(0.384)
    assert rows[2]["in_place"] == "1"
    assert (rows[3]["type"], rows[3]["operation"], rows[3]["root"]) == ("int32", "max", "1")
    assert (rows[4]["status"], rows[4]["operation"], rows[4]["last_delay_us"]) == ("not served", "", "")


def test_osu() -> None:
    text = bench_formats.as_osu(some())
    first = text.partition("\n\n")[0].splitlines()
    assert first[0] == "# OSU MPI Allreduce Latency Test v7.1"
    assert first[2] == "# Datatype: MPI_FLOAT."
    assert first[3].split() == [
        "#",
        "Size",
        "Avg",
        "Latency(us)",
        "Min",
        "Latency(us)",
        "Max",
        "Latency(us)",
        "Iterations",
    ]
    assert first[4].split() == ["1024", "2.00", "1.00", "3.00", "101"]
    assert "allreduce by native, 4 ranks, Open MPI 5, balanced arrival" in first[1]
    assert "# Datatype: MPI_INT32." in text


def test_imb() -> None:
    lines = bench_formats.as_imb(some()).partition("\n\n")[0].splitlines()
    assert lines[1].strip() == "# Benchmarking Allreduce"
    assert lines[2].strip() == "# #processes = 4"
    assert lines[5].split() == ["#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]
    assert lines[6].split() == ["1024", "101", "1.00", "3.00", "2.00"]


def test_imb_of_non_blocking_calls() -> None:
    result = result_of("native", 4.0, computing_us=10.0, waiting_delays_us=[8.0] * 101)
    lines = bench_formats.as_imb(benchmark_of(result)).splitlines()
    assert lines[1].strip() == "# Benchmarking Iallreduce"
    assert lines[5].split()[2:] == ["t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"]
    overlapped, pure, computing, overlap = map(float, lines[6].split()[2:])
    assert [overlapped, pure, computing] == pytest.approx([14.0, 8.0, 10.0])
    assert overlap == pytest.approx(100 * (8 - 4) / 8)


def nccl_block(benchmark: Benchmark, name: str) -> str:
    """The lines about a collective and an algorithm."""
    blocks = re.split(r"^(?=# \w+ by )", bench_formats.as_nccl(benchmark), flags=re.MULTILINE)
    (found,) = [block for block in blocks if block.startswith(f"# {name},")]
    return found


def test_nccl_shows_both_places_in_one_line() -> None:
    found = some()
    wrong = WrongData(3, 0, 1, 1.0, 2.0)
    found.add([replace(result_of("ring", size=4096, status=WRONG), wrong_data=wrong)])
    ring, reduce = (nccl_block(found, name) for name in ("allreduce by ring", "reduce by native"))
    (line,) = [line for line in ring.splitlines() if re.match(r" +1024 ", line)]
    assert line.split()[:5] == ["1024", "256", "float", "sum", "-1"]
    out, place = line.split()[5:9], line.split()[9:]
    assert list(map(float, out)) == [pytest.approx(4.0), 0.26, 0.38, 0]
    assert list(map(float, place)) == [pytest.approx(5.0), 0.2, 0.31, 0]
    assert "Out of bounds values : 1 FAILED" in ring
    assert "Avg bus bandwidth    : 0.3456" in ring
    assert " int32     max       1 " in reduce
    assert "N/A" in reduce, "it was not measured in place"


def test_cells_vary_by_type_operation_root_and_place() -> None:
    asked = Plan(
        3, [8], ["native"], types=["float", "int8"], operations=["sum", "band"], roots=[0, 2],
        in_place_forms=[False, True], collectives=["allreduce", "bcast", "barrier"],
    )  # fmt: skip
    calls = [cell[4:] for cell in asked.cells if cell.collective == "allreduce"]
    assert calls == [
        (type_, operation, 0, place)
        for type_, operation in (("float", "sum"), ("int8", "sum"), ("int8", "band"))
        for place in (False, True)
    ], "no bitwise operation on floats, and no root"
    assert [cell[4:] for cell in asked.cells if cell.collective == "bcast"] == [
        (type_, "sum", root, False) for type_ in ("float", "int8") for root in (0, 2)
    ]
    assert [cell for cell in asked.cells if cell.collective == "barrier"] == [
        Cell("barrier", 0, "balanced", "0us")
    ]
    assert Plan.from_json(asked.to_json()).cells == asked.cells


def test_results_with_a_variant_are_read_back_and_old_files_have_none() -> None:
    result = timed(
        result_of("ring", collective="reduce"), type="int64", operation="max", root=2, in_place=True
    )
    written = result.to_json()
    assert (written["type"], written["operation"], written["root"], written["in_place"]) == (
        "int64", "max", 2, True,
    )  # fmt: skip
    assert Result.from_json(written) == result
    assert result.cell.variant == "int64, max, root 2, in place"
    for name in ("type", "operation", "root", "in_place", "t_min_us", "t_avg_us", "t_max_us"):
        del written[name]
    assert Result.from_json(written).cell == result_of("ring", collective="reduce").cell
    bcast = result_of("ring", collective="allgather").to_json()
    assert (bcast["operation"], bcast["root"]) == (None, None)
    assert results.cell_of(bcast) == Cell("allgather", 64, "balanced", "0us")


def test_what_may_be_asked() -> None:
    assert plan.parse_types("all") == list(plan.TYPES)
    assert plan.parse_roots("all", 3) == [0, 1, 2]
    assert plan.parse_sizes("2,6", ["int8", "int16"]) == [2, 6]
    for parse, text, message in (
        (plan.parse_types, "float,int", "-d float,int: unknown type 'int'; there are float, double"),
        (plan.parse_operations, "avg", "unknown operation 'avg'; there are sum"),
    ):
        with pytest.raises(CommandError, match=message):
            parse(text)
    with pytest.raises(CommandError, match="'3' is not a rank of 3"):
        plan.parse_roots("0,3", 3)
    with pytest.raises(CommandError, match="4 bytes is not a whole number of doubles"):
        plan.parse_sizes("4", ["float", "double"])
