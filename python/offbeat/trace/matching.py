# SPDX-License-Identifier: BSD-3-Clause
"""Bring the records of all ranks together, call by call. Communicator and number identify a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offbeat.trace.clock import Times
from offbeat.trace.layout import Flag
from offbeat.trace.rank_file import index_of_mask

if TYPE_CHECKING:
    from offbeat.trace.reader import Communicator, Trace

# How much memory the times of one block may take. A trace may have more calls than fit.
BLOCK_BYTES = 192 << 20


@dataclass(frozen=True)
class Block:
    """Some consecutive calls on one communicator. Matrices are calls x ranks; times are nanoseconds.

    If ``present`` is false, the times mean nothing. ``end`` is the completion. If ``pending`` is
    true, the call is not complete, and ``end`` is its arrival.
    """

    communicator: Communicator
    ranks: NDArray[np.int64]  # the rank in MPI_COMM_WORLD of each column
    number: NDArray[np.uint64]
    present: NDArray[np.bool_]
    pending: NDArray[np.bool_]
    arrival: Times
    exit: Times
    end: Times
    bytes: NDArray[np.int64]  # the largest that a rank contributes
    call: NDArray[Any]  # the raw record of one rank, for the fields that are equal on all ranks
    source: NDArray[np.int64]  # the rank of that record
    same: NDArray[np.bool_]  # whether all ranks called the same collective


@dataclass(frozen=True)
class Column:
    """The calls of one rank on the communicator, in the order of their numbers."""

    rank: int
    records: NDArray[Any]
    where: NDArray[np.intp] | slice
    number: NDArray[np.uint64]


def blocks(trace: Trace, communicator: Communicator) -> Iterator[Block]:
    """All calls on a communicator, block by block, so that a long trace needs no more memory."""
    columns = columns_of(trace, communicator)
    if not columns:
        return
    calls_per_block = max(1, BLOCK_BYTES // (len(columns) * 32))
    last = max(int(column.number[-1]) for column in columns)
    begins = [0] * len(columns)
    while True:
        # A block ends at one number for all ranks, so that no rank has more than calls_per_block calls in it.
        heads = [
            int(column.number[begin])
            for column, begin in zip(columns, begins, strict=True)
            if begin < len(column.number)
        ]
        if not heads:
            return
        limit = last + 1
        for column, begin in zip(columns, begins, strict=True):
            if begin + calls_per_block < len(column.number):
                limit = min(limit, int(column.number[begin + calls_per_block]))
        ends = [int(np.searchsorted(column.number, np.uint64(limit))) for column in columns]
        yield _block(trace, communicator, columns, begins, ends)
        begins = ends


def blocks_in_range(trace: Trace, communicator: Communicator, first: int, last: int) -> Block | None:
    """The calls with the numbers ``first`` to ``last``, both included."""
    columns = columns_of(trace, communicator)
    if not columns:
        return None
    ends = [np.searchsorted(column.number, (first, last + 1)) for column in columns]
    block = _block(trace, communicator, columns, [int(b) for b, _ in ends], [int(e) for _, e in ends])
    return block if len(block.number) else None


def columns_of(trace: Trace, communicator: Communicator) -> list[Column]:
    """The calls on a communicator, one column for each rank that has any."""
    columns = [
        _column(trace, communicator, rank) for rank in communicator.members if trace.files[rank].records_calls
    ]
    return [column for column in columns if len(column.number)]


def _column(trace: Trace, communicator: Communicator, rank: int) -> Column:
    file = trace.files[rank]
    records = file.slots
    where = index_of_mask(file.is_call & (records["communicator"] == communicator.local[rank]))
    number = records["number"][where] + np.uint64(1)  # people count from 1
    if len(number) > 1 and not (number[1:] > number[:-1]).all():
        # Threads, or damage, can break the order. This restores it, and keeps each number once.
        number, order = np.unique(number, return_index=True)
        where = order + where.start if isinstance(where, slice) else where[order]
    return Column(rank, records, where, number)


def _block(
    trace: Trace, communicator: Communicator, columns: list[Column], begins: list[int], ends: list[int]
) -> Block:
    pieces = [column.number[b:e] for column, b, e in zip(columns, begins, ends, strict=True)]
    number = _all_numbers(pieces)
    shape = (len(number), len(columns))
    present, pending = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    arrival, leave, end = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    size = np.zeros(len(number), dtype=np.int64)
    call = np.zeros(len(number), dtype=columns[0].records.dtype)
    source = np.full(len(number), -1, dtype=np.int64)
    same = np.ones(len(number), dtype=bool)
    for index, (column, piece, b, e) in enumerate(zip(columns, pieces, begins, ends, strict=True)):
        if not len(piece):
            continue
        all_of_it = column.where
        begin = all_of_it.start if isinstance(all_of_it, slice) else 0
        where = slice(begin + b, begin + e) if isinstance(all_of_it, slice) else all_of_it[b:e]
        records = column.records[where]
        rows: Any = slice(None) if len(piece) == len(number) else np.searchsorted(number, piece)
        present[rows, index] = True
        open_call = (records["flags"] & Flag.PENDING) != 0
        pending[rows, index] = open_call
        arrival[rows, index] = trace.times(column.rank, records["arrival"])
        unknown = open_call | (records["completion"] == 0)
        raw_end = np.where(unknown, records["arrival"], records["completion"])
        raw_exit = np.where(records["exit"] == 0, records["arrival"], records["exit"])
        leave[rows, index] = trace.times(column.rank, raw_exit)
        end[rows, index] = trace.times(column.rank, raw_end)
        size[rows] = np.maximum(size[rows], records["bytes"])
        new = source[rows] < 0
        if new.any():
            places = np.arange(len(number))[rows][new]
            call[places] = records[new]
            source[places] = column.rank
        same[rows] &= call["collective"][rows] == records["collective"]
    ranks = np.array([column.rank for column in columns], dtype=np.int64)
    return Block(communicator, ranks, number, present, pending, arrival, leave, end, size, call, source, same)


def _all_numbers(pieces: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """All numbers, each once, ascending. Usually all ranks have the same numbers."""
    longest = max(pieces, key=len)
    if all(len(piece) == len(longest) and np.array_equal(piece, longest) for piece in pieces):
        return longest
    union: NDArray[np.uint64] = np.unique(np.concatenate(pieces))
    return union
