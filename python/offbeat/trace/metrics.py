# SPDX-License-Identifier: BSD-3-Clause
"""Measure every call of a trace, from the records of all ranks. The result is a table with one row per call.

Times are nanoseconds unless a name says otherwise. ``formulas`` defines the metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace import Block, Communicator, Flag, Trace, formulas, layout, polls
from offbeat.trace.layout import Naming

Mask = NDArray[np.bool_]

_MOST_SIZES = 32  # if a collective has more sizes on a communicator, powers of two group them

CALL = np.dtype(
    [
        ("communicator", "<u4"),
        ("number", "<u8"),
        ("collective", "u1"),
        ("flags", "u1"),
        ("algorithm", "<u2"),  # index into Calls.algorithms
        ("bytes", "<i8"),  # the largest that a rank contributes
        ("root", "<i4"),
        ("ranks", "<u4"),  # how many ranks recorded the call
        ("complete", "?"),  # whether all recording ranks made the call and left it
        ("agreement", "?"),  # whether Horovod's threads agree here on what is ready; no training waits in it
        ("first", "<i8"),  # the first arrival, since the first call of the trace
        ("last", "<i8"),  # the last arrival
        ("end", "<i8"),  # the last exit
        ("last_rank", "<i4"),  # of MPI_COMM_WORLD
        ("omega", "<f8"),
        ("delta", "<f8"),
        ("node_omega", "<f8"),
        ("node_delta", "<f8"),
        ("in_call", "<f8"),  # from the call to its return, summed over all ranks
        ("waiting", "<f8"),  # summed over all ranks; 0 if non-blocking, because the program goes on meanwhile
        (
            "under_way",
            "<f8",
        ),  # likewise, of a non-blocking call from its begin to its completion
        ("lateness", "<f8"),  # from the usual arrival to the last one
        ("early_spread", "<f8"),  # from the first arrival to the usual one
    ]
)


@dataclass
class Calls:
    """Every call of a trace, in the order of the communicators and their numbers."""

    trace: Trace
    table: NDArray[Any]
    algorithms: list[str]
    mean_skew: Floats  # the mean over complete calls, for each recording rank
    skew_ranks: NDArray[np.int64]  # these ranks
    mismatched: int  # how many calls are not in the table, because ranks called different collectives

    @cached_property
    def measured(self) -> Mask:
        """Which calls count: the complete ones, except those by which Horovod's threads agree."""
        return np.asarray(self.table["complete"] & ~self.table["agreement"])

    @cached_property
    def whole(self) -> NDArray[Any]:
        """The calls that are ``measured``. All averages are over these."""
        return self.table if self.measured.all() else self.table[self.measured]

    def mean_skew_us(self) -> list[float]:
        """The mean of a_i - min a over all calls, for each rank of MPI_COMM_WORLD, in microseconds.

        Paper 4 (section V.A) calls this the scenario of a program. Ranks that were not recorded get 0.
        """
        skews = [0.0] * self.trace.ranks
        for rank, mean in zip(self.skew_ranks, self.mean_skew, strict=True):
            skews[int(rank)] = float(mean) / 1e3
        return skews


def collect(trace: Trace) -> Calls:
    """Measure each call of a trace."""
    parts, names = [], _Numbered()
    skew_sum = dict.fromkeys(trace.recording, 0.0)
    skew_calls = dict.fromkeys(trace.recording, 0)
    mismatched = 0
    nodes = {host: number for number, host in enumerate(dict.fromkeys(trace.hosts.values()))}
    for communicator in trace.communicators:
        if communicator.alone:
            continue  # a rank that is alone waits for no other
        is_polled = polls.is_polled(trace, communicator)
        for block in trace.blocks(communicator):
            table, same = _measure(trace, block, names, nodes)
            if is_polled:
                table["agreement"] = polls.agreements(trace, block)
            mismatched += int(len(same) - np.count_nonzero(same))
            parts.append(table[same])
            whole = table["complete"] & ~table["agreement"] & same
            sums = formulas.skew(block.arrival[whole], block.present[whole]).sum(axis=0)
            for rank, total in zip(block.ranks, sums, strict=True):
                skew_sum[int(rank)] += float(total)
                skew_calls[int(rank)] += int(np.count_nonzero(whole))
    ranks = np.array(trace.recording, dtype=np.int64)
    mean = np.array([skew_sum[rank] / max(skew_calls[rank], 1) for rank in trace.recording])
    return Calls(trace, _joined_tables(parts), names.texts, mean, ranks, mismatched)


def mean_skew_us(trace: Trace) -> list[float]:
    """The pattern to replay a trace with: see ``Calls.mean_skew_us``."""
    return collect(trace).mean_skew_us()


