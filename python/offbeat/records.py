# SPDX-License-Identifier: BSD-3-Clause
"""The JSON lines that the ranks of ``offbeat bench`` write (src/mpi/bench), as objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offbeat.units import format_size

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Delay:
    """A delay over all counted iterations, in microseconds."""

    median: float
    p10: float
    p90: float
    ci95_low: float
    ci95_high: float


@dataclass(frozen=True)
class Wrong:
    """How a result differs from what the host MPI gives."""

    elements: int
    rank: int
    index: int
    expected: float
    got: float | None  # None: never written

    def __str__(self) -> str:
        got = "nothing was written" if self.got is None else f"got {self.got:g}"
        return (
            f"{self.elements} element{'s' if self.elements > 1 else ''} wrong on rank {self.rank}, "
            f"the first at index {self.index}: {got}, expected {self.expected:g}"
        )


@dataclass(frozen=True)
class Check:
    """Whether an algorithm ran at a size, and gave the right result."""

    size_bytes: int
    algorithm: str
    served: bool
    wrong: Wrong | None


@dataclass(frozen=True)
class Result:
    """What was measured of one algorithm at one size under one arrival pattern."""

    cell: int  # its number in the plan
    pattern: str
    size_bytes: int
    algorithm: str
    skew_us: float
    native_us: float  # the host's balanced median, which a factor of skew multiplies
    iterations: int
    on_time: bool  # false: ranks share cores so much that they rarely arrived as the pattern says
    stopped: str
    last_delay: Delay
    total_delay: Delay
    wrong: Wrong | None


@dataclass
class Records:
    """Everything that a job has written so far."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    error: str | None = None
    ended: bool = False
    doing: str = "starting"

    def add(self, line: str) -> None:
        """Take one line of the file."""
        record = json.loads(line)
        kind = record["record"]
        if kind == "begin":
            self.doing = _doing(record)
            return
        self.lines.append(record)
        if kind == "header":
            self.header = record
        elif kind == "check":
            self.checks.append(
                Check(record["size_bytes"], record["algorithm"], record["served"], _wrong(record))
            )
        elif kind == "result":
            self.results.append(_result(record))
        elif kind == "error":
            self.error = record["message"]
        elif kind == "end":
            self.ended = True

    def wrong_results(self) -> list[str]:
        """One line for each algorithm and size that differed from native."""
        found = {}
        for check in self.checks:
            if check.wrong is not None:
                found[check.algorithm, check.size_bytes] = f"{check.wrong}"
        for result in self.results:
            if result.wrong is not None:
                found.setdefault(
                    (result.algorithm, result.size_bytes), f"{result.wrong} ({result.pattern} arrival)"
                )
        return [f"{name} at {format_size(size)}: {wrong}" for (name, size), wrong in found.items()]


def _doing(record: Json) -> str:
    what, size = record["what"], format_size(record["size_bytes"])
    if what == "measure":
        return f"measuring {size}, {record['pattern']} arrival"
    verb = "checking" if what == "check" else "calibrating"
    return f"{verb} {record['algorithm']} at {size}"


def _delay(record: Json) -> Delay:
    return Delay(record["median"], record["p10"], record["p90"], record["ci95_low"], record["ci95_high"])


def _wrong(record: Json) -> Wrong | None:
    if "wrong_rank" not in record:
        return None
    return Wrong(
        record["wrong_elements"],
        record["wrong_rank"],
        record["wrong_index"],
        record["expected"],
        record["got"],
    )


def _result(record: Json) -> Result:
    return Result(
        cell=record["cell"],
        pattern=record["pattern"],
        size_bytes=record["size_bytes"],
        algorithm=record["algorithm"],
        skew_us=record["skew_us"],
        native_us=record["native_us"],
        iterations=record["iterations"],
        on_time=record["on_time"],
        stopped=record["stopped"],
        last_delay=_delay(record["last_delay_us"]),
        total_delay=_delay(record["total_delay_us"]),
        wrong=_wrong(record),
    )
