# SPDX-License-Identifier: BSD-3-Clause
"""The layout of docs/reference/trace-format.md as NumPy types."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat import _core

MAGIC = b"OFFBEAT\n"
VERSION = 1
HEADER_BYTES = 4096
SLOT_BYTES = 64

# The names of the collectives. The index is the number in trace files, which begins at 1.
COLLECTIVES = ("", *(collective["name"] for collective in _core.collectives()))


class Kind(IntEnum):
    """The kinds of record."""

    CALL = 1
    COMMUNICATOR = 2
    NAME = 3


class Flag(IntFlag):
    """The flags of a call."""

    IN_PLACE = 1
    NONBLOCKING = 2
    PERSISTENT = 4
    PENDING = 8
    BITS = 16  # the field `root` holds two numbers of bits: see bits()


class FileFlag(IntFlag):
    """The flags of a file."""

    ENDED = 1
    NOT_RECORDING = 2
    PARTIAL = 4


class CommunicatorFlag(IntFlag):
    """The flags of a communicator."""

    INTER = 1
    WORLD_ORDER = 2
    RANKS_FOLLOW = 4
    SEVERAL_JOBS = 8


OF_ANOTHER_JOB = 0xFFFFFFFF  # stands in a list of ranks for a process that is not in this MPI_COMM_WORLD


class Naming(IntEnum):
    """The kinds of object that have a name."""

    TYPE = 1
    OPERATION = 2
    ALGORITHM = 3
    COMMUNICATOR = 4


class Sync(IntEnum):
    """How a clock was synchronised."""

    NONE = 0
    SHARED = 1
    OFFSET = 2
    HCA3 = 3


CLOCK = np.dtype(
    [("kind", "<u4"), ("bound", "<u4"), ("at", "<i8"), ("offset", "<i8"), ("slope", "<f8"), ("error", "<f8")]
)

CONTENTION = np.dtype([("waited_ns", "<i8"), ("preemptions", "<i8")])

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("slot_bytes", "<u4"),
        ("flags", "<u4"),
        ("rank", "<u4"),
        ("ranks", "<u4"),
        ("slots", "<u8"),
        ("calls", "<u8"),
        ("lost", "<u8"),
        ("every_call", "<u4"),
        ("every_rank", "<u4"),
        ("run", "<u8"),
        ("real_time", "<i8"),
        ("own_time", "<i8"),
        ("start", CLOCK),
        ("end", CLOCK),
        ("host", "S64"),
        ("mpi", "S64"),
        ("offbeat", "S32"),
        ("program", "S512"),
        ("contention_at_start", CONTENTION),
        ("contention_at_end", CONTENTION),
        ("zeros", f"V{HEADER_BYTES - 872}"),
    ]
)

CALL = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("collective", "u1"),
        ("zero", "u1"),
        ("communicator", "<u4"),
        ("arrival", "<i8"),
        ("exit", "<i8"),
        ("completion", "<i8"),
        ("number", "<u8"),
        ("bytes", "<i8"),
        ("count", "<i8"),
        ("root", "<i4"),
        ("operation", "u1"),
        ("algorithm", "u1"),
        ("type", "<u2"),
    ]
)

COMMUNICATOR = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("zero", "<u2"),
        ("slots", "<u4"),
        ("number", "<u4"),
        ("ranks", "<u4"),
        ("identity", "<u8"),
        ("rank", "<u4"),
    ]
)

NAME = np.dtype(
    [("kind", "u1"), ("of", "u1"), ("bytes", "<u2"), ("slots", "<u4"), ("number", "<u4"), ("size", "<u4")]
)


def bits(calls: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many bits each call with the flag BITS has set, and how many of them the other ranks cleared."""
    word = calls["root"].astype(np.int64)
    return word & 0xFFFF, word >> 16 & 0xFFFF


def root(calls: NDArray[Any]) -> NDArray[np.int32]:
    """The root of each call, -1 where there is none."""
    return np.where(calls["flags"] & Flag.BITS, -1, calls["root"]).astype(np.int32)


assert (HEADER.itemsize, CALL.itemsize, COMMUNICATOR.itemsize, NAME.itemsize) == (4096, 64, 28, 16)