def _joined_tables(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join tables. Each part is freed after its copy, so that a long trace is never in memory twice."""
    table = np.empty(sum(map(len, parts)), dtype=CALL)
    end = len(table)
    while parts:
        part = parts.pop()
        table[end - len(part) : end] = part
        end -= len(part)
    return table


class _Numbered:
    """A list of distinct texts. ``[text]`` gives the index, and appends a new text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def _measure(
    trace: Trace, block: Block, names: _Numbered, nodes: Mapping[str, int]
) -> tuple[NDArray[Any], Mask]:
    table = np.zeros(len(block.number), dtype=CALL)
    arrival, present = block.arrival, block.present
    table["communicator"] = block.communicator.index
    table["number"] = block.number
    for name in ("collective", "flags"):
        table[name] = block.call[name]
    table["root"] = layout.root(block.call)
    table["algorithm"] = _algorithms(trace, block, names)
    table["bytes"] = block.bytes
    table["ranks"] = np.count_nonzero(present, axis=1)
    table["complete"] = present.all(axis=1) & ~block.pending.any(axis=1) & (table["ranks"] >= 2)
    table["first"] = formulas.first(arrival, present)
    table["last"] = formulas.last(arrival, present)
    table["end"] = formulas.last(block.end, present)
    latest = np.argmax(np.where(present, arrival, np.iinfo(np.int64).min), axis=1)
    table["last_rank"] = block.ranks[latest]
    table["omega"] = formulas.worst_imbalance(arrival, present)
    table["delta"] = formulas.average_imbalance(arrival, present)
    node_of_rank = np.array([nodes[trace.hosts[int(rank)]] for rank in block.ranks], dtype=np.intp)
    table["node_omega"] = formulas.node_wide(formulas.worst_imbalance, arrival, node_of_rank, present)
    table["node_delta"] = formulas.node_wide(formulas.average_imbalance, arrival, node_of_rank, present)
    table["in_call"] = np.where(present, block.exit - arrival, 0).sum(axis=1)
    blocking = (table["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0
    table["waiting"] = np.where(blocking, formulas.waiting(arrival, block.end, present).sum(axis=1), 0.0)
    usual = formulas.usual_arrival(arrival, present)
    table["under_way"] = np.where(blocking, 0.0, np.where(present, block.end - arrival, 0).sum(axis=1))
    table["lateness"] = table["last"] - usual
    table["early_spread"] = usual - table["first"]
    return table, block.same


def _algorithms(trace: Trace, block: Block, names: _Numbered) -> NDArray[np.uint16]:
    found = np.zeros(len(block.number), dtype=np.uint16)
    for source in np.unique(block.source):
        mine = block.source == source
        known = trace.names(int(source), Naming.ALGORITHM)
        for number in np.unique(block.call["algorithm"][mine]):
            text = known.get(int(number), "unknown")
            found[mine & (block.call["algorithm"] == number)] = names[text]
    return found


def blocks_with_rows(calls: Calls) -> Iterator[tuple[Block, NDArray[np.intp]]]:
    """Read the blocks again, with the row of each call in ``Calls.table``, or -1 if it has none."""
    begin = 0
    for communicator in calls.trace.communicators:
        if communicator.alone:
            continue
        for block in calls.trace.blocks(communicator):
            rows = np.where(block.same, begin + np.cumsum(block.same) - 1, -1)
            begin += int(np.count_nonzero(block.same))
            if begin > len(calls.table):
                return  # the program still runs, and its trace has grown since
            yield block, rows


# -- groups of calls


@dataclass(frozen=True)
class Group:
    """The calls of one collective on one communicator with one size, or with sizes in one power of two."""

    communicator: Communicator
    collective: int
    least_bytes: int
    most_bytes: int
    calls: NDArray[np.intp]  # rows of Calls.table


def groups(calls: Calls) -> Iterator[Group]:
    """All complete calls, in groups."""
    table = calls.table
    whole = np.flatnonzero(calls.measured)
    kinds = table["communicator"].astype(np.int64) * 256 + table["collective"]
    for kind in np.unique(kinds[whole]):
        rows = whole[kinds[whole] == kind]
        sizes = table["bytes"][rows]
        distinct = np.unique(sizes)
        keys = sizes if len(distinct) <= _MOST_SIZES else np.frexp(sizes.astype(np.float64))[1]
        for key in np.unique(keys):
            chosen = rows[keys == key]
            found = table["bytes"][chosen]
            communicator = calls.trace.communicators[int(kind) // 256]
            yield Group(communicator, int(kind) % 256, int(found.min()), int(found.max()), chosen)
