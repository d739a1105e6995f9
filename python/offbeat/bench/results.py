# SPDX-License-Identifier: BSD-3-Clause
"""A benchmark and its file: the plan, where it ran, and the results (docs/reference/bench-format.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from offbeat.bench.plan import DEFAULT_COLLECTIVE, Call, Cell, Job, Plan, combines, has_root
from offbeat.bench.samples import Delay, summarize
from offbeat.errors import CommandError
from offbeat.field_types import checked
from offbeat.files import write_whole
from offbeat.units import format_count, format_size

FORMAT = "offbeat bench"
VERSION = 1
MEASURED, NOT_SERVED, WRONG = "measured", "not served", "wrong"
FEW_SAMPLES = 5
# The fields that a measured result has. Only results of non-blocking calls have the last two.
MEASURES = (
    "skew_us", "native_us", "stopped", "on_time", "last_delays_us", "total_delays_us", "computing_us",
    "waiting_delays_us", "t_min_us", "t_avg_us", "t_max_us",
)  # fmt: skip


def cell_of(values: Mapping[str, Any]) -> Cell:
    """The cell that a record or a file describes. Files of offbeat 0.1 lack the last four fields."""
    given = {
        name: values[name]
        for name in ("type", "operation", "root", "in_place")
        if values.get(name) is not None
    }
    return checked(
        Cell(values["collective"], values["size_bytes"], values["pattern"], values["skew"], **given)
    )


@dataclass(frozen=True)
class WrongData:
    """How the data of a collective differ from the exact result."""

    elements: int  # how many elements are wrong on ``rank``
    rank: int  # the lowest rank with a wrong element
    index: int  # its first wrong element
    expected: float
    got: float | None  # None: the element was never written

    def __str__(self) -> str:
        got = "nothing was written" if self.got is None else f"got {self.got:g}"
        return (
            f"{format_count(self.elements, 'element')} wrong on rank {self.rank}, "
            f"the first at index {self.index}: {got}, expected {self.expected:g}"
        )


@dataclass(frozen=True)
class Result:
    """The result of one algorithm in one cell."""

    cell: Cell
    algorithm: str
    status: str
    skew_us: float = 0.0
    native_us: float = 0.0  # the host's median when no rank is late; a skew factor multiplies it
    stopped: str = ""
    on_time: bool = True
    last_delays_us: list[float] = field(default_factory=list)
    total_delays_us: list[float] = field(default_factory=list)
    computing_us: float | None = None  # the computation, which delays do not include; None: blocking calls
    waiting_delays_us: list[float] = field(default_factory=list)  # the last delays without computation
    # The mean time of a call on the fastest rank, on the average one, and on the slowest.
    t_min_us: float | None = None
    t_avg_us: float | None = None
    t_max_us: float | None = None
    wrong_data: WrongData | None = None

    @cached_property
    def last_delay(self) -> Delay:
        """From the last arrival to the last exit, in microseconds."""
        return summarize(self.last_delays_us)

    @cached_property
    def total_delay(self) -> Delay:
        """From the first arrival to the last exit, in microseconds."""
        return summarize(self.total_delays_us)

    @cached_property
    def waiting_delay(self) -> Delay:
        """The last delay without what the ranks compute, in microseconds."""
        return summarize(self.waiting_delays_us)

    @property
    def hidden(self) -> float | None:
        """The overlap: which part of the call ran beside the computation, of the part that could (0 to 1).

        The formula is that of the Intel MPI Benchmarks (IMB-NBC): (t_pure + t_CPU - t_ovrl) / min(t_pure,
        t_CPU). None if the ranks computed nothing.
        """
        if not self.computing_us or not self.waiting_delays_us:
            return None
        most = min(self.waiting_delay.median, self.computing_us)
        return min(max((self.waiting_delay.median - self.last_delay.median) / most, 0.0), 1.0)

    @property
    def iterations(self) -> int:
        """How many calls count."""
        return len(self.last_delays_us)

    @cached_property
    def json_text(self) -> str:
        """The result as a line of the file. A tuning writes its file after each job, so it is kept."""
        return json.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The result as the file has it."""
        values: dict[str, Any] = {
            **self.cell._asdict(),
            "operation": self.cell.operation if combines(self.cell.collective) else None,
            "root": self.cell.root if has_root(self.cell.collective) else None,
            "algorithm": self.algorithm,
            "status": self.status,
            "wrong": asdict(self.wrong_data) if self.wrong_data is not None else None,
        }
        if self.status == MEASURED:
            values |= {
                "skew_us": self.skew_us,
                "native_us": self.native_us,
                "stopped": self.stopped,
                "on_time": self.on_time,
                "iterations": self.iterations,
                "t_min_us": self.t_min_us,
                "t_avg_us": self.t_avg_us,
                "t_max_us": self.t_max_us,
                "last_delay_us": _rounded(self.last_delay),
                "total_delay_us": _rounded(self.total_delay),
                "last_delays_us": self.last_delays_us,
                "total_delays_us": self.total_delays_us,
            }
        if self.status == MEASURED and self.computing_us is not None:
            values |= {
                "computing_us": self.computing_us,
                "hidden": self.hidden,
                "waiting_delay_us": _rounded(self.waiting_delay),
                "waiting_delays_us": self.waiting_delays_us,
            }
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Result:
        """The result that a file has. Raises KeyError, TypeError or ValueError if it is damaged."""
        result = Result(
            cell_of(values),
            values["algorithm"],
            values["status"],
            **{name: values[name] for name in MEASURES if name in values},
            wrong_data=WrongData(**values["wrong"]) if values["wrong"] is not None else None,
        )
        checked(result)
        str(result.wrong_data)  # fails now, not later; a wrong number may be any, even NaN
        if result.status == MEASURED and (not result.last_delays_us or not result.total_delays_us):
            raise ValueError("a measured cell has no samples")
        if result.computing_us is not None and not result.waiting_delays_us:
            raise ValueError("a cell of calls that compute has no samples of calls that do not")
        return result


