# SPDX-License-Identifier: BSD-3-Clause
"""The output of ``offbeat bench`` in the formats of other benchmarks, for scripts that read those.

Each has one block for each collective, pattern, skew and algorithm; comments say which.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping

from offbeat.bench import bandwidth
from offbeat.bench.plan import TYPES, Cell, combines, has_root
from offbeat.bench.results import MEASURED, WRONG, Benchmark, Result
from offbeat.units import format_count

CSV_COLUMNS = (
    "collective", "size_bytes", "count", "type", "operation", "root", "in_place", "pattern", "skew",
    "algorithm", "ranks", "status", "iterations", "last_delay_us", "ci95_low_us", "ci95_high_us",
    "total_delay_us", "t_min_us", "t_avg_us", "t_max_us", "algbw_gbs", "busbw_gbs",
)  # fmt: skip
# Names that the other benchmarks give to collectives.
_MPI_FUNCTION_NAMES = {
    "allreduce": "Allreduce", "alltoall": "Alltoall", "alltoallv": "Alltoallv", "allgather": "Allgather",
    "allgatherv": "Allgatherv", "bcast": "Bcast",
}  # fmt: skip


def as_json(benchmark: Benchmark) -> str:
    """The results as the file of ``--json`` has them."""
    return json.dumps(benchmark.to_json(), indent=1)


def as_csv(benchmark: Benchmark) -> str:
    """One row for each cell and algorithm: tidy data, with a header."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for result in benchmark.results:
        cell = result.cell
        row: list[object] = [
            cell.collective, cell.size_bytes, _count(cell), cell.type, _operation(cell, ""), _root(cell, ""),
            int(cell.in_place), cell.pattern, cell.skew, result.algorithm, benchmark.plan.ranks,
            result.status, result.iterations,
        ]  # fmt: skip
        if result.status == MEASURED:
            last, widths = result.last_delay, bandwidth.bandwidth_of_result(result, benchmark.plan.ranks)
            row += [_digits(each) for each in (last.median, last.ci95_low, last.ci95_high)]
            row += [_digits(result.total_delay.median), *map(_digits, _rank_times(result))]
            row += [_digits(each) for each in (widths or (None, None))]
        table.writerow([*row, *[""] * (len(CSV_COLUMNS) - len(row))])
    return text.getvalue().rstrip("\n")


def as_osu(benchmark: Benchmark) -> str:
    """As the OSU microbenchmarks 7 print it with ``-f``."""
    lines = []
    for key, results in _blocks(benchmark).items():
        cell = results[0].cell
        lines += [
            f"# OSU MPI {_camel(cell.collective)} Latency Test v7.1",
            f"# {_conditions(benchmark, key)}",
            f"# Datatype: MPI_{cell.type.upper()}.",
            f"{'# Size':<16}{'Avg Latency(us)':>18}{'Min Latency(us)':>18}{'Max Latency(us)':>18}"
            f"{'Iterations':>14}",
        ]
        for result in results:
            least, mean, most = _rank_times(result)
            size = f"{result.cell.size_bytes:<16}"
            numbers = "".join(f"{value:>18.2f}" for value in (mean, least, most))
            lines.append(f"{size}{numbers}{result.iterations:>14}")
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def as_imb(benchmark: Benchmark) -> str:
    """As the Intel MPI Benchmarks print it: IMB-MPI1, and IMB-NBC for non-blocking calls."""
    lines = []
    for key, results in _blocks(benchmark).items():
        cell = results[0].cell
        non_blocking = results[0].computing_us is not None
        name = f"I{cell.collective}" if non_blocking else _camel(cell.collective)
        rule = "#" + "-" * 77
        columns = (
            f"{'#bytes':>14} {'#repetitions':>13}  {'t_ovrl[usec]':>12} {'t_pure[usec]':>12} "
            f"{'t_CPU[usec]':>12} {'overlap[%]':>12}"
            if non_blocking
            else f"{'#bytes':>14} {'#repetitions':>13}  {'t_min[usec]':>12} {'t_max[usec]':>12} "
            f"{'t_avg[usec]':>12}"
        )
        lines += [
            rule,
            f"# Benchmarking {name} ",
            f"# #processes = {benchmark.plan.ranks} ",
            f"# {_conditions(benchmark, key)}",
            rule,
            columns,
        ]
        for result in results:
            numbers = _overlap(result) if non_blocking else _min_max_mean(result)
            texts = " ".join(f"{value:>12.2f}" for value in numbers)
            lines.append(f"{result.cell.size_bytes:>14} {result.iterations:>13}  {texts}")
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def as_nccl(benchmark: Benchmark) -> str:
    """As nccl-tests print it. The time is the median of the last delay."""
    lines = []
    ranks = benchmark.plan.ranks
    for key, results in _blocks(benchmark, both_places=True).items():
        lines += [f"# {_conditions(benchmark, key)}", "#", *_NCCL_HEAD]
        by_place: dict[Cell, dict[bool, Result]] = {}
        for result in results:
            by_place.setdefault(result.cell._replace(in_place=False), {})[result.cell.in_place] = result
        widths = []
        for cell, places in by_place.items():
            data = bandwidth.total_bytes(cell.collective, cell.size_bytes, ranks)
            line = (
                f"{data:>12} {data // TYPES[cell.type]:>13} {cell.type:>9} {_operation(cell, 'none'):>7} "
                f"{_root(cell, '-1'):>7}"
            )
            for in_place in (False, True):
                found = places.get(in_place)
                width = bandwidth.bandwidth_of_result(found, ranks) if found is not None else None
                widths += [width.bus] if width is not None else []
                line += _nccl_numbers(found, width)
            lines.append(line)
        lines.append(f"# Out of bounds values : {_wrong(benchmark, results)}")
        lines.append(f"# Avg bus bandwidth    : {sum(widths) / len(widths) if widths else 0:g} ")
        lines.append("#")
    return "\n".join(lines).rstrip("\n")


