# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate within a budget: measure messages, then algorithms, fit both, and write the files."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from offbeat.bench import runner
from offbeat.bench.records import Records
from offbeat.bench.results import Benchmark
from offbeat.calibrate import machine_file, parameters
from offbeat.calibrate import session as sessions
from offbeat.calibrate.hockney import Hockney
from offbeat.calibrate.parameters import Calibrated
from offbeat.calibrate.session import Session
from offbeat.errors import FAILED, CommandError
from offbeat.machine import fingerprint
from offbeat.mpi.choice import Choice
from offbeat.units import format_count, format_duration

_MESSAGES_SHARE = 0.6  # of the budget; the rest is for the algorithms


class Fits(NamedTuple):
    """What a calibration found."""

    machine: Calibrated
    algorithms: list[Hockney]
    left_out: list[str]  # one line for each parameter or algorithm that could not be fitted
    too_few: dict[str, int]  # the algorithms for which the budget was too short, with their cases


class Calibration:
    """The measurements of a session, and the two files: ``output`` for the machine, ``path`` for the rest.

    The budget begins with the construction. ``show`` gets the progress, ``say`` a line that stays.
    """

    def __init__(
        self,
        session: Session,
        choice: Choice,
        output: Path,
        path: Path,
        budget_s: float,
        *,
        show: Callable[[str], None] = lambda text: None,
        say: Callable[[str], None] = lambda line: None,
        show_output: bool = False,
    ) -> None:
        self._session, self._choice = session, choice
        self._output, self._path = output, path
        self._began = time.time()
        self._budget_s = budget_s
        self._show, self._say, self._show_output = show, say, show_output

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.time() - self._began

    @property
    def resume_command(self) -> str:
        """The command that measures more."""
        own = f" --json {self._path}" if self._path != self._output.with_suffix(".json") else ""
        return f"offbeat calibrate --resume -o {self._output}{own}"

    def run(self) -> Fits:
        """Measure until the budget is spent. Both files are also written when the messages are measured.

        Raises CommandError if ranks cannot be started, or if too little was measured for a fit.
        """
        session, path = self._session, self._path
        sessions.find_layout(session, self._choice, path)
        counts = session.goal.algorithm_ranks
        if counts and sessions.level_of_nodes(session) is None:
            counts = []
            self._say(
                "several ranks on each of several nodes: no cost formula has that, so no algorithm gets "
                "parameters; start one rank on each node for them"
            )
        share = _MESSAGES_SHARE if counts else 1.0
        sessions.measure_messages(
            session,
            self._choice,
            path,
            self._began + share * self._budget_s,
            lambda records: self._progress(records.doing),
            show_output=self._show_output,
        )
        self._fit([])
        left = len(counts)
        benchmarks = [self._measure_algorithms(count, left - number) for number, count in enumerate(counts)]
        return self._fit(benchmarks)

    def _progress(self, doing: str) -> None:
        self._show(f"{format_duration(self.seconds)} of {format_duration(self._budget_s)}: {doing}")

    def _measure_algorithms(self, ranks: int, left: int) -> Benchmark:
        """Measure the algorithms on ``ranks`` ranks, in an equal share of the time for ``left`` such jobs."""
        session = self._session
        found = sessions.benchmark(session, self._choice, self._path, ranks)
        own = sessions.benchmark_path(self._path, ranks)
        seconds = (self._began + self._budget_s - time.time()) / left
        if found.missing() and seconds > 0:

            def on_change(records: Records, deadline: float) -> None:
                self._progress(f"{format_count(ranks, 'rank')}, {records.doing}")

            before = found.seconds
            runner.run(
                found,
                self._choice,
                path=own,
                budget_s=seconds,
                on_change=on_change,
                show_output=self._show_output,
                shared_folder=own.absolute().parent if len(session.layout.nodes) > 1 else None,
            )
            session.seconds += found.seconds - before
        return found

    def _fit(self, benchmarks: Sequence[Benchmark]) -> Fits:
        """Fit everything, and write both files."""
        session = self._session
        try:
            found = parameters.fit_parameters(session.results, session.layout)
        except CommandError as error:
            raise CommandError(f"{error}; to resume: {self.resume_command}", FAILED) from None
        fitted, refused, too_few = (
            sessions.fit_algorithms(session, found, benchmarks) if benchmarks else ([], [], {})
        )
        text = machine_file.machine_file_text(
            found,
            fitted,
            name=session.goal.name,
            source=self._source(),
            calibrated=fingerprint(self._choice.install.vendor, self._choice.install.version),
            level=sessions.level_of_nodes(session) or "between_nodes",
        )
        session.write(
            self._path,
            {"parameters": _finite(asdict(found)), "algorithms": [_finite(asdict(each)) for each in fitted]},
        )
        try:
            self._output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {self._output}: {error.strerror}", FAILED) from None
        return Fits(found, fitted, [*found.refused, *refused], too_few)

    def _source(self) -> str:
        session, install = self._session, self._choice.install
        where = (
            f"{format_count(session.goal.ranks, 'rank')} on {format_count(len(session.layout.nodes), 'node')}"
        )
        return (
            f"offbeat calibrate, {session.about['updated']}: {where}, {install.vendor} {install.version}, "
            f"{session.about['machine']['processor']}"
        )


def _finite(value: Any) -> Any:
    """The value for JSON, which has no infinity."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
