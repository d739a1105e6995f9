# SPDX-License-Identifier: BSD-3-Clause
"""Find which ranks are late in a trace, in which calls, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.trace import contention, formulas, frameworks, metrics, stakes
from offbeat.trace.findings import Diagnosis, Finding, Kind, Occurrence, Period
from offbeat.trace.metrics import Calls, Group

# A rank is late if it arrives later than the median rank by more than every one of these limits.
_LIMIT_IN_SPREADS = 3.0  # times the spread of the early half of the ranks
_LIMIT_IN_DELAYS = 0.5  # times what the call takes after the last arrival
_LIMIT_IN_CLOCK_ERRORS = 2.0  # times the error of the clocks
_LEAST_LATENESS_NS = 1000.0

_LEAST_SHARE_ON_PERIOD = 0.8  # a period counts if this share of the calls that it predicts is late
_LEAST_WAITING_SHARE_WITHOUT_NOISE = (
    0.8  # calls with little lateness are noise if all others have this share of the waiting
)
_SHARED_CALLS_TO_MERGE_RANKS = 0.8  # ranks that share this part of their late calls are one finding
_MAX_MULTIPLE_OF_MEAN_WAIT = (
    3.0  # if late ranks vary, one of them may cause this many times the average waiting
)
_LEAST_SHARE_OF_USUAL_LATENESS = 0.25  # lateness below this share of the usual lateness is noise
_LEAST_SHARE_OF_RUN = (
    0.01  # a finding needs this share of the time in collectives; an occurrence, of its finding's waiting
)
_LEAST_WAITING_SHARE_FOR_SPREAD = (
    0.25  # a spread is a finding if waiting takes this share of the time in a group of calls
)
_SAME_ORDER_SKEW_SHARE = (
    0.5  # ranks arrive in one order if their mean skews differ by this share of the imbalance
)
_MOST_FINDINGS = 8
_MOST_RANKS_MERGED = 512


def diagnose(calls: Calls) -> Diagnosis:
    """Find the ranks that are late, and the cost of their lateness."""
    table = calls.whole
    in_calls, waited = float(table["in_call"].sum()), float(table["waiting"].sum())
    groups = list(metrics.groups(calls))
    events, skews = _late_events(calls, groups)
    causes: dict[_Cause, list[Occurrence]] = {}
    for number, group in enumerate(groups):
        late = _late_rank_findings(calls, group, events[events["group"] == number])
        explained_s = sum(occurrence.waited_s for _, occurrence in late)
        spread = _unattributed_wait_findings(calls, group, skews[number], explained_s)
        for cause, occurrence in (*late, *spread):
            causes.setdefault(cause, []).append(occurrence)
    begin_ns, end_ns = calls.trace.span_ns
    run = max(len(calls.trace.recording) * (end_ns - begin_ns), 1) / calls.trace.every_call
    recorded = len(calls.trace.recording)
    found = [_finding(cause, each, in_calls, run, recorded) for cause, each in causes.items()]
    found = [finding for finding in found if finding.share >= _LEAST_SHARE_OF_RUN]
    known = frameworks.training_of_calls(calls)
    if known is not None:
        # In a training only what costs the run something is more than jitter.
        found = [finding for finding in found if finding.share_of_run >= _LEAST_SHARE_OF_RUN]
    found.sort(key=lambda finding: -finding.waited_s)
    told = found[:_MOST_FINDINGS]
    explained = sum(finding.waited_s for finding in told)
    crowded = contention.contention(calls.trace)
    return Diagnosis(told, stakes.stakes_of_calls(calls), waited / 1e9, explained, known, crowded)


class _Cause(NamedTuple):
    """What findings have in common to become one."""

    kind: Kind
    ranks: tuple[int, ...]
    host: str | None


def _finding(
    cause: _Cause, occurrences: Sequence[Occurrence], in_calls_ns: float, run_ns: float, recorded: int
) -> Finding:
    waited_s = sum(occurrence.waited_s for occurrence in occurrences)
    told = [occurrence for occurrence in occurrences if occurrence.waited_s >= _LEAST_SHARE_OF_RUN * waited_s]
    told.sort(key=lambda occurrence: -occurrence.waited_s)
    waited_ns = 1e9 * sum(occurrence.waited_s for occurrence in told)
    kind, late, _ = cause
    waiting = max(1, recorded - len(late)) if kind is Kind.LATE else recorded
    of_run = min(waited_ns / (run_ns * waiting / max(1, recorded)), 1.0)
    return Finding(*cause, tuple(told), waited_ns / max(in_calls_ns, 1e-9), of_run)


_LATE_EVENT_DTYPE = np.dtype([("group", "<i4"), ("row", "<i8"), ("rank", "<i4")])


def _late_events(calls: Calls, groups: Sequence[Group]) -> tuple[NDArray[Any], list[dict[int, float]]]:
    """All late events, which are pairs of a call and a late rank, and the mean skew of each rank by group."""
    group_of = np.full(len(calls.table), -1, dtype=np.int32)
    limits = np.full(len(groups), np.inf)
    skews: list[dict[int, float]] = [{} for _ in groups]
    for number, group in enumerate(groups):
        group_of[group.calls] = number
        limits[number] = _limit_ns(calls, group)
    parts = [np.empty(0, dtype=_LATE_EVENT_DTYPE)]
    for block, rows in metrics.blocks_with_rows(calls):
        kept = np.flatnonzero((rows >= 0) & (group_of[rows] >= 0))
        numbers = group_of[rows[kept]]
        for number in np.unique(numbers):
            sums = formulas.skew(block.arrival[kept[numbers == number]]).sum(axis=0)
            for rank, total in zip(block.ranks, sums / len(groups[number].calls), strict=True):
                skews[number][int(rank)] = skews[number].get(int(rank), 0.0) + float(total)
        # Most calls have no late rank, so this looks at each rank only in the calls whose last rank is late.
        some = calls.table["lateness"][rows[kept]] > limits[numbers]
        kept, numbers = kept[some], numbers[some]
        arrival = block.arrival[kept]
        late = arrival - formulas.usual_arrival(arrival)[:, None] > limits[numbers][:, None]
        which, column = np.nonzero(late)
        part = np.empty(len(which), dtype=_LATE_EVENT_DTYPE)
        part["group"], part["row"] = numbers[which], rows[kept][which]
        part["rank"] = block.ranks[column]
        parts.append(part)
    return np.concatenate(parts), skews


def _limit_ns(calls: Calls, group: Group) -> float:
    rows = calls.table[group.calls]
    delay = float(np.median(rows["end"] - rows["last"]))
    spread = float(np.median(rows["early_spread"]))
    return max(_limit_floor(calls), _LIMIT_IN_SPREADS * spread, _LIMIT_IN_DELAYS * delay)


def _limit_floor(calls: Calls) -> float:
    """The least lateness that is certainly more than an error of the clocks."""
    error = calls.trace.clock_error_ns
    return max(_LEAST_LATENESS_NS, _LIMIT_IN_CLOCK_ERRORS * error if np.isfinite(error) else 0.0)


def _late_rank_findings(calls: Calls, group: Group, events: NDArray[Any]) -> list[tuple[_Cause, Occurrence]]:
    """One occurrence for each set of ranks that are late together, or only one if the late ranks vary."""
    if not len(events):
        return []
    ranks, count = np.unique(events["rank"], return_counts=True)
    sets: list[tuple[list[int], NDArray[np.intp]]] = []
    for rank in ranks[np.argsort(-count, kind="stable")][:_MOST_RANKS_MERGED]:
        own = events["row"][events["rank"] == rank]
        for members, theirs in sets:
            shared = len(np.intersect1d(own, theirs, assume_unique=True))
            if shared >= _SHARED_CALLS_TO_MERGE_RANKS * max(len(own), len(theirs)):
                members.append(int(rank))
                break
        else:
            sets.append(([int(rank)], own))
    rows = np.unique(events["row"])
    last = calls.table["last_rank"][rows]
    parts = [(tuple(sorted(members)), rows[np.isin(last, members)]) for members, _ in sets]
    waited = [float(calls.table["waiting"][mine].sum()) for _, mine in parts]
    if _late_rank_varies(waited, len(group.communicator.members)):
        return [(_Cause(Kind.VARYING, (), None), _occurrence(calls, group, Kind.VARYING, rows))]
    return [
        (
            _Cause(Kind.LATE, members, _host(calls, group, members)),
            _occurrence(calls, group, Kind.LATE, mine),
        )
        for members, mine in parts
        if len(mine)
    ]


def _late_rank_varies(waited: Sequence[float], members: int) -> bool:
    """Whether a different rank is late each time: at least half of the ranks are, and none dominates."""
    sets = len(waited)
    return sets >= max(4, members // 2) and max(waited) <= _MAX_MULTIPLE_OF_MEAN_WAIT * sum(waited) / sets


def _unattributed_wait_findings(
    calls: Calls, group: Group, skews: dict[int, float], explained_s: float
) -> list[tuple[_Cause, Occurrence]]:
    """Returns a finding if the group has much waiting that no single rank explains, otherwise an empty
    list.
    """
    rows = calls.table[group.calls]
    waited_s = float(rows["waiting"].sum()) / 1e9
    much = waited_s >= _LEAST_WAITING_SHARE_FOR_SPREAD * float(rows["in_call"].sum()) / 1e9
    if not much or explained_s >= waited_s / 2 or float(np.median(rows["omega"])) < _limit_floor(calls):
        return []
    latest = sorted(skews, key=lambda rank: -skews[rank])
    in_order = skews[latest[0]] - skews[latest[-1]] > _SAME_ORDER_SKEW_SHARE * float(np.median(rows["omega"]))
    named = tuple(sorted(latest[: max(1, len(latest) // 4)])) if in_order else ()
    return [(_Cause(Kind.SPREAD, named, None), _occurrence(calls, group, Kind.SPREAD, group.calls))]


def _occurrence(calls: Calls, group: Group, kind: Kind, rows: NDArray[np.intp]) -> Occurrence:
    table = calls.table
    rows = np.sort(rows)
    if kind is Kind.LATE and _period(np.searchsorted(group.calls, rows))[0] is None:
        rows = _without_noise(table, rows)
    of_kind, regular = _period(np.searchsorted(group.calls, rows))
    rows = rows[regular]
    of_communicator, _ = _period(table["number"][rows].astype(np.int64))
    late = table["omega" if kind is Kind.SPREAD else "lateness"][rows] / 1e3
    p10, median, p90 = (float(value) for value in np.percentile(late, (10, 50, 90)))
    waited = float(table["waiting"][rows].sum())
    worst_first = rows[np.argsort(-table["waiting"][rows], kind="stable")]
    return Occurrence(
        group, worst_first, table["number"][rows], (p10, median, p90), waited / 1e9, of_kind, of_communicator
    )


def _without_noise(table: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Drop the calls with little lateness if the others account for most of the waiting.

    A rank may be late for two reasons, of which only one matters.
    """
    late = table["lateness"][rows]
    much = rows[late >= _LEAST_SHARE_OF_USUAL_LATENESS * np.percentile(late, 90)]
    waited = float(table["waiting"][rows].sum())
    return (
        much if float(table["waiting"][much].sum()) >= _LEAST_WAITING_SHARE_WITHOUT_NOISE * waited else rows
    )