_NCCL_HEAD = (
    f"#{'':>52}{'out-of-place':>26}{'':>8}{'in-place':>26}",
    f"#{'size':>11} {'count':>13} {'type':>9} {'redop':>7} {'root':>7}"
    + f" {'time':>8} {'algbw':>8} {'busbw':>8} {'#wrong':>7}" * 2,
    f"#{'(B)':>11} {'(elements)':>13} {'':>9} {'':>7} {'':>7}"
    + f" {'(us)':>8} {'(GB/s)':>8} {'(GB/s)':>8} {'':>7}" * 2,
)


def _nccl_numbers(result: Result | None, width: bandwidth.Bandwidth | None) -> str:
    if result is None or not result.last_delays_us:
        return f" {'N/A':>8} {'N/A':>8} {'N/A':>8} {'N/A':>7}"
    algorithm, bus = width or (0.0, 0.0)
    wrong = result.wrong_data.elements if result.wrong_data is not None else 0
    return f" {result.last_delay.median:>8.2f} {algorithm:>8.2f} {bus:>8.2f} {wrong:>7}"


def _wrong(benchmark: Benchmark, results: list[Result]) -> str:
    algorithm, cells = results[0].algorithm, {result.cell.collective for result in results}
    wrong = [
        result
        for result in benchmark.results
        if result.status == WRONG and result.algorithm == algorithm and result.cell.collective in cells
    ]
    return f"{len(wrong)} {'FAILED' if wrong else 'OK'}"


FORMATS: Mapping[str, Callable[[Benchmark], str]] = {
    "csv": as_csv,
    "json": as_json,
    "osu": as_osu,
    "imb": as_imb,
    "nccl": as_nccl,
}


# -- what the formats share

_Key = tuple[object, ...]


def _blocks(benchmark: Benchmark, *, both_places: bool = False) -> dict[_Key, list[Result]]:
    """The measured results, by everything but the size; with ``both_places``, also in and out of place."""
    found: dict[_Key, list[Result]] = {}
    for result in benchmark.results:
        if result.status == MEASURED:
            cell = result.cell
            place = None if both_places else cell.in_place
            key = (
                cell.collective, result.algorithm, cell.pattern, cell.skew, cell.type, cell.operation,
                cell.root, place,
            )  # fmt: skip
            found.setdefault(key, []).append(result)
    return found


def _conditions(benchmark: Benchmark, key: _Key) -> str:
    collective, algorithm, pattern, skew, *_, in_place = key
    mpi = benchmark.about["mpi"]
    place = ", in place" if in_place else ""
    return (
        f"{collective} by {algorithm}, {format_count(benchmark.plan.ranks, 'rank')}, "
        f"{mpi['vendor']} {mpi['version']}, {pattern} arrival (skew {skew}){place}"
    )


def _count(cell: Cell) -> int:
    return cell.size_bytes // TYPES[cell.type]


def _operation(cell: Cell, otherwise: str) -> str:
    return cell.operation if combines(cell.collective) else otherwise


def _root(cell: Cell, otherwise: str) -> str:
    return str(cell.root) if has_root(cell.collective) else otherwise


def _camel(collective: str) -> str:
    return _MPI_FUNCTION_NAMES.get(collective, collective.capitalize())


def _rank_times(result: Result) -> tuple[float, float, float]:
    """The least, mean and largest time of a rank. Old files have none: the last delay stands for all."""
    median = result.last_delay.median
    times = (result.t_min_us, result.t_avg_us, result.t_max_us)
    least, mean, most = (median if time is None else time for time in times)
    return least, mean, most


def _min_max_mean(result: Result) -> tuple[float, float, float]:
    least, mean, most = _rank_times(result)
    return least, most, mean


def _overlap(result: Result) -> tuple[float, float, float, float]:
    computing = result.computing_us or 0.0
    pure = result.waiting_delay.median
    return result.last_delay.median + computing, pure, computing, 100 * (result.hidden or 0.0)


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