def _rounded(delay: Delay) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in asdict(delay).items()}


@dataclass
class Benchmark:
    """A plan, the conditions of the run, and the results so far."""

    plan: Plan
    about: dict[str, Any]  # the fields of the file that describe the machine, the MPI, offbeat and so on
    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, results: Sequence[Result]) -> None:
        """Add results. A new result replaces an earlier one of the same cell and algorithm."""
        by_key = {(result.cell, result.algorithm): result for result in [*self.results, *results]}
        self.results = list(by_key.values())

    def jobs(self) -> list[Job]:
        """The jobs of the whole plan, one per run of mpirun."""
        return self.plan.jobs(self.about["mpi"]["vendor"])

    def missing(self) -> list[tuple[Cell, str]]:
        """The pairs of cell and algorithm that the plan asks for and that have no result yet."""
        there = {(result.cell, result.algorithm) for result in self.results}
        wanted = (
            (cell, algorithm)
            for job in self.jobs()
            for cell in job.cells
            for algorithm in job.algorithms
            if self.plan.serves(algorithm, cell.collective)
        )
        return [key for key in wanted if key not in there]

    def native_us(self) -> dict[Call, float]:
        """The host's known medians when no rank is late, by call."""
        return {r.cell.call: r.native_us for r in self.results if r.native_us > 0}

    def wrong_results(self) -> list[str]:
        """One line for each algorithm, collective and size with a wrong result."""
        found: dict[str, str] = {}
        for result in self.results:
            if result.wrong_data is not None:
                cell = result.cell
                where = "" if cell.collective == DEFAULT_COLLECTIVE else f"{cell.collective} by "
                variant = f" ({cell.variant})" if cell.variant else ""
                key = f"{where}{result.algorithm} at {format_size(cell.size_bytes)}{variant}"
                pattern = f" ({cell.pattern} arrival)" if result.last_delays_us else ""
                found.setdefault(key, f"{key}: {result.wrong_data}{pattern}")
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        """The benchmark as its file has it."""
        return {**self._json_without_results(), "cells": [result.to_json() for result in self.results]}

    def _json_without_results(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            **self.about,
            "seconds": round(self.seconds, 1),
            "complete": not self.missing(),
            "plan": self.plan.to_json(),
        }

    def write(self, path: Path) -> None:
        """Write the file, by renaming a complete one, so that a reader never sees half of it."""
        text = _one_cell_a_line(self._json_without_results(), [result.json_text for result in self.results])
        write_whole(path, lambda file: file.write(text))


def _one_cell_a_line(head: dict[str, Any], cells: Sequence[str]) -> str:
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    rows = ",\n  ".join(cells)
    return "{\n" + ",\n".join([*lines, f' "cells": [\n  {rows}\n ]']) + "\n}\n"


def read_document(path: Path, command: str, file_format: str, version: int) -> dict[str, Any]:
    """Read a JSON file that ``command`` has written. Raises CommandError if it is anything else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{path} is not a file of {command}: it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise CommandError(f"{path} is not a file of {command}")
    if (found := document.get("version")) != version:
        raise CommandError(f"{path} has version {found} of the format; this offbeat reads version {version}")
    return document


def read(path: Path) -> Benchmark:
    """Read the file of a benchmark. Raises CommandError if it is anything else."""
    document = read_document(path, "offbeat bench", FORMAT, VERSION)
    ours = {"format", "version", "seconds", "complete", "plan", "cells"}
    try:
        about = {name: value for name, value in document.items() if name not in ours}
        results = [Result.from_json(cell) for cell in document["cells"]]
        if not isinstance(about["mpi"]["vendor"], str):
            raise ValueError("mpi.vendor is not text")
        return Benchmark(Plan.from_json(document["plan"]), about, results, float(document["seconds"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise CommandError(f"{path} is damaged: {what}") from None
