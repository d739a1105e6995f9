# SPDX-License-Identifier: BSD-3-Clause
"""The tables of a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from offbeat.reports.sheet import Cell, Sheet, Tone, plain_cells
from offbeat.trace import COLLECTIVES, Trace, summaries
from offbeat.trace.findings import Diagnosis
from offbeat.trace.message_time import MessageTime
from offbeat.trace.metrics import Calls
from offbeat.trace.summaries import Measure
from offbeat.trace.training import Training
from offbeat.units import format_count, format_size_range, format_us

_MOST_RANKS = 16
_MOST_TRIALS = 16
_UNKNOWN = "-"


def sheets(calls: Calls, diagnosis: Diagnosis, alpha: MessageTime | None) -> list[Sheet]:
    """All tables of a trace."""
    known = diagnosis.training
    found = [readiness(calls, known)] if known is not None and len(known.late_ns) else []
    if not len(calls.whole):
        return found
    found += [ranks(calls), imbalance(calls, alpha), shares(calls), algorithms(calls)]
    return found + ([trials(calls)] if summaries.trials(calls) else [])


def readiness(calls: Calls, training: Training) -> Sheet:
    """How late each rank is ready with its gradients, over the steps of a training."""
    late = training.late_ns[~np.isnan(training.late_ns).any(axis=1)]
    last = np.argmax(late, axis=1)
    order = np.argsort(-late.sum(axis=0), kind="stable")[:_MOST_RANKS]
    rows = []
    for column in order:
        mine = late[:, column]
        p50, p90 = np.percentile(mine, (50, 90)) / 1e3 if len(mine) else (0.0, 0.0)
        rank = int(training.ranks[column])
        rows.append(
            plain_cells(
                f"rank {rank}",
                calls.trace.hosts[rank],
                f"{np.count_nonzero(last == column)}",
                format_us(float(p50)),
                format_us(float(p90)),
                format_us(float(mine.sum()) / 1e3),
            )
        )
    return Sheet(
        "When ranks are ready with their gradients",
        ("rank", "host", "steps in which it is last", "ready late by", "10% later than", "in all"),
        rows,
        f"Over {len(late)} steps. Late by: the median, measured from when half of the ranks were "
        f"ready.{training.lateness_precision}",
        left=frozenset({0, 1}),
    )


def ranks(calls: Calls) -> Sheet:
    """Which ranks arrive last, how often, and how late they are then."""
    found = summaries.lateness(calls)
    shown = sorted(found, key=lambda rank: (-rank.waited_s, -rank.calls_last, rank.rank))[:_MOST_RANKS]
    rows = [
        plain_cells(
            f"rank {rank.rank}",
            calls.trace.hosts[rank.rank],
            f"{rank.calls_last}",
            _percent(rank.share_last),
            format_us(rank.lateness_us),
            format_us(rank.lateness_p90_us),
            format_us(rank.mean_skew_us),
            format_us(1e6 * rank.waited_s) if rank.shows_waiting else _UNKNOWN,
        )
        for rank in shown
    ]
    many = (
        f" Shown: the {_MOST_RANKS} of {len(found)} ranks for which the others waited longest, or that are "
        "last most often."
    ) * (len(found) > _MOST_RANKS)
    return Sheet(
        "Ranks that arrive last",
        (
            "rank",
            "host",
            "times last",
            "of all calls",
            "then late by",
            "10% later than",
            "mean skew",
            "others waited",
        ),
        rows,
        "Late by: the median over the calls in which the rank is last, measured from when half of the ranks "
        "had arrived; in a tenth of these calls it is later than the next column. Mean skew: time after the "
        f"first rank, averaged over all calls. Others waited: the sum over all other ranks."
        f"{_of_non_blocking(calls)}{many}",
        left=frozenset({0, 1}),
    )


def imbalance(calls: Calls, alpha: MessageTime | None) -> Sheet:
    """The imbalance of arrival, as in tables 1 and 2 of paper 0."""
    rows = []
    for row in summaries.imbalance(calls, alpha):
        values = (row.worst, row.average, row.node_worst, row.node_average)
        rows.append(plain_cells(row.size_class, str(row.calls), *map(_text_with_factor, values)))
    source = f"alpha: {alpha.source}." if alpha is not None else "There is no alpha, so there are no factors."
    return Sheet(
        "Imbalance of arrival, averaged over calls",
        ("size", "calls", "worst (Ω)", "average (Δ̄)", "worst in a node", "average in a node"),
        rows,
        "In brackets: the factor, which is the time divided by alpha, the time of one message of that size. "
        f"{source} Sizes: {summaries.SIZE_CLASS_MEANING}.",
    )


def shares(calls: Calls) -> Sheet:
    """The calls and the time of each collective and class of sizes, and how much of the time is waiting."""
    rows = []
    for share in summaries.shares(calls):
        part = share.waiting_ns / share.time_ns if share.time_ns > 0 else 0.0
        rows.append(
            [
                *plain_cells(
                    f"{COLLECTIVES[share.collective]}, {share.size_class}",
                    str(share.calls),
                    _percent(share.call_share),
                    format_us(share.time_ns / 1e3),
                    _percent(share.time_share),
                    format_us(share.waiting_ns / 1e3) if share.any_blocking else _UNKNOWN,
                    format_us(share.communicating_ns / 1e3),
                ),
                Cell(
                    _percent(part) if share.any_blocking else _UNKNOWN,
                    Tone.BAD if part > 0.5 else Tone.PLAIN,
                ),
            ]
        )
    return Sheet(
        "Collectives, by size",
        ("collective", "calls", "of all calls", "time", "of all time", "waiting", "communicating", "waits"),
        rows,
        "Time: the sum over all ranks, inside the calls. Waiting: until the last rank arrived; the rest is "
        f"communicating. ▲: more than half is waiting. Sizes: {summaries.SIZE_CLASS_MEANING}."
        f"{_of_non_blocking(calls)}",
    )


def _of_non_blocking(calls: Calls) -> str:
    """A sentence about the calls that show no waiting, if there are any."""
    if summaries.blocking(calls.whole).all():
        return ""
    return f" Non-blocking calls record no waiting, so no sum has it; {_UNKNOWN}: there are no other calls."


def algorithms(calls: Calls) -> Sheet:
    """The algorithms that ran, and how often."""
    table = calls.whole
    rows = []
    for collective in sorted(set(table["collective"].tolist())):
        mine = table[table["collective"] == collective]
        for number in sorted(set(mine["algorithm"].tolist())):
            part = mine[mine["algorithm"] == number]
            name = calls.algorithms[number]
            rows.append(
                plain_cells(COLLECTIVES[collective], name, str(len(part)), _percent(len(part) / len(mine)))
            )
    return Sheet(
        "Algorithms that ran",
        ("collective", "algorithm", "calls", "of this collective"),
        rows,
        left=frozenset({0, 1}),
    )


def trials(calls: Calls) -> Sheet:
    """The alternatives that the job measured, and which of them it took in the end."""
    found = summaries.trials(calls)
    rows = []
    for trial in found[:_MOST_TRIALS]:
        name = ("i" if trial.is_nonblocking else "") + COLLECTIVES[trial.collective]
        for alternative in trial.alternatives:
            rows.append(
                plain_cells(
                    f"{name} on {format_count(trial.ranks, 'rank')}",
                    format_size_range(trial.least_bytes, trial.most_bytes),
                    alternative.algorithm,
                    str(alternative.calls),
                    format_us(alternative.last_delay_us),
                    "pinned" if alternative.is_pinned else "",
                )
            )
    many = f" Shown: the {_MOST_TRIALS} of {len(found)} with the most time." * (len(found) > _MOST_TRIALS)
    return Sheet(
        "Alternatives that the job measured",
        ("collective", "size", "algorithm", "calls", "last delay", "in the end"),
        rows,
        "Calls of similar sizes on one communicator that ran several algorithms, as a rule A | B says. "
        "Last delay: from the last arrival to the last exit, the median over the calls; in a non-blocking "
        "call it includes what the program computes meanwhile. Pinned: it ran in most of the last calls."
        f"{many}",
        left=frozenset({0, 1, 2, 5}),
    )


def hangs(calls: Calls) -> list[str]:
    """Who had not come to the calls in which a killed run was."""
    return [each.sentence for each in calls.trace.hangs]


def facts(calls: Calls) -> Sequence[tuple[str, str]]:
    """Facts about the traced run: its ranks, hosts and clocks."""
    trace = calls.trace
    hosts = len(set(trace.hosts.values()))
    recording = len(trace.recording)
    found = [
        ("program", trace.program or "unknown"),
        ("MPI", trace.mpi or "unknown"),
        ("ranks", f"{trace.ranks} on {format_count(hosts, 'host')}" + (
            f", {recording} of them recorded" if recording != trace.ranks else "")),
        ("calls", f"{len(calls.table)}, in {format_count(trace.records, 'record')}" + (
            f", one in {trace.every_call} calls recorded" if trace.every_call > 1 else "")),
        ("clocks", _clock_agreement(trace)),
    ]  # fmt: skip
    agreements = int(np.count_nonzero(calls.table["agreement"]))
    if agreements:
        found.append(
            ("polls", f"{agreements} of the calls are Horovod's polls and requests; not in averages")
        )
    incomplete = int(np.count_nonzero(~calls.table["complete"]))
    if incomplete:
        found.append(
            ("incomplete", f"{format_count(incomplete, 'call')} that some ranks did not end; not in averages")
        )
    if calls.mismatched:
        found.append(
            (
                "mismatched",
                f"{format_count(calls.mismatched, 'call')} in which ranks called different collectives",
            )
        )
    return found


def _clock_agreement(trace: Trace) -> str:
    if math.isnan(trace.clock_error_ns):
        return "error not measured"
    if trace.clock_error_ns < 5 and trace.clock_bound_ns == 0:
        return "one clock for all ranks"
    certain = f", certainly {format_us(trace.clock_bound_ns / 1e3)}" if trace.clock_bound_ns > 0 else ""
    return f"agree within {format_us(trace.clock_error_ns / 1e3)} as far as messages tell{certain}"


def _text_with_factor(value: Measure) -> str:
    text = format_us(value.us)
    return text if value.factor is None else f"{text} ({value.factor:.3g})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
