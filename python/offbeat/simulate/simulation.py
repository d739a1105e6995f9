# SPDX-License-Identifier: BSD-3-Clause
"""A simulation: its plan, the run, and the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median
from typing import Any, NamedTuple

from offbeat import __version__, _core
from offbeat.bench import arrival_patterns
from offbeat.bench.plan import NO_SKEW
from offbeat.bench.ranking import BALANCED, Row
from offbeat.bench.samples import Delay, summarize
from offbeat.errors import FAILED, CommandError
from offbeat.simulate.machine import Machine
from offbeat.units import Skew, format_size

FORMAT = "offbeat simulate"
VERSION = 1
_MOST_CAUSES = 10
_S_PER_RANK = 6e-6  # measured with Rabenseifner's allreduce of 8 bytes on 65,536 nodes, on an AMD EPYC


class Shape(NamedTuple):
    """How many nodes, and how many ranks on each."""

    nodes: int
    ranks_per_node: int

    @property
    def ranks(self) -> int:
        """The ranks on all nodes."""
        return self.nodes * self.ranks_per_node

    def __str__(self) -> str:
        return f"{self.nodes:,} x {self.ranks_per_node}"


@dataclass(frozen=True)
class Plan:
    """Everything that a simulation runs."""

    machine: Machine
    shapes: Sequence[Shape]
    collective: str
    sizes_bytes: Sequence[int]
    algorithms: Sequence[str]  # canonical expressions
    patterns: Sequence[str] = (BALANCED,)
    skews: Sequence[Skew] = (Skew(factor=1.0),)
    draws: int = 5  # calls under a pattern that is drawn anew for each call
    seed: int = 1


class Cell(NamedTuple):
    """One line of the tables."""

    shape: Shape
    size_bytes: int
    pattern: str
    skew: str  # its label, such as 1.5x or 100us


@dataclass(frozen=True)
class Cause:
    """A rank that others waited for."""

    rank: int
    ranks: int  # how many ranks waited longest for this one, summed over the draws
    waiting_us: float  # the sum of these longest waits


@dataclass(frozen=True)
class Result:
    """The result of one expression in one cell, over all draws."""

    cell: Cell
    algorithm: str
    skew_us: float
    model_us: float | None  # what the formula of the max-rate model gives, if there is one
    last_delays_us: list[float]
    total_delays_us: list[float]
    waiting_us: float  # how long a rank waits on average for operations that another rank has not begun
    longest_wait_us: float
    longest_waits_us: float  # the sum of the longest waits of all ranks
    ranks_waited_for: int
    causes: list[Cause]  # the ranks that the others waited for most
    messages: int
    inter_node_messages: int
    bytes: int

    @property
    def last_delay(self) -> Delay:
        """From the last arrival to the last exit, in microseconds, over the draws."""
        return summarize(self.last_delays_us)

    def to_json(self) -> dict[str, Any]:
        """The result as the file has it (docs/how-to/simulate.md)."""
        return {
            "nodes": self.cell.shape.nodes,
            "ranks_per_node": self.cell.shape.ranks_per_node,
            "size_bytes": self.cell.size_bytes,
            "pattern": self.cell.pattern,
            "skew": self.cell.skew,
            "algorithm": self.algorithm,
            "skew_us": self.skew_us,
            "model_us": self.model_us,
            "last_delay_us": median(self.last_delays_us),
            "total_delay_us": median(self.total_delays_us),
            "last_delays_us": self.last_delays_us,
            "total_delays_us": self.total_delays_us,
            "waiting_us": self.waiting_us,
            "longest_wait_us": self.longest_wait_us,
            "longest_waits_us": self.longest_waits_us,
            "ranks_waited_for": self.ranks_waited_for,
            "waited_for": [asdict(cause) for cause in self.causes],
            "messages": self.messages,
            "inter_node_messages": self.inter_node_messages,
            "bytes": self.bytes,
        }


@dataclass
class Simulation:
    """A plan with its results."""

    plan: Plan
    results: list[Result] = field(default_factory=list)

    def rows(self, shape: Shape) -> list[Row]:
        """The results of one shape as rows, to rank and draw like those of a benchmark."""
        mine = [result for result in self.results if result.cell.shape == shape]
        several = len({result.cell.skew for result in mine} - {NO_SKEW.label}) > 1
        found: dict[tuple[int, str], dict[str, Delay]] = {}
        for result in mine:
            _, size, pattern, skew = result.cell
            label = f"{pattern}, {skew}" if several and skew != NO_SKEW.label else pattern
            found.setdefault((size, label), {})[result.algorithm] = result.last_delay
        return [Row(self.plan.collective, size, label, delays) for (size, label), delays in found.items()]

    def to_json(self) -> str:
        """The text of the result file (docs/how-to/simulate.md)."""
        plan = self.plan
        calibrated = plan.machine.calibrated
        document = {
            "format": FORMAT,
            "version": VERSION,
            "offbeat": __version__,
            "machine": asdict(plan.machine) | {"calibrated": calibrated and calibrated._asdict()},
            "collective": plan.collective,
            "draws": plan.draws,
            "seed": plan.seed,
        }
        lines = [f" {json.dumps(name)}: {_dumps(value)}" for name, value in document.items()]
        rows = ",\n  ".join(_dumps(result.to_json()) for result in self.results)
        return "{\n" + ",\n".join([*lines, f' "results": [\n  {rows}\n ]']) + "\n}\n"


def _dumps(value: Any) -> str:
    """Convert to strict JSON. An infinite rate becomes null."""
    return json.dumps(_without_infinity(value), allow_nan=False)


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_infinity(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(each) for each in value]
    return None if value == float("inf") else value


# Called now and then with a description of the current simulation, the number of finished ones, and the
# number of events of the current one so far.
OnProgress = Callable[[str, int, int], None]


def run_plan(plan: Plan, on_progress: OnProgress) -> Simulation:
    """Run the simulations of a plan."""
    try:
        return _run_plan(plan, on_progress)
    except _core.UsageError as error:
        raise CommandError(str(error)) from None
    except MemoryError:
        raise CommandError("this simulation needs more memory than there is", FAILED) from None


def _run_plan(plan: Plan, on_progress: OnProgress) -> Simulation:
    # The outer loop is over shapes, so that only one machine is in memory at a time.
    found = Simulation(plan)
    for shape in plan.shapes:
        runner = _PlanRunner(plan, shape, on_progress, len(found.results))
        for pattern in plan.patterns:
            is_skewed = arrival_patterns.is_skewed(pattern, shape.ranks)
            for skew in plan.skews if is_skewed else [NO_SKEW]:
                for size in plan.sizes_bytes:
                    found.results += [
                        runner.result(algorithm, size, pattern, skew) for algorithm in plan.algorithms
                    ]
    return found


def number_of_results(plan: Plan) -> int:
    """The number of results that the run of a plan will have."""
    return sum(_number_of_results(plan, shape) for shape in plan.shapes)


def _number_of_results(plan: Plan, shape: Shape) -> int:
    skewed = [arrival_patterns.is_skewed(pattern, shape.ranks) for pattern in plan.patterns]
    cells = sum(len(plan.skews) if each else 1 for each in skewed)
    return cells * len(plan.sizes_bytes) * len(plan.algorithms)


def least_seconds(plan: Plan) -> float:
    """How long a plan takes if all its algorithms send few messages. Other algorithms take far longer."""
    return _S_PER_RANK * sum(shape.ranks * _number_of_results(plan, shape) for shape in plan.shapes)


class _PlanRunner:
    """Runs the simulations of one shape."""

    def __init__(self, plan: Plan, shape: Shape, on_progress: OnProgress, done: int) -> None:
        self._plan = plan
        self._shape = shape
        self._machine = plan.machine.simulated(*shape)
        self._on_progress = on_progress
        self._done = done
        self._balanced: dict[tuple[str, int], Result] = {}
        for algorithm in plan.algorithms:
            if why := self._machine.unsuitable(plan.collective, algorithm):
                raise CommandError(f"{plan.collective} by {algorithm} on {shape} ranks: it {why}")

    def result(self, algorithm: str, size: int, pattern: str, skew: Skew) -> Result:
        if skew == NO_SKEW:
            found = replace(self._balance(algorithm, size), cell=self._cell(size, pattern, skew))
        else:
            skew_us = self._skew_us(skew, size)
            plan = self._plan
            drawn = f"{pattern}({self._shape.ranks_per_node})" if pattern == "node_late" else pattern
            rounds = arrival_patterns.rounds(drawn, self._shape.ranks, plan.seed, plan.draws)
            arrivals = [[skew_us * late for late in row] for row in rounds]
            found = self._simulate(self._cell(size, pattern, skew), algorithm, skew_us, arrivals)
        self._done += 1
        return found

    def _cell(self, size: int, pattern: str, skew: Skew) -> Cell:
        return Cell(self._shape, size, pattern, skew.label)

    def _skew_us(self, skew: Skew, size: int) -> float:
        """The skew in microseconds.

        A factor multiplies the mean time of all expressions when no rank is late (paper 4, section III).
        """
        if skew.factor is None:
            return skew.microseconds or 0.0
        times = [self._balance(algorithm, size).last_delays_us[0] for algorithm in self._plan.algorithms]
        return skew.factor * fmean(times)

    def _balance(self, algorithm: str, size: int) -> Result:
        key = (algorithm, size)
        if key not in self._balanced:
            cell = self._cell(size, BALANCED, NO_SKEW)
            self._balanced[key] = self._simulate(cell, algorithm, 0.0, [[0.0] * self._shape.ranks])
        return self._balanced[key]

    def _call(self, what: str, algorithm: str, size: int, arrivals_us: Sequence[float]) -> _core.Simulation:
        self._on_progress(what, self._done, 0)
        return self._machine.run(
            self._plan.collective, algorithm, size, [1e-6 * late for late in arrivals_us],
            lambda events, _: self._on_progress(what, self._done, events),
        )  # fmt: skip

    def _simulate(
        self, cell: Cell, algorithm: str, skew_us: float, arrivals_us: Sequence[Sequence[float]]
    ) -> Result:
        what = f"{algorithm}, {cell.shape} ranks, {format_size(cell.size_bytes)}, {cell.pattern}"
        last_delays, total_delays, waiting, longest = [], [], [], 0.0
        for_whom: dict[int, list[float]] = {}
        self._machine.forget()
        if self._machine.learns(self._plan.collective, algorithm):
            # A call comes before the first one, for the algorithm to learn from. Its round is the last one.
            self._call(what, algorithm, cell.size_bytes, arrivals_us[-1])
        for row in arrivals_us:
            run = self._call(what, algorithm, cell.size_bytes, row)
            end = 1e6 * max(run["exits"])
            last_delays.append(end - max(row))
            total_delays.append(end - min(row))
            waits = run["waits"]
            waiting.append(1e6 * fmean(seconds for seconds, _, _ in waits))
            for _, seconds, rank in waits:
                if rank >= 0:
                    for_whom.setdefault(rank, []).append(1e6 * seconds)
                    longest = max(longest, 1e6 * seconds)
        causes = [Cause(rank, len(times), sum(times)) for rank, times in for_whom.items()]
        causes.sort(key=lambda cause: (-cause.waiting_us, cause.rank))
        is_balanced = cell.skew == NO_SKEW.label
        model = (
            self._machine.model_s(self._plan.collective, algorithm, cell.size_bytes) if is_balanced else None
        )
        return Result(
            cell=cell,
            algorithm=algorithm,
            skew_us=skew_us,
            model_us=1e6 * model if model is not None else None,
            last_delays_us=last_delays,
            total_delays_us=total_delays,
            waiting_us=fmean(waiting),
            longest_wait_us=longest,
            longest_waits_us=sum(cause.waiting_us for cause in causes),
            ranks_waited_for=len(causes),
            causes=causes[:_MOST_CAUSES],
            messages=run["messages"],
            inter_node_messages=run["inter_node_messages"],
            bytes=run["bytes"],
        )
