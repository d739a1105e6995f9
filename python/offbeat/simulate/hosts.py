# SPDX-License-Identifier: BSD-3-Clause
"""What an MPI library would run by default: its decision function as data, and its time in the simulator.

``hosts.txt`` has the decisions. An algorithm of a host is one of offbeat's expressions or several phases,
such as a reduce on each node, an allreduce among the leaders of the nodes, and a bcast on each node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from offbeat import _core
from offbeat.errors import CommandError
from offbeat.simulate.machine import Machine
from offbeat.simulate.simulation import Shape
from offbeat.units import parse_size

NAMES = ("openmpi", "mpich", "intel")
_COLLECTIVES_WITH_BLOCKS = (
    "allgather",
    "allgatherv",
    "gather",
    "scatter",
    "alltoall",
    "alltoallv",
    "reduce_scatter_block",
)
_MOST_EVENTS = 400_000_000
_NS_PER_US = 1000.0


@dataclass(frozen=True)
class Phase:
    """A part of a host's algorithm."""

    where: str  # "all" ranks, each "node" by itself, or the "leaders" of the nodes
    collective: str
    expression: str
    part_of: str = ""  # the collective of the call, if this is one of several phases

    def __str__(self) -> str:
        place = "" if self.where == "all" else f"{self.where} "
        return f"{place}{self.collective} {self.expression}"

    def size_bytes(self, of_call: int, ranks: int, all_ranks: int) -> int:
        """The size of this phase among ``ranks`` ranks, in a call of ``all_ranks``."""
        takes_blocks = self.collective in _COLLECTIVES_WITH_BLOCKS
        if self.part_of in _COLLECTIVES_WITH_BLOCKS:
            if not takes_blocks:
                return of_call * all_ranks
            return of_call * (all_ranks // ranks) if self.where == "leaders" else of_call
        return math.ceil(of_call / ranks) if self.part_of and takes_blocks else of_call


Phases = tuple[Phase, ...]


@dataclass(frozen=True)
class Condition:
    """Which ranks or sizes a decision is for: ``least`` to ``most``, both included."""

    least: int = 0
    most: float = math.inf
    is_per_rank: bool = False  # divided by the number of ranks
    is_power_of_two: bool = False
    is_part_of_ranks: bool = False  # less than the number of ranks

    def holds(self, value: int, ranks: int) -> bool:
        """Whether the condition holds for a call."""
        if self.is_power_of_two and value & (value - 1):
            return False
        if self.is_part_of_ranks and value >= ranks:
            return False
        scaled = value * ranks if self.is_per_rank else value
        return self.least <= scaled <= self.most


@dataclass(frozen=True)
class Decision:
    """A line of ``hosts.txt``."""

    collective: str
    host: str
    ranks: Condition
    ranks_per_node: Condition
    bytes: Condition
    alternatives: tuple[Phases, ...]  # the fastest one counts
    goes_on: bool  # those of the next decision that fits count, too


def decisions(text: str) -> list[Decision]:
    """Parse the text of ``hosts.txt``. Raises ValueError, with the line, if it is wrong."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split(maxsplit=5)
        if not words:
            continue
        try:
            collective, host, ranks, ppn, bytes_, algorithm = words
            if host not in NAMES:
                raise ValueError(f"unknown host {host}")
            texts = [each.strip() for each in algorithm.split("|")]
            goes_on = texts[-1] == "..."
            alternatives = tuple(_phases(collective, each) for each in texts[: len(texts) - goes_on])
            conditions = _condition(ranks), _condition(ppn), _condition(bytes_)
            found.append(Decision(collective, host, *conditions, alternatives, goes_on))
        except (ValueError, CommandError) as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _phases(collective: str, text: str) -> Phases:
    if len(text.partition("(")[0].split()) == 1:
        return (_checked(Phase("all", collective, text)),)
    found = []
    for part in text.split(" then "):
        words = part.split(maxsplit=2)
        if words[0] not in ("node", "leaders"):
            words = ["all", *part.split(maxsplit=1)]
        if len(words) != 3:
            raise ValueError(f"'{part}' is no phase")
        found.append(_checked(Phase(words[0], words[1], words[2], collective)))
    return tuple(found)


def _checked(phase: Phase) -> Phase:
    """Refuse an expression that the collective does not have."""
    _core.SimulatedMachine.learns(phase.collective, phase.expression)
    return phase


def _condition(text: str) -> Condition:
    if text == "*":
        return Condition()
    if text == "pow2":
        return Condition(is_power_of_two=True)
    numbers, slash, unit = text.partition("/")
    if slash and unit != "ranks":
        raise ValueError(f"'{text}' is no range")
    least, dots, most = numbers.partition("..")
    begin = parse_size(least) if least else 0
    if most == "<ranks":
        return Condition(begin, is_part_of_ranks=True)
    if not dots:
        return Condition(begin, begin, bool(slash))
    if not most:
        return Condition(begin, math.inf, bool(slash))
    end = parse_size(most[1:]) - 1 if most.startswith("<") else parse_size(most)
    return Condition(begin, end, bool(slash))


@cache
def _decisions() -> tuple[Decision, ...]:
    text = resources.files("offbeat.simulate").joinpath("hosts.txt").read_text(encoding="utf-8")
    return tuple(decisions(text))


def collectives() -> list[str]:
    """The collectives for which ``hosts.txt`` has decisions."""
    return list(dict.fromkeys(each.collective for each in _decisions()))


def default_algorithm(host: str, collective: str, shape: Shape, size_bytes: int) -> tuple[Phases, ...]:
    """What a host runs. The result is empty if no decision is known."""
    found: tuple[Phases, ...] = ()
    for each in _decisions():
        if (
            each.collective == collective
            and each.host == host
            and each.ranks.holds(shape.ranks, shape.ranks)
            and each.ranks_per_node.holds(shape.ranks_per_node, shape.ranks)
            and each.bytes.holds(size_bytes, shape.ranks)
        ):
            found += each.alternatives
            if not each.goes_on:
                break
    return found


class TooLongError(Exception):
    """A simulation that has too many events, or a call in it that exceeds the caller's limit."""


class Place:
    """A number of nodes of a machine. It runs calls in virtual time, and keeps what it needs for that."""

    def __init__(
        self, machine: Machine, shape: Shape, on_progress: Callable[[], None] = lambda: None
    ) -> None:
        self._machine, self.shape = machine, shape
        self._on_progress = on_progress
        self._made: dict[Shape, _core.SimulatedMachine] = {}
        self._node_exits: dict[tuple[Phase, int, tuple[int, ...]], list[float]] = {}

    @property
    def machine(self) -> Machine:
        """The machine of the nodes."""
        return self._machine

    def can_run(self, collective: str, expression: str) -> bool:
        """Whether the simulator can run the expression on these nodes."""
        return not self._simulated(self.shape).unsuitable(collective, expression)

    def default_algorithm(self, host: str, collective: str, size_bytes: int) -> tuple[Phases, ...]:
        """What a host runs here, as far as the machine has what it needs."""
        alternatives = default_algorithm(host, collective, self.shape, size_bytes)
        return tuple(phases for phases in alternatives if all(map(self._can_run_phase, phases)))

    def _can_run_phase(self, phase: Phase) -> bool:
        shape = self._shape_of(phase)
        return shape.ranks == 1 or not self._simulated(shape).unsuitable(phase.collective, phase.expression)

    def _shape_of(self, phase: Phase) -> Shape:
        nodes, ppn = self.shape
        return {"all": self.shape, "leaders": Shape(nodes, 1), "node": Shape(1, ppn)}[phase.where]

    def simulate_last_delays_us(
        self,
        phases: Phases,
        size_bytes: int,
        rounds: Sequence[Sequence[float]],
        seen: Sequence[float] | None = None,
        most_us: float = math.inf,
    ) -> list[float]:
        """The time from the last arrival to the last exit, for each round of arrivals in microseconds.

        An algorithm that learns has seen one call before. Those of the first round are ``seen``; without, it
        is the first round itself. Raises TooLongError after too many events. A long simulation also raises it
        when a time exceeds ``most_us``.
        """
        found = []
        before = rounds[0] if seen is None else seen
        for arrivals in rounds:
            now = list(arrivals)
            end_us = max(arrivals) + most_us
            for phase in phases:
                now = self._exits(phase, size_bytes, now, before if len(phases) == 1 else None, end_us)
            found.append(max(now) - max(arrivals))
            before = arrivals
        return found

    def simulate_exits_us(self, phases: Phases, size_bytes: int) -> list[float]:
        """When each rank leaves a call that all begin at 0, in microseconds."""
        now = [0.0] * self.shape.ranks
        for phase in phases:
            now = self._exits(phase, size_bytes, now, None, math.inf)
        return now

    def _exits(
        self,
        phase: Phase,
        size_bytes: int,
        arrivals: Sequence[float],
        before: Sequence[float] | None,
        end_us: float,
    ) -> list[float]:
        nodes, ppn = self.shape
        if phase.where == "all":
            return self._run(self.shape, phase, size_bytes, arrivals, before, end_us)
        exits = list(arrivals)
        if phase.where == "leaders":
            exits[::ppn] = self._run(Shape(nodes, 1), phase, size_bytes, arrivals[::ppn], None, end_us)
            return exits
        for node in range(nodes):
            first = node * ppn
            mine = arrivals[first : first + ppn]
            begin = min(mine)
            key = phase, size_bytes, tuple(round(_NS_PER_US * (late - begin)) for late in mine)
            if key not in self._node_exits:
                relative = [ns / _NS_PER_US for ns in key[2]]
                self._node_exits[key] = self._run(Shape(1, ppn), phase, size_bytes, relative, None, end_us)
            exits[first : first + ppn] = [begin + late for late in self._node_exits[key]]
        return exits

    def _run(
        self,
        shape: Shape,
        phase: Phase,
        size_bytes: int,
        arrivals: Sequence[float],
        before: Sequence[float] | None,
        end_us: float,
    ) -> list[float]:
        if shape.ranks == 1:
            return list(arrivals)
        size = phase.size_bytes(size_bytes, shape.ranks, self.shape.ranks)
        simulated = self._simulated(shape)
        simulated.forget()

        def exits(arrivals: Sequence[float], end_us: float) -> list[float]:
            def report(events: int, seconds: float) -> None:
                if events > _MOST_EVENTS or 1e6 * seconds > end_us:
                    raise TooLongError
                self._on_progress()

            begins = [1e-6 * late for late in arrivals]
            try:
                run = simulated.run(phase.collective, phase.expression, size, begins, report)
            except TooLongError:
                self._made.pop(shape)  # its ranks are in the middle of a call
                raise
            return [1e6 * late for late in run["exits"]]

        if simulated.learns(phase.collective, phase.expression):
            exits(arrivals if before is None else before, math.inf)
        return exits(arrivals, end_us)

    def _simulated(self, shape: Shape) -> _core.SimulatedMachine:
        if shape not in self._made:
            self._made[shape] = self._machine.simulated(*shape)
        return self._made[shape]


def check(host: str) -> str:
    """Return the name of a host, or raise CommandError."""
    if host not in NAMES:
        raise CommandError(f"unknown MPI '{host}'; the decisions of {', '.join(NAMES)} are known")
    return host
