# SPDX-License-Identifier: BSD-3-Clause
"""How well simulated times agree with times that were measured on the machine of a machine file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import Any

from offbeat import _core
from offbeat.bench import arrival_patterns
from offbeat.bench.results import MEASURED, Benchmark, Result
from offbeat.simulate.machine import Machine

DIFFERENCE = 0.2  # measured times that differ by less have no order
ERROR = 0.25  # a simulated and a measured time agree if the longer one is at most this much longer
HEADINGS = ("times", f"within {ERROR:.0%}", "simulated / measured", "pairs", "in order")
_NATIVE = "native("
_DRAWS = 15
_ALLREDUCE = "allreduce"


@dataclass(frozen=True)
class Time:
    """The measured time of one algorithm in one cell, on one node."""

    ranks: int
    size_bytes: int
    pattern: str
    skew_us: float
    seed: int  # of the patterns that are drawn
    algorithm: str
    us: float  # the last delay
    collective: str = _ALLREDUCE
    mpi: str = ""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Time:
        """The time that a result file has. It has other fields, too."""
        return Time(**{name: values[name] for name in Time.__dataclass_fields__ if name in values})

    @property
    def cell(self) -> tuple[str, int, str, int, str]:
        """What the times have in common that are compared."""
        return self.mpi, self.ranks, self.collective, self.size_bytes, self.pattern


@dataclass(frozen=True)
class Agreement:
    """How many of the comparisons agree."""

    times: int
    times_that_agree: int
    pairs: int  # of algorithms in one cell whose measured times differ
    pairs_in_order: int
    median_ratio: float  # of the simulated time to the measured one

    def columns(self) -> list[str]:
        """The cells of a table, under HEADINGS."""
        return [
            str(self.times), f"{self.times_share:.0%}", f"{self.median_ratio:.2f}", str(self.pairs),
            f"{self.order_share:.0%}" if self.pairs else "-",
        ]  # fmt: skip

    @property
    def times_share(self) -> float:
        """The share of the simulated times that agree with the measured ones."""
        return self.times_that_agree / self.times if self.times else 0.0

    @property
    def order_share(self) -> float:
        """The share of the pairs whose simulated times have the order of the measured ones."""
        return self.pairs_in_order / self.pairs if self.pairs else 0.0


def measured(turns: Iterable[Benchmark], mpi: str) -> list[Time]:
    """The times of benchmarks under one MPI that took turns: the medians over the turns."""
    found: dict[Time, list[Result]] = {}
    for turn in turns:
        for each in turn.results:
            if each.status == MEASURED:
                cell = each.cell
                key = Time(
                    turn.plan.ranks, cell.size_bytes, cell.pattern, 0.0, turn.plan.seed, each.algorithm, 0.0,
                    cell.collective, mpi,
                )  # fmt: skip
                found.setdefault(key, []).append(each)
    return [
        replace(
            key,
            skew_us=median(result.skew_us for result in results),
            us=median(result.last_delay.p25 for result in results),
        )
        for key, results in found.items()
    ]


def simulated_us(machine: Machine, times: Sequence[Time]) -> dict[Time, float]:
    """The simulated last delay of each time. A time whose algorithm the simulator does not know is left out.

    native(NAME) is offbeat's algorithm of that name, without the steps that offbeat takes between messages.
    """
    found: dict[Time, float] = {}
    made: dict[tuple[int, bool], _core.SimulatedMachine] = {}
    for time in times:
        expression, is_native = _expression(time.algorithm)
        key = time.ranks, is_native
        if key not in made:
            made[key] = (replace(machine, step_ns=0.0) if is_native else machine).simulated(1, time.ranks)
        try:
            if made[key].unsuitable(time.collective, expression):
                continue
        except _core.ExpressionError:
            continue
        found[time] = _last_delay_us(made[key], expression, time)
    return found


def of_offbeat(simulated: Mapping[Time, float]) -> dict[Time, float]:
    """The times of offbeat's algorithms: those that the simulator runs as they are."""
    return {time: us for time, us in simulated.items() if not _expression(time.algorithm)[1]}


def _expression(algorithm: str) -> tuple[str, bool]:
    """The expression that is simulated, and whether the algorithm is the host's."""
    is_native = algorithm.startswith(_NATIVE)
    return algorithm.removeprefix(_NATIVE).removesuffix(")") if is_native else algorithm, is_native


def _last_delay_us(simulated: _core.SimulatedMachine, expression: str, time: Time) -> float:
    """The median over the first draws of the pattern."""
    found = []
    for row in arrival_patterns.rounds(time.pattern, time.ranks, time.seed, _DRAWS):
        arrivals = [1e-6 * time.skew_us * late for late in row]
        simulated.forget()
        run = simulated.run(time.collective, expression, time.size_bytes, arrivals, None)
        found.append(1e6 * (max(run["exits"]) - max(arrivals)))
    return median(found)


def compare(simulated: Mapping[Time, float], **wanted: object) -> Agreement:
    """Compare the times whose fields are the wanted ones, by default all of them.

    A pair of algorithms counts if one of its times does.
    """

    def counts(time: Time) -> bool:
        return all(getattr(time, name) == value for name, value in wanted.items())

    ratios = [us / time.us for time, us in simulated.items() if counts(time)]
    pairs = [(fast, slow) for fast, slow in _pairs(simulated) if counts(fast) or counts(slow)]
    return Agreement(
        len(ratios),
        sum(map(_agrees, ratios)),
        len(pairs),
        sum(simulated[fast] < simulated[slow] for fast, slow in pairs),
        median(ratios) if ratios else 0.0,
    )


def wrong_times(simulated: Mapping[Time, float]) -> list[Time]:
    """The times that do not agree, the worst first."""
    ratios = {time: us / time.us for time, us in simulated.items()}
    wrong = [time for time, ratio in ratios.items() if not _agrees(ratio)]
    return sorted(wrong, key=lambda time: max(ratios[time], 1 / ratios[time]), reverse=True)


def wrong_pairs(simulated: Mapping[Time, float]) -> list[tuple[Time, Time]]:
    """The pairs in the wrong order, the one that is faster as measured first, and the worst pair first."""
    wrong = [(fast, slow) for fast, slow in _pairs(simulated) if simulated[fast] >= simulated[slow]]
    return sorted(
        wrong,
        key=lambda pair: (pair[1].us / pair[0].us) * (simulated[pair[0]] / simulated[pair[1]]),
        reverse=True,
    )


def _agrees(ratio: float) -> bool:
    return 1 / (1 + ERROR) <= ratio <= 1 + ERROR


def _pairs(times: Iterable[Time]) -> list[tuple[Time, Time]]:
    """The algorithms of each cell whose measured times differ, the faster one first."""
    cells: dict[tuple[object, ...], list[Time]] = {}
    for time in times:
        cells.setdefault(time.cell, []).append(time)
    pairs = [
        sorted(pair, key=lambda time: time.us) for cell in cells.values() for pair in combinations(cell, 2)
    ]
    return [(fast, slow) for fast, slow in pairs if slow.us > (1 + DIFFERENCE) * fast.us]
