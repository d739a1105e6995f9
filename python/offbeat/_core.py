# SPDX-License-Identifier: BSD-3-Clause
"""The C++ core: algorithms, expression parser, rules, settings, simulator.

python/bindings has the other side. ctypes calls it, so one compiled file serves every version of Python.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

_LIBRARY = "offbeat-python.so"


class UsageError(ValueError):
    """The user gave something that is wrong."""


class ExpressionError(ValueError):
    """An expression could not be parsed. The text names the column."""


class Algorithm(TypedDict):
    """An algorithm of the registry."""

    name: str
    collective: str
    parameters: str
    summary: str
    cost: str
    needs: str
    source: str
    every_run: bool  # every run gives the same bits


class Collective(TypedDict):
    """A collective, and what its calls have."""

    name: str
    function: str
    moves: str
    has_root: bool
    has_operation: bool
    served: bool  # offbeat has algorithms for it, and offbeat bench measures it


class Setting(TypedDict):
    """An environment variable that the core reads."""

    name: str
    default: str
    values: str
    meaning: str
    equal_on_all_ranks: bool


class HostAlgorithm(TypedDict):
    """A name that native(NAME) can have, with the versions of the MPI under which it was checked."""

    host: str
    call: str  # such as allreduce or iallreduce
    name: str
    spelling: str  # the MPI's own name
    number: int  # in the MPI's list, from 1
    ranks: int | None  # the only number of ranks that it runs on


class Rule(TypedDict):
    """One line of a file of rules."""

    line: int
    text: str  # the canonical spelling
    collective: str
    nonblocking: bool  # it is for non-blocking calls only
    host: str
    nodes: tuple[int, int]  # least and most
    ppn: tuple[int, int]
    reason: str
    first: str  # the first alternative
    never_tried: list[str]  # alternatives that may combine in another order than the first one


class PlanRow(TypedDict):
    """A range of lengths in the plan of a collective, and what runs there."""

    least_bytes: int
    most_bytes: int | None  # included; None: no upper end
    expression: str
    form: str
    needs: str
    alternatives: list[str]
    reason: str
    origin: str


class Simulation(TypedDict):
    """What a simulated call did: times in seconds, and the messages."""

    exits: list[float]
    waits: list[tuple[float, float, int]]  # the sum of a rank's waits, its longest, and for whom (-1: nobody)
    messages: int
    inter_node_messages: int
    bytes: int
    events: int


# -- the library

_ERROR_OF_STATUS: dict[int, type[Exception]] = {
    1: UsageError,
    2: ExpressionError,
    3: MemoryError,
    4: RuntimeError,
}


def _load() -> ctypes.CDLL:
    # An editable installation has two folders: the sources, and site-packages with the compiled files.
    for folder in sys.modules["offbeat"].__path__:
        path = Path(folder) / "lib" / _LIBRARY
        if path.is_file():
            # The interpreter's lock stays held, so that a simulation can ask for signals.
            return ctypes.PyDLL(str(path))
    raise ImportError(f"this installation of offbeat has no {_LIBRARY}")


_library = _load()


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Answer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


_library.offbeat_python_text.restype = _Answer
_library.offbeat_python_free_rules.restype = None
_library.offbeat_python_free_machine.restype = None
_library.offbeat_python_forget.restype = None


def _text(value: str) -> _Text:
    data = value.encode(errors="surrogateescape")
    return _Text(data, len(data))


def _integer(value: int) -> ctypes.c_int:
    if not -(2**31) <= value < 2**31:
        raise UsageError(f"{value} is too large")
    return ctypes.c_int(value)


def _size(value: int) -> ctypes.c_size_t:
    if not 0 <= value < 2**64:
        raise UsageError(f"{value} is no number of bytes")
    return ctypes.c_size_t(value)


def _ask(function: str, *arguments: Any) -> Any:
    """Call a function of the library and return its answer, or raise its error."""
    status = getattr(_library, f"offbeat_python_{function}")(*arguments)
    answer = _library.offbeat_python_text()
    text = ctypes.string_at(answer.data, answer.size).decode(errors="surrogateescape") if answer.size else ""
    if status != 0:
        raise _ERROR_OF_STATUS[status](text)
    return json.loads(text)


# -- what the core knows


def version() -> str:
    """Return the version as text."""
    text: str = _ask("version")
    return text


def algorithms() -> list[Algorithm]:
    """Return all algorithms of all collectives."""
    found: list[Algorithm] = _ask("algorithms")
    return found


def collectives() -> list[Collective]:
    """Return all collectives of MPI, in the order of the numbers in trace files, which begin at 1."""
    found: list[Collective] = _ask("collectives")
    return found


def settings() -> list[Setting]:
    """Return all environment variables."""
    found: list[Setting] = _ask("settings")
    return found


def check_expression(collective: str, expression: str) -> str:
    """Return the canonical spelling of an expression."""
    text: str = _ask("check_expression", _text(collective), _text(expression))
    return text


def cost(
    collective: str,
    expression: str,
    ranks: int,
    size_bytes: int,
    *,
    a: float,
    b: float,
    c: float,
    o: float = 0,
    nodes: int = 0,
    a_within: float = 0,
    b_within: float = 0,
    eager_bytes: int = 8192,
) -> float | None:
    """Evaluate the cost formula of an expression (docs/explanation/models.md).

    This is the time in seconds if all ranks arrive together, or None if the cost of a part is only words.
    """
    seconds: float | None = _ask(
        "cost", _text(collective), _text(expression), _integer(ranks), _size(size_bytes),
        *map(ctypes.c_double, (a, b, c, o)), _integer(nodes),
        *map(ctypes.c_double, (a_within, b_within)), _size(eager_bytes),
    )  # fmt: skip
    return seconds


def machine_name(path: str) -> str:
    """Read a machine file as grid(auto) does, and return its name. Raises UsageError with one line."""
    name: str = _ask("machine_name", _text(path))
    return name


def cheapest_grid(
    ranks: int, size_bytes: int, *, ranks_per_node: int = 1, machine: str = "", mpi: str = ""
) -> tuple[str, float]:
    """Return the grid that an allreduce by grid(auto) has, as an expression, and its time in seconds.

    It is one algorithm if splitting the ranks does not pay (docs/explanation/models.md). ``machine`` is the
    path of a machine file; empty: the built-in one. Algorithms of ``mpi`` take part, too, if the file has
    parameters for its native(NAME).
    """
    expression, seconds = _ask(
        "cheapest_grid", _integer(ranks), _size(size_bytes), _integer(ranks_per_node), _text(machine),
        _text(mpi),
    )  # fmt: skip
    return expression, seconds


# -- rules


class Rules:
    """The contents of a file of rules: its rules, and its errors."""

    def __init__(self, function: str, *arguments: _Text) -> None:
        self._handle = ctypes.c_void_p()
        _ask(function, *arguments, ctypes.byref(self._handle))
        weakref.finalize(self, _library.offbeat_python_free_rules, self._handle)

    @property
    def errors(self) -> list[str]:
        """One line for each error, as FILE:LINE: FIELD: MESSAGE."""
        lines: list[str] = _ask("rule_errors", self._handle)
        return lines

    @property
    def rules(self) -> list[Rule]:
        """The rules without an error."""
        found: list[Rule] = _ask("rule_list", self._handle)
        for rule in found:
            rule["nodes"] = (rule["nodes"][0], rule["nodes"][1])
            rule["ppn"] = (rule["ppn"][0], rule["ppn"][1])
        return found


def read_rules(path: str) -> Rules:
    """Read a file of rules, which must be a regular file. Raises UsageError if it cannot be read."""
    return Rules("read_rules", _text(path))


def built_in_rules() -> Rules:
    """Return the rules that are built into offbeat."""
    return Rules("built_in_rules")


def hosts() -> list[str]:
    """Return the names of the MPIs that rules can tell apart."""
    names: list[str] = _ask("hosts")
    return names


def host_algorithms() -> list[HostAlgorithm]:
    """Return the algorithms of the MPIs that native(NAME) can name."""
    found: list[HostAlgorithm] = _ask("host_algorithms")
    return found


def plan(
    calls: str,
    host: str,
    nodes: int,
    ranks_per_node: int,
    board: bool,
    users_rules: Rules | None,
    fixed: str,
    origin: str,
    machine: str = "",
    adapt: str = "on",
) -> list[PlanRow]:
    """Return the plan of ``calls``, such as bcast, or ibcast for its non-blocking calls; shortest first.

    The communicator has ``nodes`` times ``ranks_per_node`` ranks.
    ``board`` says whether the ranks of a node share memory. If ``fixed`` is not empty, calls of every length
    run that expression, and ``origin`` says who chose it. Otherwise ``users_rules`` decide, and after them
    the built-in rules. ``machine`` is the path of the machine file that gives grid(auto) its shape; empty:
    the built-in one. ``adapt`` is a value of OFFBEAT_ADAPT.
    """
    rows: list[PlanRow] = _ask(
        "plan", _text(calls), _text(host), _integer(nodes), _integer(ranks_per_node),
        ctypes.c_bool(board), None if users_rules is None else users_rules._handle, _text(fixed),
        _text(origin), _text(machine), _text(adapt),
    )  # fmt: skip
    return rows


# -- the simulator


class _Protocol(ctypes.Structure):
    _fields_ = (("from_bytes", ctypes.c_size_t), ("alpha", ctypes.c_double), ("beta", ctypes.c_double))


class _Protocols(ctypes.Structure):
    _fields_ = (("first", ctypes.POINTER(_Protocol)), ("count", ctypes.c_size_t))


class _Board(ctypes.Structure):
    _fields_ = (
        ("line", ctypes.c_double), ("far_line", ctypes.c_double), ("line_gap", ctypes.c_double),
        ("ranks_per_cache", ctypes.c_int), ("window_bytes", ctypes.c_size_t),
    )  # fmt: skip


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
    )  # fmt: skip


class _Wait(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_double), ("longest", ctypes.c_double), ("longest_for", ctypes.c_int))


class _Traffic(ctypes.Structure):
    _fields_ = (
        ("messages", ctypes.c_uint64), ("inter_node_messages", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("events", ctypes.c_uint64),
    )  # fmt: skip


_ProgressCallback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_uint64)
_ProtocolRows = Sequence[tuple[int, float, float]]
_MessageCosts = tuple[float, float, float, float, float]
_NO_MESSAGE_COSTS: _MessageCosts = (0, 0, 0, 0, 0)


def _protocols(rows: _ProtocolRows) -> _Protocols:
    array = (_Protocol * len(rows))(*(_Protocol(_size(row[0]), row[1], row[2]) for row in rows))
    return _Protocols(array, len(rows))


class SimulatedMachine:
    """Ranks on nodes in virtual time. They make one collective call at a time.

    Times are in seconds, rates in bytes per second. A protocol of messages is the length in bytes from which
    it applies, the latency, and the seconds per byte; the shortest messages come first. ``board`` is the time
    of a line, of a far line, the gap between lines, the ranks per cache, and the bytes of a window. A message
    costs a send and a receive overhead, a send and a receive gap, and a handshake.
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
        board: tuple[float, float, float, int, int] | None,
        within_node_message: _MessageCosts = _NO_MESSAGE_COSTS,
        between_nodes_message: _MessageCosts = _NO_MESSAGE_COSTS,
        within_node_eager_bytes: int | None = None,
        node_gap: float = 0,
        ejection_rate: float = math.inf,
        memory_rate: float = math.inf,
    ) -> None:
        costs = None if board is None else _Board(*board[:3], _integer(board[3]), _size(board[4]))
        self._ranks = ranks
        self._handle = ctypes.c_void_p()
        description = _Description(
            _integer(ranks), _integer(ranks_per_node), _protocols(within_node), _protocols(between_nodes),
            injection_rate, gamma, copy, _size(envelope_bytes), _size(eager_bytes),
            None if costs is None else ctypes.pointer(costs),
            _FiveCosts(*within_node_message), _FiveCosts(*between_nodes_message),
            None if within_node_eager_bytes is None else ctypes.pointer(_size(within_node_eager_bytes)),
            node_gap, ejection_rate, memory_rate,
        )  # fmt: skip
        _ask(
            "make_machine",
            ctypes.byref(description),
            _size(ctypes.sizeof(description)),
            ctypes.byref(self._handle),
        )
        weakref.finalize(self, _library.offbeat_python_free_machine, self._handle)

    def unsuitable(self, collective: str, expression: str) -> str:
        """Return why an expression cannot run on this machine, or an empty text if it can."""
        why: str = _ask("unsuitable", self._handle, _text(collective), _text(expression))
        return why

    def model(self, collective: str, expression: str, size_bytes: int) -> float | None:
        """Return the time that the max-rate model predicts if all ranks begin at once.

        It is None if the model has no formula for this expression.
        """
        seconds: float | None = _ask(
            "model", self._handle, _text(collective), _text(expression), _size(size_bytes)
        )
        return seconds

    @staticmethod
    def learns(collective: str, expression: str) -> bool:
        """Whether earlier calls influence this one (lateness prediction)."""
        answer: bool = _ask("learns", _text(collective), _text(expression))
        return answer

    def forget(self) -> None:
        """Forget all earlier calls, so that they do not influence the next one."""
        _library.offbeat_python_forget(self._handle)

    def run(
        self,
        collective: str,
        expression: str,
        size_bytes: int,
        arrivals: Sequence[float],
        report: Callable[[int], None] | None,
    ) -> Simulation:
        """Simulate one call, in which rank k arrives at arrivals[k]. Calls report(events) now and then."""
        raised: list[BaseException] = []

        def report_and_continue(events: int) -> int:
            try:
                if report is not None:
                    report(events)
            except BaseException as error:
                raised.append(error)
                return 0
            return 1

        exits, waits, traffic = (ctypes.c_double * self._ranks)(), (_Wait * self._ranks)(), _Traffic()
        has_ended = _ask(
            "run", self._handle, _text(collective), _text(expression), _size(size_bytes),
            (ctypes.c_double * len(arrivals))(*arrivals), _size(len(arrivals)),
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
