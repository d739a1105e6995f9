# SPDX-License-Identifier: BSD-3-Clause
"""A tuning in words and tables: how far it is, which rules change, and what that brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from offbeat.bench.plan import NATIVE
from offbeat.reports.sheet import Cell, Sheet, Tone
from offbeat.rules.spelling import bytes_text, counts_text
from offbeat.tune import race
from offbeat.tune.by_simulation import Answer, Question
from offbeat.tune.course import FINAL, Course
from offbeat.tune.decisions import Decision, Row, decide, mean_ratio
from offbeat.tune.simulated_rules import SimulatedRow
from offbeat.tune.tuning import Progress
from offbeat.units import format_count, format_duration, format_size, format_us

NOTE = "Last delays and their quotients are geometric means over the arrival patterns; below 1 is faster."
SIMULATED_NOTE = (
    "The column `of the MPI's` has the simulated last delay divided by that of the MPI's default: a "
    "geometric mean over machines, numbers of nodes, sizes and arrival patterns. "
    "Where the algorithm is native, nothing is faster everywhere."
)
_NOTICED = 0.03  # a smaller difference counts as none
_UNCERTAIN = 0.25


def sheet(rows: Sequence[Row]) -> Sheet:
    """A table with one row for each rule, of one collective on one number of ranks."""
    first = rows[0].first
    place = first.place
    where = format_count(place.ranks, "rank") + (f" on {place.nodes} nodes" if place.nodes > 1 else "")
    return Sheet(
        caption=f"{first.collective} on {where}",
        columns=("bytes", "algorithm", "before", "last delay", "of native's", "of before"),
        rows=[
            [
                Cell(bytes_text(row.least, row.most)),
                Cell(row.first.algorithm),
                Cell(", ".join(dict.fromkeys(_before(each) for each in row.decisions))),
                Cell(_delays(row.decisions)),
                _ratio(mean_ratio(each.of_native for each in row.decisions)),
                _ratio(mean_ratio(each.of_before for each in row.decisions)),
            ]
            for row in rows
        ],
        left=frozenset({0, 1, 2}),
    )


def simulated(rows: Sequence[SimulatedRow], hosts: Sequence[str]) -> Iterator[Sheet]:
    """A table for each collective and number of ranks on a node, with one row for each rule."""
    for (collective, ppn), of in groupby(rows, key=lambda row: (row.collective, row.ppn)):
        yield Sheet(
            caption=f"{collective}, {format_count(ppn, 'rank')} on each node",
            columns=("nodes", "MPI", "bytes", "algorithm", "of the MPI's"),
            rows=[
                [
                    Cell(row.fields()[2]),
                    Cell("any" if row.host == "*" else row.host),
                    Cell(row.fields()[4]),
                    Cell(row.algorithm, Tone.DIM if row.algorithm == NATIVE else Tone.PLAIN),
                    _ratio(row.of_host([row.host] if row.host != "*" else hosts)),
                ]
                for row in of
            ],
            left=frozenset({0, 1, 2, 3}),
        )


def _before(decision: Decision) -> str:
    return "same" if decision.before == decision.algorithm else decision.before


def _delays(decisions: Sequence[Decision]) -> str:
    delays = [each.us for each in decisions]
    least, most = min(delays), max(delays)
    return format_us(least) if len(delays) == 1 else f"{format_us(least)} .. {format_us(most)}"


def _ratio(ratio: float | None) -> Cell:
    if ratio is None:
        return Cell("-", Tone.DIM)
    tone = Tone.GOOD if ratio < 1 - _NOTICED else Tone.BAD if ratio > 1 + _NOTICED else Tone.PLAIN
    return Cell(f"{ratio:.2f}", tone)


def verdict(decisions: Sequence[Decision]) -> str:
    """One line: how many choices change, and what that brings."""
    changed = [each for each in decisions if each.changes]
    verb = "changes" if 1 in (len(changed), len(decisions)) else "change"
    found = f"{len(changed)} of {format_count(len(decisions), 'choice')} {verb}"
    if (gain := mean_ratio(each.of_before for each in changed)) is not None:
        found += f": there the last delay is {gain:.2f} of what it was (geometric mean)"
    if (native := mean_ratio(each.of_native for each in decisions)) is not None:
        found += f"; over all it is {native:.2f} of native's"
    stale = sum(not each.fresh for each in decisions if each.algorithm != "native")
    if stale:
        found += f"; {stale} without a second measurement, because the budget was spent"
    doubtful = sum(each.uncertainty > _UNCERTAIN for each in decisions)
    if doubtful:
        found += f"; {doubtful} with figures that are uncertain by more than 25%: the machine was too busy"
    return found


def objective(course: Course) -> str:
    """One line: the objective, and for the robust one the arrival patterns."""
    goal = course.goal
    patterns = f" ({', '.join(course.benchmark.plan.patterns)})" if goal.objective == "robust" else ""
    return f"Objective: {goal.objective}{patterns}"


def progress(now: Progress) -> str:
    """One line that says how far a tuning is."""
    what = "measuring the winners again" if now.round == FINAL else f"round {now.round + 1}"
    text = (
        f"{format_duration(now.passed_s)} of {format_duration(now.budget_s)}: {what}, "
        f"{format_count(now.ranks, 'rank')}: {now.doing}"
    )
    if now.candidates and now.round != FINAL:
        text += f"; {now.racing} of {format_count(now.candidates, 'candidate')} are in the race"
    return text


def too_short(courses: Sequence[Course], budget_s: float, start_s: float) -> str:
    """The error after a budget in which no race got all the times that a rule needs.

    ``start_s`` is how long it takes to start a job.
    """
    measured, wanted = zip(*(course.measured_of_wanted() for course in courses), strict=True)
    return (
        f"the budget of {budget_s:g} s was too short: {sum(measured)} of {format_count(sum(wanted), 'time')} "
        f"were measured, so no algorithm has all its times (starting a job takes {start_s:.1f} s here)"
    )


def missing(courses: Sequence[Course]) -> list[str]:
    """A line for each number of ranks on which some races have no decision."""
    found = []
    for course in courses:
        decided = {(d.collective, d.size_bytes) for d in decide(course)}
        without = [c for c in course.contests if (c.collective, c.size_bytes) not in decided]
        if without:
            sizes = "; ".join(
                f"{collective} of {', '.join(format_size(c.size_bytes) for c in contests)}"
                for collective, contests in groupby(without, key=lambda c: c.collective)
            )
            found.append(
                f"No rule on {format_count(course.ranks, 'rank')} for {sizes}: the budget was spent, or "
                "native failed. --resume goes on."
            )
    return found


def dropped(courses: Sequence[Course]) -> list[str]:
    """A line for each algorithm that nobody may use for a collective, with the reason."""
    reasons = {key: why for course in courses for key, why in course.dropped.items()}
    return [f"Not used: {collective} by {name}: {why}" for (collective, name), why in reasons.items()]


def better_names(courses: Sequence[Course]) -> list[str]:
    """A line for each number of ranks on which a name of the host's wins that rules cannot have."""
    found = []
    for course in courses:
        better = []
        for contest in course.contests:
            scores = course.scores(contest, course.usable(contest))
            best = min(scores, key=lambda name: scores[name].value, default=None)
            allowed = [score for name, score in scores.items() if course.may_be_in_rules(contest, name)]
            if best is None or not allowed:
                continue
            rule = min(allowed, key=lambda score: score.value)
            if race.is_better(scores[best], rule):
                where = f"{contest.collective} {format_size(contest.size_bytes)}"
                better.append(f"{where}: {best} at {scores[best].value / rule.value:.2f} of the rule's time")
        if better:
            found.append(
                f"On {format_count(course.ranks, 'rank')} one of the MPI's own is better, but no rule can "
                f"name it: {'; '.join(better)}"
            )
    return found


def not_simulated(missing: Sequence[Question]) -> str:
    """One line: for which nodes the budget was too short."""
    groups = dict.fromkeys((each.collective, each.ppn, each.nodes) for each in missing)
    collectives = ", ".join(dict.fromkeys(collective for collective, _, _ in groups))
    ranges = ",".join(dict.fromkeys(counts_text(*nodes) for _, _, nodes in groups))
    return (
        f"The budget was too short for {collectives} on {ranges} nodes, which get no rules. To go on: the "
        f"same command with --nodes {ranges}"
    )


def simulated_cost(answers: Sequence[Answer], machines: int, seconds: float) -> str:
    """One line: how many simulations a tuning by simulation took, and how long."""
    simulations = sum(each.simulations for each in answers)
    return (
        f"{format_count(simulations, 'simulation')} in {format_duration(seconds)}: "
        f"{format_count(len(answers), 'question')} on {format_count(machines, 'machine')}"
    )
