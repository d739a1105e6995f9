# SPDX-License-Identifier: BSD-3-Clause
"""Suggest the commands to type after a report or a prediction."""

from __future__ import annotations

import shlex

import numpy as np

from offbeat.bench.plan import COLLECTIVES as BENCHED
from offbeat.bench.plan import DEFAULT_COLLECTIVE
from offbeat.predict.prediction import Prediction, benchmark_size
from offbeat.reports.prediction_sheets import runs_differ
from offbeat.trace import COLLECTIVES, Flag
from offbeat.trace.findings import Diagnosis
from offbeat.trace.metrics import Calls
from offbeat.trace.stakes import Verdict

_MOST_SIZES = 4
_LEAST_SHARE_OF_LARGEST_SIZE = (
    0.1  # a size is worth measuring if it takes this share of the time of the largest one
)

MEASURE = "Measure the algorithms under the arrivals of this trace, and predict this run under each of them:"


def commands_after_diagnosis(calls: Calls, diagnosis: Diagnosis) -> list[str]:
    """Commands that write the pattern of this trace, measure the costliest sizes under it, and predict."""
    stakes, trace = diagnosis.stakes, calls.trace
    if stakes is None or stakes.verdict is Verdict.NOTHING:
        return []
    name, sizes = _where_the_time_is(calls)
    if name is None:
        return []
    which = "" if name == DEFAULT_COLLECTIVE else f" --collectives {name}"
    # A barrier has no sizes.
    size = f" --sizes {','.join(map(str, sizes))}" if name != "barrier" else ""
    path = shlex.quote(str(trace.path))
    commands, patterns = [], ""
    if diagnosis.findings:
        commands.append(f"offbeat report {path} --pattern skew.txt")
        lateness_us = diagnosis.findings[0].occurrences[0].lateness_us[1]
        patterns = f" --patterns balanced,./skew.txt --skew {lateness_us:.0f}us"
    commands.append(f"offbeat bench -n {trace.ranks}{which}{size}{patterns} --json bench.json")
    commands.append(f"offbeat predict {path} --from bench.json")
    return commands


def _where_the_time_is(calls: Calls) -> tuple[str | None, list[int]]:
    """The collective that takes most time, of those that can be measured, and its costliest sizes.

    Sizes are rounded down to whole floats.
    """
    table, ranks = calls.whole, calls.trace.ranks
    of_all = np.array([each.size == ranks and not each.inter for each in calls.trace.communicators])
    blocking = (table["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0
    table = table[of_all[table["communicator"]] & blocking]
    times = {
        name: float(table["in_call"][table["collective"] == COLLECTIVES.index(name)].sum())
        for name in BENCHED
    }
    name = max(times, key=times.__getitem__)
    if times[name] <= 0:
        return None, []
    mine = table[table["collective"] == COLLECTIVES.index(name)]
    found, place = np.unique(benchmark_size(name, mine, ranks) // 4 * 4, return_inverse=True)
    time = np.bincount(place, weights=mine["in_call"])
    most = np.argsort(-time, kind="stable")[:_MOST_SIZES]
    return name, sorted(
        {max(4, int(found[k])) for k in most if time[k] >= _LEAST_SHARE_OF_LARGEST_SIZE * time.max()}
    )


def commands_after_prediction(prediction: Prediction) -> list[str]:
    """Commands that run the program under the best algorithms, and compare the run with the prediction."""
    trace = prediction.calls.trace
    chosen = []
    for each in prediction.collectives:
        best = each.algorithms[0]
        of_host = best.name in ("native", "default", each.ran) or best.name.startswith("native(")
        if of_host or not runs_differ(each):
            continue
        option = f"--allreduce {shlex.quote(best.name)}" if each.collective == DEFAULT_COLLECTIVE else (
            f"--algorithm {shlex.quote(f'{each.collective}={best.name}')}"
        )  # fmt: skip
        chosen.append(option)
    if not chosen:
        return []
    return [
        f"offbeat trace -n {trace.ranks} {' '.join(chosen)} -o confirm.trace -- {trace.program}",
        f"offbeat predict {shlex.quote(str(trace.path))} --from {shlex.quote(str(prediction.delays.path))} "
        "--measured confirm.trace",
    ]