def _host(calls: Calls, group: Group, ranks: tuple[int, ...]) -> str | None:
    hosts = calls.trace.hosts
    named = {hosts[rank] for rank in ranks}
    if len(ranks) < 2 or len(named) != 1:
        return None
    (host,) = named
    there = [rank for rank in group.communicator.members if hosts[rank] == host]
    alone = len(there) == len(group.communicator.members)
    return host if there == list(ranks) and not alone else None


def _period(places: NDArray[Any]) -> tuple[Period | None, NDArray[np.bool_]]:
    """The period of ascending numbers, if they have one, and which of them belong to it."""
    everything = np.ones(len(places), dtype=bool)
    if len(places) < 3:
        return None, everything
    steps, count = np.unique(np.diff(places), return_counts=True)
    step = int(steps[np.argmax(count)])
    remainders, count = np.unique(places % step, return_counts=True)
    regular = places % step == remainders[np.argmax(count)]
    chosen = places[regular]
    expected = (int(chosen[-1]) - int(chosen[0])) // step + 1
    enough = (
        len(chosen) >= max(3, _LEAST_SHARE_ON_PERIOD * len(places))
        and len(chosen) >= _LEAST_SHARE_ON_PERIOD * expected
    )
    if not enough:
        return None, everything
    return Period(step, int(chosen[0])), regular
