# SPDX-License-Identifier: BSD-3-Clause
"""The simulator: collective calls of many ranks in virtual time."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import TypedDict

from offbeat._core.library import as_int, as_size, as_text, ask, library

library.offbeat_python_free_machine.restype = None
library.offbeat_python_forget.restype = None


class Simulation(TypedDict):
    """What a simulated call did: times in seconds, and the messages."""

    exits: list[float]
    waits: list[tuple[float, float, int]]  # the sum of a rank's waits, its longest, and for whom (-1: nobody)
    messages: int
    inter_node_messages: int
    bytes: int
    events: int


class _Protocol(ctypes.Structure):
    _fields_ = (
        ("from_bytes", ctypes.c_size_t), ("alpha", ctypes.c_double), ("beta", ctypes.c_double),
        ("send_copy", ctypes.c_double), ("receive_copy", ctypes.c_double), ("line_share", ctypes.c_double),
    )  # fmt: skip


class _Protocols(ctypes.Structure):
    _fields_ = (("first", ctypes.POINTER(_Protocol)), ("count", ctypes.c_size_t))


class _Board(ctypes.Structure):
    _fields_ = (
        ("line", ctypes.c_double), ("line_gap", ctypes.c_double), ("put_line", ctypes.c_double),
        ("window_bytes", ctypes.c_size_t),
    )  # fmt: skip


class _Cache(ctypes.Structure):
    _fields_ = (
        ("cache_bytes", ctypes.c_size_t), ("ranks", ctypes.c_int), ("gamma", ctypes.c_double),
        ("copy", ctypes.c_double), ("memory_rate", ctypes.c_double),
    )  # fmt: skip


class _Caches(ctypes.Structure):
    _fields_ = (("first", ctypes.POINTER(_Cache)), ("count", ctypes.c_size_t))


class _Level(ctypes.Structure):
    _fields_ = (
        ("ranks", ctypes.c_int), ("line", ctypes.c_double), ("per_byte", ctypes.c_double),
        ("link_rate", ctypes.c_double), ("memory_rate", ctypes.c_double),
    )  # fmt: skip


class _Levels(ctypes.Structure):
    _fields_ = (("first", ctypes.POINTER(_Level)), ("count", ctypes.c_size_t))


_FiveCosts = ctypes.c_double * 5


class _Description(ctypes.Structure):
    _fields_ = (
        ("ranks", ctypes.c_int), ("ranks_per_node", ctypes.c_int),
        ("within_node", _Protocols), ("between_nodes", _Protocols),
        ("injection_rate", ctypes.c_double), ("gamma", ctypes.c_double), ("copy", ctypes.c_double),
        ("envelope_bytes", ctypes.c_size_t), ("eager_bytes", ctypes.c_size_t),
        ("board", ctypes.POINTER(_Board)),
        ("within_node_message", _FiveCosts), ("between_nodes_message", _FiveCosts),
        ("within_node_eager_bytes", ctypes.POINTER(ctypes.c_size_t)),
        ("node_gap", ctypes.c_double), ("ejection_rate", ctypes.c_double), ("memory_rate", ctypes.c_double),
        ("step", ctypes.c_double), ("beyond", _Caches), ("levels", _Levels),
        ("message_lines", ctypes.c_double),
    )  # fmt: skip


class _Wait(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_double), ("longest", ctypes.c_double), ("longest_for", ctypes.c_int))


class _Traffic(ctypes.Structure):
    _fields_ = (
        ("messages", ctypes.c_uint64), ("inter_node_messages", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("events", ctypes.c_uint64),
    )  # fmt: skip


_ProgressCallback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_double)
_ProtocolRows = Sequence[tuple[int, float, float, float, float, float]]
_CacheRows = Sequence[tuple[int, int, float, float, float]]
_LevelRows = Sequence[tuple[int, float, float, float, float]]
_MessageCosts = tuple[float, float, float, float, float]
_NO_MESSAGE_COSTS: _MessageCosts = (0, 0, 0, 0, 0)


def _protocols(rows: _ProtocolRows) -> _Protocols:
    array = (_Protocol * len(rows))(*(_Protocol(as_size(row[0]), *row[1:]) for row in rows))
    return _Protocols(array, len(rows))


def _caches(rows: _CacheRows) -> _Caches:
    array = (_Cache * len(rows))(*(_Cache(as_size(row[0]), as_int(row[1]), *row[2:]) for row in rows))
    return _Caches(array, len(rows))


def _levels(rows: _LevelRows) -> _Levels:
    array = (_Level * len(rows))(*(_Level(as_int(row[0]), *row[1:]) for row in rows))
    return _Levels(array, len(rows))


class SimulatedMachine:
    """Ranks on nodes in virtual time. They make one collective call at a time.

    Times are in seconds, rates in bytes per second. A protocol of messages is the length in bytes from which
    it applies, the latency, the seconds per byte, and the seconds per byte that the cores of sender and
    receiver copy, and the share of its lines that come from another core's cache; the shortest messages come
    first. ``board`` is the time to write a line, the gap between lines, the time to take a line that is
    written, and the bytes of a window. A message costs a send and a receive overhead, a send and a receive
    gap, and a handshake. ``beyond`` has a cache's bytes, the ranks that share it, and the gamma, copy and
    memory rate for calls that exceed it. A core takes ``step`` to begin an exchange, a copy or a combination.
    ``levels`` has the ranks that share a level (0: all of a node), the time of a line, the seconds per byte
    of further lines, and the rates of the link and of the memory of a group; the nearest level comes first.
    Within a node, a message waits for ``message_lines`` lines.
    """

    def __init__(
        self,
        ranks: int,
        ranks_per_node: int,
        *,
        within_node: _ProtocolRows,
        between_nodes: _ProtocolRows,
        injection_rate: float,
        gamma: float,
        copy: float,
        envelope_bytes: int,
        eager_bytes: int,
        board: tuple[float, float, float, int] | None,
        within_node_message: _MessageCosts = _NO_MESSAGE_COSTS,
        between_nodes_message: _MessageCosts = _NO_MESSAGE_COSTS,
        within_node_eager_bytes: int | None = None,
        node_gap: float = 0,
        ejection_rate: float = math.inf,
        memory_rate: float = math.inf,
        step: float = 0,
        beyond: _CacheRows = (),
        levels: _LevelRows = (),
        message_lines: float = 0,
    ) -> None:
        costs = None if board is None else _Board(*board[:3], as_size(board[3]))
        self._ranks = ranks
        self._handle = ctypes.c_void_p()
        description = _Description(
            as_int(ranks), as_int(ranks_per_node), _protocols(within_node), _protocols(between_nodes),
            injection_rate, gamma, copy, as_size(envelope_bytes), as_size(eager_bytes),
            None if costs is None else ctypes.pointer(costs),
            _FiveCosts(*within_node_message), _FiveCosts(*between_nodes_message),
            None if within_node_eager_bytes is None else ctypes.pointer(as_size(within_node_eager_bytes)),
            node_gap, ejection_rate, memory_rate, step, _caches(beyond), _levels(levels),
            message_lines,
        )  # fmt: skip
        ask(
            "make_machine",
            ctypes.byref(description),
            as_size(ctypes.sizeof(description)),
            ctypes.byref(self._handle),
        )
        weakref.finalize(self, library.offbeat_python_free_machine, self._handle)

    def unsuitable(self, collective: str, expression: str) -> str:
        """Return why an expression cannot run on this machine, or an empty text if it can."""
        why: str = ask("unsuitable", self._handle, as_text(collective), as_text(expression))
        return why

    def model_s(self, collective: str, expression: str, size_bytes: int) -> float | None:
        """Return the time that the max-rate model predicts if all ranks begin at once.

        It is None if the model has no formula for this expression.
        """
        seconds: float | None = ask(
            "model", self._handle, as_text(collective), as_text(expression), as_size(size_bytes)
        )
        return seconds

    @staticmethod
    def learns(collective: str, expression: str) -> bool:
        """Whether earlier calls influence this one (lateness prediction)."""
        answer: bool = ask("learns", as_text(collective), as_text(expression))
        return answer

    def forget(self) -> None:
        """Forget all earlier calls, so that they do not influence the next one."""
        library.offbeat_python_forget(self._handle)

    def run(
        self,
        collective: str,
        expression: str,
        size_bytes: int,
        arrivals: Sequence[float],
        report: Callable[[int, float], None] | None,
    ) -> Simulation:
        """Simulate one call, in which rank k arrives at arrivals[k].

        Calls report(events, seconds) after every 2^20 events, with the virtual time.
        """
        raised: list[BaseException] = []

        def report_and_continue(events: int, seconds: float) -> int:
            try:
                if report is not None:
                    report(events, seconds)
            except BaseException as error:
                raised.append(error)
                return 0
            return 1

        exits, waits, traffic = (ctypes.c_double * self._ranks)(), (_Wait * self._ranks)(), _Traffic()
        has_ended = ask(
            "run", self._handle, as_text(collective), as_text(expression), as_size(size_bytes),
            (ctypes.c_double * len(arrivals))(*arrivals), as_size(len(arrivals)),
            ctypes.pythonapi.PyErr_CheckSignals, _ProgressCallback(report_and_continue),
            exits, waits, ctypes.byref(traffic),
        )  # fmt: skip
        if raised:
            raise raised[0]
        if not has_ended:
            raise KeyboardInterrupt
        return {
            "exits": list(exits),
            "waits": [(wait.seconds, wait.longest, wait.longest_for) for wait in waits],
            "messages": traffic.messages,
            "inter_node_messages": traffic.inter_node_messages,
            "bytes": traffic.bytes,
            "events": traffic.events,
        }
