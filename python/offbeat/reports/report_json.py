# SPDX-License-Identifier: BSD-3-Clause
"""Turn reports and predictions into plain data (docs/reference/report-format.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from offbeat import __version__
from offbeat.bench import ranking
from offbeat.bench.bench_file import BenchFile
from offbeat.predict.confirmation import Confirmation
from offbeat.predict.prediction import (
    SIZE_BY_SIZE,
    Candidate,
    PredictedCollective,
    Prediction,
    SizeChoice,
)
from offbeat.trace import COLLECTIVES, summaries
from offbeat.trace.findings import Diagnosis, Finding, Occurrence, Period
from offbeat.trace.metrics import Calls
from offbeat.trace.stakes import Stakes
from offbeat.trace.training import Training

REPORT_FORMAT, REPORT_VERSION = "offbeat report", 1
PREDICTION_FORMAT, PREDICTION_VERSION = "offbeat predict", 1


def json_of_report(traces: Sequence[dict[str, Any]], benches: Sequence[BenchFile]) -> dict[str, Any]:
    """The document of ``offbeat report --json``. ``traces`` come from ``json_of_trace``."""
    return {
        "format": REPORT_FORMAT,
        "version": REPORT_VERSION,
        "offbeat": __version__,
        "traces": list(traces),
        "benchmarks": [_benchmark(bench) for bench in benches],
    }


def json_of_trace(calls: Calls, diagnosis: Diagnosis, commands: Sequence[str]) -> dict[str, Any]:
    """The data of one trace."""
    trace = calls.trace
    return {
        "path": str(trace.path),
        "program": trace.program,
        "mpi": trace.mpi,
        "ranks": trace.ranks,
        "recorded_ranks": len(trace.recording),
        "hosts": len(set(trace.hosts.values())),
        "every_call": trace.every_call,
        "calls": len(calls.table),
        "complete_calls": len(calls.whole),
        "clock_error_us": None if math.isnan(trace.clock_error_ns) else trace.clock_error_ns / 1e3,
        "missing": list(trace.missing),
        "training": _training(diagnosis.training) if diagnosis.training is not None else None,
        "stakes": _stakes(diagnosis.stakes) if diagnosis.stakes is not None else None,
        "contention": asdict(diagnosis.contention) if diagnosis.contention is not None else None,
        "waiting_s": diagnosis.waiting_s,
        "explained_s": diagnosis.explained_s,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "commands": list(commands),
        "collectives": _collectives(calls),
        "lateness": _lateness(calls),
        "trials": [_trial(trial) for trial in summaries.trials(calls)],
    }


def _trial(trial: summaries.Trial) -> dict[str, Any]:
    return {
        "collective": COLLECTIVES[trial.collective],
        "nonblocking": trial.is_nonblocking,
        "communicator_ranks": trial.ranks,
        "least_bytes": trial.least_bytes,
        "most_bytes": trial.most_bytes,
        "time_s": trial.time_ns / 1e9,
        "alternatives": [
            {
                "algorithm": each.algorithm,
                "calls": each.calls,
                "last_delay_us": each.last_delay_us,
                "pinned": each.is_pinned,
            }
            for each in trial.alternatives
        ],
    }


def _training(training: Training) -> dict[str, Any]:
    found = training.steps > 0
    return {
        "framework": training.framework,
        **training.figures,
        "gradient_calls": training.gradient_calls,
        "gradient_bytes": training.gradient_bytes,
        "steps": training.steps if found else None,
        "step_s": training.step_ns / 1e9 if found else None,
        "step_bytes": training.step_bytes if found else None,
        "gradient_calls_per_step": training.calls_per_step if found else None,
        "gradient_s_per_step": training.gradient_ns / 1e9 if found else None,
        "bytes_per_s": training.bandwidth if found else None,
        "last_ready_s": training.spread_ns / 1e9 if len(training.late_ns) else None,
        "slow": [
            {
                "ranks": list(slow.ranks),
                "first_step": slow.first_step,
                "last_step": slow.last_step,
                "late_steps": slow.late_steps,
                "late_s": slow.late_ns / 1e9,
                "last_gradient_late_s": slow.last_ns / 1e9,
                "in_backward_pass": slow.in_backward_pass,
            }
            for slow in training.slow
        ],
        "sentences": training.sentences,
        "advice": training.advice,
    }


def _stakes(stakes: Stakes) -> dict[str, Any]:
    return {
        "verdict": stakes.verdict.value,
        "run_s": stakes.run_s,
        "collectives": stakes.in_collectives,
        "waiting": stakes.waiting,
        "communicating": stakes.communicating,
        "perfect_saves_s": stakes.perfect_saves_s,
        "even_saves_s": stakes.even_saves_s,
        "sentences": stakes.sentences,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind.name.lower(),
        "ranks": list(finding.ranks),
        "host": finding.host,
        "waited_s": finding.waited_s,
        "share_of_run": finding.share_of_run,
        "share_of_collectives": finding.share,
        "sentence": finding.sentence,
        "advice": finding.advice,
        "places": [_occurrence(each) for each in finding.occurrences],
    }


def _occurrence(occurrence: Occurrence) -> dict[str, Any]:
    group = occurrence.group
    p10, median, p90 = occurrence.lateness_us
    return {
        "collective": COLLECTIVES[group.collective],
        "least_bytes": group.least_bytes,
        "most_bytes": group.most_bytes,
        "communicator": group.communicator.index,
        "communicator_ranks": group.communicator.size,
        "calls": len(group.calls),
        "late_calls": len(occurrence.rows),
        "first_numbers": [int(number) for number in occurrence.numbers[:3]],
        "every_such_call": _period_step(occurrence.of_kind),
        "every_call_of_communicator": _period_step(occurrence.of_communicator),
        "lateness_us": {"p10": p10, "median": median, "p90": p90},
        "waited_s": occurrence.waited_s,
    }


def _period_step(period: Period | None) -> int | None:
    return period.step if period is not None else None


def _collectives(calls: Calls) -> list[dict[str, Any]]:
    if not len(calls.whole):
        return []
    return [
        {
            "collective": COLLECTIVES[share.collective],
            "sizes": share.size_class,
            "calls": share.calls,
            "time_s": share.time_ns / 1e9,
            "waiting_s": share.waiting_ns / 1e9,
        }
        for share in summaries.shares(calls)
    ]


def _lateness(calls: Calls) -> list[dict[str, Any]]:
    if not len(calls.whole):
        return []
    return [
        {
            "rank": rank.rank,
            "host": calls.trace.hosts[rank.rank],
            "times_last": rank.calls_last,
            "then_late_us": rank.lateness_us,
            "mean_skew_us": rank.mean_skew_us,
            "others_waited_s": rank.waited_s,
        }
        for rank in summaries.lateness(calls)
    ]


def _benchmark(bench: BenchFile) -> dict[str, Any]:
    choices = []
    for collective in ranking.collectives_of(bench.rows):
        for size in ranking.sizes_of(bench.rows, collective):
            rows = ranking.rows_at(bench.rows, collective, size)
            scores = ranking.scores(rows)
            balanced = next((row.best for row in rows if row.balanced), None)
            choices.append(
                {
                    "collective": collective,
                    "size_bytes": size,
                    "best_average": min(scores, key=scores.__getitem__, default=None),
                    "scores": scores,
                    "best_when_balanced": balanced,
                }
            )
    return {"path": str(bench.path), "warnings": list(bench.warnings), "choices": choices}


def json_of_prediction(
    found: Prediction, confirmed: Sequence[tuple[PredictedCollective, Confirmation | None]]
) -> dict[str, Any]:
    """The document of ``offbeat predict --json``."""
    trace = found.calls.trace
    return {
        "format": PREDICTION_FORMAT,
        "version": PREDICTION_VERSION,
        "offbeat": __version__,
        "trace": str(trace.path),
        "delays": str(found.delays.path),
        "source": found.delays.source,
        "ranks": trace.ranks,
        "recorded_s": found.recorded_s,
        "covered": found.covered,
        "notes": [*trace.missing, *found.notes],
        "collectives": [_collective(each, confirmation) for each, confirmation in confirmed],
    }


def _collective(each: PredictedCollective, confirmation: Confirmation | None) -> dict[str, Any]:
    return {
        "collective": each.collective,
        "calls": each.calls,
        "predicted_calls": each.predicted_calls,
        "arrivals": dict(each.arrivals),
        "sizes": dict(each.sizes),
        "ran": each.ran,
        "algorithms": [{**_candidate(way), "average": each.scores[way.name]} for way in each.algorithms],
        "best": _candidate(each.best),
        "best_average": _candidate(each.by_average),
        "best_when_balanced": _candidate(each.by_balanced) if each.by_balanced is not None else None,
        "by_size": [_size(size) for size in each.by_size],
        "confirmation": _confirmation(confirmation) if confirmation is not None else None,
    }


def _candidate(way: Candidate) -> dict[str, Any]:
    name = way.name if way.name != SIZE_BY_SIZE else None
    return {"algorithm": name, "run_s": way.run_s, "communicating_s": way.communicating_s}


def _size(size: SizeChoice) -> dict[str, Any]:
    return {
        "size_bytes": size.size_bytes,
        "calls": size.calls,
        "best": size.best,
        "best_average": size.by_average,
        "best_when_balanced": size.by_balanced,
        "delays_s": dict(size.delays_s),
    }


def _confirmation(found: Confirmation) -> dict[str, Any]:
    return {
        "best": found.both[0].name,
        "predicted_best": found.predicted_best.name,
        "loss": found.loss,
        "same_order": found.same_order,
        "runs": [
            {
                "algorithm": line.name,
                "predicted_s": line.predicted_s,
                "measured_s": line.measured_s,
                "runs": line.runs,
            }
            for line in found.lines
        ],
    }
