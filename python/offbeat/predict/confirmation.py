# SPDX-License-Identifier: BSD-3-Clause
"""Compare a prediction with runs of the program under other algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from offbeat.predict.prediction import PredictedCollective
from offbeat.trace import COLLECTIVES
from offbeat.trace.metrics import Calls


@dataclass(frozen=True)
class MeasuredRun:
    """A run of the program under some algorithms."""

    path: Path
    run_s: float
    ran: Mapping[str, str]  # the algorithm of most calls of each collective

    @classmethod
    def of(cls, calls: Calls) -> MeasuredRun:
        """The run of a trace."""
        table = calls.whole
        ran = {}
        for number in np.unique(table["collective"]):
            used = Counter(table["algorithm"][table["collective"] == number].tolist())
            ran[COLLECTIVES[int(number)]] = calls.algorithms[used.most_common(1)[0][0]]
        begin, end = calls.trace.span_ns
        return cls(calls.trace.path, (end - begin) / 1e9, ran)


@dataclass(frozen=True)
class Confirmed:
    """The predicted and the measured run under one algorithm."""

    name: str
    predicted_s: float | None  # None: there are no delays of this algorithm
    measured_s: float  # the median of ``runs``
    runs: int


@dataclass(frozen=True)
class Confirmation:
    """The comparison of predicted and measured runs."""

    collective: str
    lines: Sequence[Confirmed]  # the shortest measured run first

    @cached_property
    def both(self) -> list[Confirmed]:
        """The algorithms that were predicted and measured, the shortest measured run first."""
        return [line for line in self.lines if line.predicted_s is not None]

    @property
    def predicted_best(self) -> Confirmed:
        """The one with the shortest predicted run."""
        return min(self.both, key=lambda line: line.predicted_s or 0.0)

    @property
    def loss(self) -> float:
        """How much longer the predicted best ran than the measured best, as a share of the latter."""
        return self.predicted_best.measured_s / self.both[0].measured_s - 1

    @property
    def same_order(self) -> bool:
        """Whether the order of the predicted runs is that of the measured ones."""
        by_prediction = sorted(self.both, key=lambda line: line.predicted_s or 0.0)
        return by_prediction == self.both


def confirm(prediction: PredictedCollective, runs: Sequence[MeasuredRun]) -> Confirmation | None:
    """Compare a prediction with runs. None if fewer than two algorithms were both predicted and measured."""
    predicted = {each.name: each.run_s for each in prediction.algorithms}
    times: dict[str, list[float]] = {}
    for run in runs:
        if prediction.collective in run.ran:
            times.setdefault(run.ran[prediction.collective], []).append(run.run_s)
    lines = [
        Confirmed(name, predicted.get(name), float(np.median(each)), len(each))
        for name, each in times.items()
    ]
    found = Confirmation(prediction.collective, sorted(lines, key=lambda line: line.measured_s))
    return found if len(found.both) > 1 else None
