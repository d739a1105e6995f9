# SPDX-License-Identifier: BSD-3-Clause
"""Write the calls of a trace for other tools: as JSON for Chrome and Perfetto, or as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from offbeat.files import write_whole
from offbeat.trace.layout import COLLECTIVES, Flag, Naming
from offbeat.trace.matching import Block
from offbeat.trace.reader import Trace

_CSV_COLUMNS = (
    "rank", "communicator", "number", "collective", "arrival_us", "exit_us", "completion_us", "bytes",
    "count", "root", "type", "operation", "algorithm",
)  # fmt: skip


def write_perfetto(trace: Trace, path: Path, begin_s: float, end_s: float) -> int:
    """Write one process for each rank. It has the calls, each divided into waiting and communicating."""

    def write(file: TextIO) -> int:
        count = 0
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        file.write(",\n".join(json.dumps(event) for event in _process_names(trace)))
        for block in _all_blocks(trace):
            for events in _events(trace, block, 1e9 * begin_s, 1e9 * end_s):
                count += 1
                file.write("".join(f",\n{json.dumps(event)}" for event in events))
        file.write("\n]}\n")
        return count

    return write_whole(path, write)


def write_csv(trace: Trace, path: Path, begin_s: float, end_s: float) -> int:
    """Write one line for each call of each rank. Unknown values are empty."""

    def write(file: TextIO) -> int:
        count = 0
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_CSV_COLUMNS)
        for rank in trace.recording:
            calls = trace.calls(rank)
            last = np.maximum(calls["completion_ns"], calls["exit_ns"])
            chosen = (last >= 1e9 * begin_s) & (calls["arrival_ns"] <= 1e9 * end_s)
            types, operations, algorithms = (
                trace.names(rank, kind) for kind in (Naming.TYPE, Naming.OPERATION, Naming.ALGORITHM)
            )
            for call in calls[chosen]:
                done = [_microseconds(call[name]) for name in ("arrival_ns", "exit_ns", "completion_ns")]
                table.writerow(
                    [
                        rank, call["communicator"], call["number"], COLLECTIVES[call["collective"]], *done,
                        call["bytes"], call["count"], call["root"] if call["root"] >= 0 else "",
                        types.get(int(call["type"]), ""), operations.get(int(call["operation"]), ""),
                        algorithms.get(int(call["algorithm"]), ""),
                    ]
                )  # fmt: skip
                count += 1
        return count

    return write_whole(path, write)


def _process_names(trace: Trace) -> Iterator[dict[str, Any]]:
    for rank in trace.files:
        name = f"rank {rank} on {trace.hosts[rank]}"
        yield {"ph": "M", "pid": rank, "tid": 0, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": rank, "tid": 0, "name": "process_sort_index", "args": {"sort_index": rank}}


def _all_blocks(trace: Trace) -> Iterator[Block]:
    for communicator in trace.communicators:
        yield from trace.blocks(communicator)


def _events(trace: Trace, block: Block, begin: float, end: float) -> Iterator[list[dict[str, Any]]]:
    known = {int(source): trace.names(int(source), Naming.ALGORITHM) for source in np.unique(block.source)}
    last = np.max(block.arrival, axis=1, where=block.present, initial=np.iinfo(np.int64).min)
    chosen = block.present & (np.maximum(block.end, block.exit) >= begin) & (block.arrival <= end)
    for row, column in zip(*np.nonzero(chosen), strict=True):
        call = block.call[row]
        rank = int(block.ranks[column])
        name = COLLECTIVES[int(call["collective"])]
        arrival, leave = int(block.arrival[row, column]), int(block.exit[row, column])
        arguments = {
            "communicator": str(block.communicator),
            "number": int(block.number[row]),
            "bytes": int(block.bytes[row]),
            "algorithm": known[int(block.source[row])].get(int(call["algorithm"]), ""),
        }
        events = [_complete(rank, name, arrival, leave, arguments)]
        if call["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT):
            # A pending call overlaps with later calls. Only asynchronous events may overlap.
            number = f"{block.communicator.index}.{int(block.number[row])}.{rank}"
            common = {"pid": rank, "tid": 0, "cat": "pending", "id": number, "name": f"{name} pending"}
            done = leave if block.pending[row, column] else max(int(block.end[row, column]), leave)
            events.append({**common, "ph": "b", "ts": arrival / 1e3})
            events.append({**common, "ph": "e", "ts": done / 1e3})
        else:
            middle = min(max(int(last[row]), arrival), leave)
            events.append(_complete(rank, "waiting", arrival, middle, {}))
            events.append(_complete(rank, "communicating", middle, leave, {}))
        yield events


def _complete(rank: int, name: str, begin: int, end: int, arguments: dict[str, Any]) -> dict[str, Any]:
    event = {"ph": "X", "pid": rank, "tid": 0, "name": name, "ts": begin / 1e3, "dur": (end - begin) / 1e3}
    return {**event, "args": arguments} if arguments else event


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e3:.3f}" if nanoseconds != -1 else ""
