# SPDX-License-Identifier: BSD-3-Clause
"""The polls by which Horovod's background threads agree on the tensors that are ready.

Every cycle (1 ms by default) each rank's thread calls an allreduce with MPI_BAND, in place, of a vector of
64-bit integers. In it a rank sets one bit for each of its tensors that is ready, after three status bits
(``CacheCoordinator::sync`` in Horovod's response_cache.cc). A rank that loses bits was ready and has to wait.
A rank that loses none while others do is the one they wait for. If somebody has a tensor for the first time,
the poll is followed by a gather, a gatherv and two bcasts, and its bits do not say who is ready.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import layout
from offbeat.trace.clock import Times
from offbeat.trace.layout import COLLECTIVES, Flag, Naming
from offbeat.trace.matching import Block, Column, columns_of
from offbeat.trace.reader import Communicator, Trace

_STATUS_BIT_COUNT = 3
_BITS_PER_WORD = 64
_LEAST_POLLS = 50
_LEAST_IDLE_SHARE = 0.01  # at least this share of the polls finds no tensor ready

_ALLREDUCE, _BCAST = COLLECTIVES.index("allreduce"), COLLECTIVES.index("bcast")
_GATHER_COLLECTIVES = [COLLECTIVES.index("gather"), COLLECTIVES.index("gatherv")]
_TYPES_OF_REQUEST_BCASTS = ("MPI_INT", "MPI_BYTE")  # the types of the bcasts that follow the gathers


@dataclass(frozen=True)
class Polls:
    """The polls on one communicator that all recording ranks made. Matrices are polls x ranks."""

    communicator: Communicator
    ranks: NDArray[np.int64]
    number: NDArray[np.uint64]
    arrival: Times  # nanoseconds
    ready: NDArray[np.int64]  # how many tensors a rank has ready
    waiting: NDArray[np.int64]  # for how many of them another rank is not ready
    count: int  # the polls of the rank that made most
    hides_ready: bool  # Horovod's timeline is on: the vector then has as many set bits whoever is ready


def is_polled(trace: Trace, communicator: Communicator) -> bool:
    """Whether Horovod's threads poll on a communicator."""
    recording = [rank for rank in communicator.members if trace.files[rank].records_calls]
    if len(recording) < 2 or not all(trace.files[rank].has_bits for rank in recording):
        return False
    found = columns_of(trace, communicator)
    if len(found) < 2:
        return False
    records = found[0].records[found[0].where]
    polls = records[_are_polls(records)]
    if len(polls) < max(_LEAST_POLLS, len(records) / 2):
        return False
    idle = layout.bits(polls)[0] % _BITS_PER_WORD == _STATUS_BIT_COUNT
    return bool(np.count_nonzero(idle) >= _LEAST_IDLE_SHARE * len(polls))


def agreements(trace: Trace, block: Block) -> NDArray[np.bool_]:
    """Which calls on a polled communicator are no calls of the training: polls, and what follows them."""
    call = block.call
    found = np.asarray((call["flags"] & Flag.BITS) != 0) | np.isin(call["collective"], _GATHER_COLLECTIVES)
    for source in np.unique(block.source):
        mine = block.source == source
        types = _numbers(trace, int(source), Naming.TYPE, _TYPES_OF_REQUEST_BCASTS)
        operations = _numbers(trace, int(source), Naming.OPERATION, ("MPI_BOR",))
        bcast = (call["collective"] == _BCAST) & np.isin(call["type"], types)
        found |= mine & (
            bcast | ((call["collective"] == _ALLREDUCE) & np.isin(call["operation"], operations))
        )
    return found


def polls_of_communicator(trace: Trace, communicator: Communicator) -> Polls:
    """Read the polls of all ranks on a polled communicator."""
    found = columns_of(trace, communicator)
    records = [column.records[column.where] for column in found]
    polled = [_are_polls(each) for each in records]
    numbers = [column.number[mine] for column, mine in zip(found, polled, strict=True)]
    common = numbers[0]
    for other in numbers[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    shape = (len(common), len(found))
    arrival, ready, waiting = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for index, (column, each, mine, own) in enumerate(zip(found, records, polled, numbers, strict=True)):
        calls = each[mine][np.isin(own, common, assume_unique=True)]
        arrival[:, index] = trace.times(column.rank, calls["arrival"])
        ready[:, index], waiting[:, index] = layout.bits(calls)
    hides_ready = bool(len(common)) and int(ready.min()) >= _BITS_PER_WORD
    asked = np.isin(common + np.uint64(1), _gather_calls(found[0]))
    ready = np.maximum(ready - _STATUS_BIT_COUNT, 0)
    ready[asked], waiting[asked] = 0, 0
    return Polls(
        communicator,
        np.array([column.rank for column in found], dtype=np.int64),
        common,
        arrival,
        ready,
        waiting,
        max(map(len, numbers)),
        hides_ready,
    )


def _gather_calls(column: Column) -> NDArray[np.uint64]:
    collective = column.records["collective"][column.where]
    return np.asarray(column.number[collective == _GATHER_COLLECTIVES[0]])


def _are_polls(records: NDArray[np.void]) -> NDArray[np.bool_]:
    return np.asarray((records["flags"] & (Flag.BITS | Flag.PENDING)) == Flag.BITS)


def _numbers(trace: Trace, rank: int, kind: Naming, names: tuple[str, ...]) -> list[int]:
    """The numbers that these names have in the file of a rank."""
    return [number for number, name in trace.names(rank, kind).items() if name in names]
