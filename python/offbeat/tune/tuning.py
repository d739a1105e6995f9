# SPDX-License-Identifier: BSD-3-Clause
"""Run the races within a budget: which job comes next, for how long, and what becomes of one that fails."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offbeat import _core, machine
from offbeat.bench import runner
from offbeat.bench.plan import NATIVE, Cell, Job
from offbeat.bench.records import Records
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice
from offbeat.tune.candidates import Place
from offbeat.tune.course import FINAL, FINAL_SAMPLES, ROUND_SAMPLES, Contest, Course
from offbeat.units import parse_skew

_FOR_FINAL = 0.2  # the part of the budget that measures the winners again
_OF_THE_REST = 0.5  # the most that a round takes of the time that is left for the rounds
_FEW_STARTS = 12  # if no more jobs than these can be started in the time left, a round may take all of it
_LEAST_STARTS = 4  # the least time, in starts of a job, that is worth another round
_OWN_FIRST = 3.0
_LEAST_SHARE = 1.3  # a job needs at least this many times what it takes to start it
_MOST_SILENCE_S = 20.0  # ranks that write nothing for so long hang
_GRACE_S = 3.0  # how long after its time a job may take to end
_PROBE_S = 10.0
_OF_BUDGET_FOR_PROBE = 0.3
_STARTS_OF_SILENCE = 5.0  # on a machine where jobs start slowly, ranks may be silent for longer
_LEAD_US = 20.0  # what a call costs beside its delay and the skew
_NODE_RANKS = "OFFBEAT_NODE_RANKS"  # makes nodes of a host, for tests


@dataclass(frozen=True)
class Progress:
    """Where a tuning is, for a line that tells the user."""

    passed_s: float
    budget_s: float
    round: int
    doing: str
    ranks: int
    racing: int
    candidates: int


@dataclass
class _Work:
    """A job to come: algorithms that take turns in the cells of some races."""

    course: Course
    contests: list[Contest]
    algorithms: list[str]
    reference: str | None = None  # not in question: it only ties this job to the others
    variables: Mapping[str, str] = field(default_factory=dict)


class Tuning:
    """All races on all numbers of ranks, and the budget that they share."""

    def __init__(
        self,
        courses: Sequence[Course],
        choice: Choice,
        budget_s: float,
        rules: _core.Rules | None,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda line: None,
        show_output: bool = False,
    ) -> None:
        self.courses, self.choice, self.rules = courses, choice, rules
        self._on_progress, self._say, self._show_output = on_progress, say, show_output
        self._began = time.time()
        self._budget_s = budget_s
        # A job that hangs at the very end still has to be ended within the budget.
        self._grace_s = min(_GRACE_S, 0.1 * budget_s)
        self._end = self._began + budget_s - 2 * self._grace_s
        # Where others use the cores too, ranks may wait long for one.
        sharing = max(machine.load() / machine.cpus(), 1.0)
        self._silence_s = min(_MOST_SILENCE_S, max(0.2 * budget_s, 2.0 * sharing))
        self._start_s = 1.0  # what it takes to start and end a job; the first one tells
        self._round = 0

    def run(self) -> None:
        """Race until every race is decided or the budget is spent, then measure the winners again."""
        for course in self.courses:
            self._probe(course)
        more = True
        while more:
            now = time.time()
            self._race(now + (1 - _FOR_FINAL) * (self._end - now))
            before = self._measured()
            self._run_round([(course, course.contests) for course in self.courses], FINAL, self._end)
            # What is left of the time goes to races that are not decided.
            enough = self._end - time.time() > _LEAST_STARTS * self._start_s
            more = enough and self._measured() > before and self._due()[0] is not None

    def _race(self, end: float) -> None:
        """Run one round after the other, until no race needs another one or the time is over."""
        stuck = 0
        while stuck < 2 and time.time() + self._start_s < end:
            number, due = self._due()
            if number is None:
                return
            left = end - time.time()
            # Rounds so short that starting jobs takes most of them are not worth it.
            share = left * _OF_THE_REST if left > _FEW_STARTS * self._start_s else left
            before = self._measured()
            self._run_round(due, number, time.time() + share)
            stuck = stuck + 1 if self._measured() == before else 0

    def _due(self) -> tuple[int | None, list[tuple[Course, list[Contest]]]]:
        """The earliest round that some race still needs, and the races that need it."""
        for number, _ in enumerate(ROUND_SAMPLES):
            due = [
                (course, [contest for contest in course.contests if self._is_due(course, contest, number)])
                for course in self.courses
            ]
            if any(contests for _, contests in due):
                return number, due
        return None, []

    def _measured(self) -> int:
        return sum(len(job["cells"]) for course in self.courses for job in course.jobs)

    # -- where the ranks run

    def _probe(self, course: Course) -> None:
        """Learn from a short job on how many hosts the ranks run; an MPI that does not work ends here."""
        vendor = self.choice.install.vendor
        if course.benchmark.about.get("hosts") is None:
            cell = course.benchmark.plan.cells[0]
            probe = cell._replace(pattern=course.benchmark.plan.patterns[0])
            records = Records()
            # To start a job on many hosts may take long, and is not known yet.
            until = min(self._end, time.time() + max(_PROBE_S, _OF_BUDGET_FOR_PROBE * self._budget_s))
            usual, self._silence_s = self._silence_s, math.inf
            began = time.time()
            try:
                self._run_job(course, Job([NATIVE], [probe], {}), records, ROUND_SAMPLES[0], until)
                self._start_s = time.time() - began
            except CommandError:
                if records.header or time.time() < until:
                    raise
                busy = machine.overload_warning()
                why = f" ({busy})" if busy is not None else ""
                raise CommandError(
                    f"the ranks did not start within {time.time() - began:.0f} s of a budget of "
                    f"{self._budget_s:g} s{why}; give a longer --budget",
                    FAILED,
                ) from None
            finally:
                self._silence_s = max(usual, _STARTS_OF_SILENCE * self._start_s)
                runner.path_of_partial_records(course.path).unlink(missing_ok=True)
            runner.add_header(course.benchmark, records.header)
            if course.benchmark.about.get("hosts") is None:
                raise CommandError(
                    "no job of ranks has started within the budget; give a longer --budget", FAILED
                )
        hosts = int(course.benchmark.about["hosts"])
        node_ranks = os.environ.get(_NODE_RANKS, "")
        if node_ranks.isdecimal() and int(node_ranks) > 0:
            hosts = max(hosts, math.ceil(course.ranks / int(node_ranks)))
        course.set_place(Place(vendor, course.ranks, hosts), self.rules)

    # -- rounds

    def _is_due(self, course: Course, contest: Contest, number: int) -> bool:
        if number > 0:
            course.grow(contest)
        racing = course.racing(contest)
        missing = any(
            not course.was_measured(cell, name, number) and not self._has_later(course, cell, name, number)
            for cell in contest.cells
            for name in racing
        )
        return missing and not (number > 0 and course.is_decided(contest))

    @staticmethod
    def _has_later(course: Course, cell: Cell, name: str, number: int) -> bool:
        return any(course.was_measured(cell, name, later) for later in range(number + 1, len(ROUND_SAMPLES)))

    def _run_round(self, due: Sequence[tuple[Course, Sequence[Contest]]], number: int, end: float) -> None:
        self._round = number
        samples = FINAL_SAMPLES if number == FINAL else ROUND_SAMPLES[number]
        # The jobs of offbeat's algorithms come first: they also say how late the ranks of the others are.
        queue = [work for course, contests in due for work in self._own_work(course, contests, number)]
        named = False
        while True:
            if not queue and not named:
                named = True
                queue = [w for course, contests in due for w in self._host_work(course, contests, number)]
            if not queue or time.time() + _LEAST_SHARE * self._start_s > end:
                return
            later = (
                []
                if named
                else [
                    work
                    for course, contests in due
                    for work in self._host_work(course, contests, number, any_skew=True)
                ]
            )
            costs = [self._cost_s(work, samples) for work in [*queue, *later]]
            # Most of offbeat's own algorithms are not known yet, and rules can have all of them.
            costs[: len(queue)] = [cost * (1 if named else _OWN_FIRST) for cost in costs[: len(queue)]]
            left = end - time.time()
            until = end - sum(costs[1:]) if sum(costs) < left else time.time() + left * costs[0] / sum(costs)
            if until - time.time() < _LEAST_SHARE * self._start_s:
                queue.pop(0)  # a later round has more time for it
                continue
            queue = [*self._run_work(queue.pop(0), number, samples, until), *queue]

    def _wanted(self, course: Course, contest: Contest, number: int) -> list[str]:
        """The algorithms that a round has to measure in a race."""
        if number != FINAL:
            return course.racing(contest)
        leader = course.leaders()[course.contests.index(contest)]
        names = dict.fromkeys([NATIVE, *contest.in_force, *([leader] if leader is not None else [])])
        usable = set(course.usable(contest))
        wanted = [name for name in names if name in usable]
        return wanted if leader is not None and len(wanted) > 1 else []

    @staticmethod
    def _is_measured(course: Course, cells: Sequence[Cell], names: Sequence[str], number: int) -> bool:
        return all(course.was_measured(cell, name, number) for cell in cells for name in names)

    @staticmethod
    def _in_question(work: _Work, contest: Contest, names: Sequence[str]) -> list[str]:
        """The algorithms of a job that compete in one of its races."""
        usable = work.course.usable(contest)
        return [name for name in names if name in usable and name != work.reference]

    def _own_work(self, course: Course, contests: Sequence[Contest], number: int) -> list[_Work]:
        """The jobs without names of the host's. Races with much the same algorithms share a job."""
        found: list[_Work] = []
        for contest in contests:
            wanted = self._wanted(course, contest, number)
            own = [name for name in wanted if host_algorithms.name_in(name) is None]
            if own and not self._is_measured(course, contest.cells, own, number):
                # The first job of a race finds native's time, which says how late ranks are.
                first = [NATIVE] if self._native_us(course, contest) is None and NATIVE not in own else []
                found.append(_Work(course, [contest], [*first, *own]))
        samples = FINAL_SAMPLES if number == FINAL else ROUND_SAMPLES[number]
        while len(found) > 1:
            together = [_joined(one, other) for one, other in pairwise(found)]
            costs = [self._cost_s(work, samples) for work in found]
            saved = [
                one + other - self._cost_s(both, samples) if _may_run(both) else -math.inf
                for both, one, other in zip(together, costs, costs[1:], strict=False)
            ]
            best = max(range(len(saved)), key=saved.__getitem__)
            # In the first round little is known of the costs, and few jobs are better.
            if saved[best] < (0.0 if number != 0 else -math.inf) or not _may_run(together[best]):
                break
            found[best : best + 2] = [together[best]]
        return found

    def _host_work(
        self, course: Course, contests: Sequence[Contest], number: int, *, any_skew: bool = False
    ) -> list[_Work]:
        """A job for each name of the host's, with one algorithm of offbeat's that ties it to the others.

        Races whose skew is not known yet are left out, unless ``any_skew``.
        """
        vendor = self.choice.install.vendor
        by_name: dict[str, list[Contest]] = {}
        for contest in contests:
            for name in self._wanted(course, contest, number):
                known = any_skew or self._native_us(course, contest) is not None
                if known and host_algorithms.name_in(name) is not None:
                    by_name.setdefault(name, []).append(contest)
        found = []
        for algorithm, of in by_name.items():
            missing = [c for c in of if not self._is_measured(course, c.cells, [algorithm], number)]
            variables: dict[str, str] = {}
            for contest in missing:
                call = host_algorithms.host_call_of(algorithm, contest.collective, nonblocking=False)
                name = host_algorithms.name_in(algorithm) or ""
                variables |= host_algorithms.variables(vendor, call, name)
            for reference, together in self._by_reference(course, missing).items():
                names = [algorithm] if reference is None else [algorithm, reference]
                found.append(_Work(course, together, names, reference, variables))
        return found

    def _by_reference(self, course: Course, contests: Sequence[Contest]) -> dict[str | None, list[Contest]]:
        """The races by their best algorithm that runs none of the host's collectives, one per collective."""
        chosen: dict[str, str | None] = {}
        for contest in contests:
            if contest.collective not in chosen:
                own = [name for name in course.usable(contest) if "native" not in name]
                found = course.scores(contest, own)
                chosen[contest.collective] = min(found, key=lambda n: found[n].value) if found else None
        grouped: dict[str | None, list[Contest]] = {}
        for contest in contests:
            grouped.setdefault(chosen[contest.collective], []).append(contest)
        return grouped

    @staticmethod
    def _native_us(course: Course, contest: Contest) -> float | None:
        known = course.native_us()
        cell = contest.cells[0]
        return known.get(cell.call)

    def _cost_s(self, work: _Work, samples: int) -> float:
        """How long a job takes, estimated from the times so far."""
        total = 0.0
        for contest in work.contests:
            rows = work.course.rows(contest)
            usual = self._native_us(work.course, contest) or 100.0
            for cell, row in zip(contest.cells, rows, strict=True):
                late = parse_skew(cell.skew)
                skew = (late.factor or 0.0) * usual + (late.microseconds or 0.0)
                us = sum(row[name].us if name in row else usual for name in work.algorithms)
                total += samples * (us + len(work.algorithms) * (skew + _LEAD_US)) / 1e6
        return total + self._start_s

    # -- jobs

    def _run_work(self, work: _Work, number: int, samples: int, until: float) -> list[_Work]:
        """Run a job. Returns the jobs that have to follow because it failed."""
        names = [
            name
            for name in work.algorithms
            if any(name in work.course.usable(contest) or name == NATIVE for contest in work.contests)
        ]
        cells = [
            cell
            for contest in work.contests
            for cell in contest.cells
            if not self._is_measured(work.course, [cell], self._in_question(work, contest, names), number)
        ]
        if not cells or all(name == work.reference for name in names):
            return []
        until = min(until, self._end)
        records = Records()
        dropped = len(work.course.dropped)
        again: list[_Work] = []
        began = time.time()
        work.course.begin(number)
        try:
            job = Job(names, cells, dict(work.variables))
            self._run_job(work.course, job, records, samples, until)
        except CommandError as error:
            # A job that was ended after its time is no proof of anything.
            if time.time() < until or not records.header:
                again = self._after_failure(replace(work, algorithms=names), records, str(error))
        finally:
            work.course.add(records, number, time.time() - began)
        for (collective, name), why in list(work.course.dropped.items())[dropped:]:
            self._say(f"{collective} by {name} is out of the race: {why}")
        return again

    def _run_job(self, course: Course, job: Job, records: Records, samples: int, until: float) -> None:
        racing = sum(len(course.racing(contest)) for contest in course.contests)
        total = sum(len(contest.candidates) for contest in course.contests)

        def on_change(seen: Records) -> None:
            passed = time.time() - self._began
            self._on_progress(
                Progress(passed, self._budget_s, self._round, seen.doing, course.ranks, racing, total)
            )

        runner.run_job(
            job,
            replace(course.benchmark.plan, max_iterations=samples),
            self.choice,
            records,
            until=until,
            native_us=course.native_us(),
            path=course.path,
            on_change=on_change,
            show_output=self._show_output,
            grace_s=self._grace_s,
            silence_s=self._silence_s,
        )

    def _after_failure(self, work: _Work, records: Records, why: str) -> list[_Work]:
        """Find out which algorithm made a job fail: drop it, or try each one alone."""
        course = work.course
        in_question = [name for name in work.algorithms if name not in (work.reference, NATIVE)]
        begun = records.last_begin
        culprit = begun.get("algorithm") if begun.get("what") == "check" else None
        if culprit is None and len(in_question) < 2:
            culprit = in_question[0] if in_question else NATIVE
        if culprit is None and not records.header:
            raise CommandError(why, FAILED)  # no job of this MPI starts
        collectives = {contest.collective for contest in work.contests}
        if begun:
            collectives &= {begun["collective"]}
        if culprit is not None:
            for collective in collectives:
                course.drop(collective, culprit, why)
            if culprit in (NATIVE, work.reference):
                rest = [contest for contest in work.contests if contest.collective not in collectives]
                return [replace(work, contests=rest)] if rest else []
            return [replace(work, algorithms=[name for name in work.algorithms if name != culprit])]
        suspect = [contest for contest in work.contests if contest.collective in collectives]
        others = [contest for contest in work.contests if contest.collective not in collectives]
        alone = [replace(work, contests=suspect, algorithms=[NATIVE, name]) for name in in_question]
        return alone + ([replace(work, contests=others)] if others else [])

    # -- the end

    @property
    def start_s(self) -> float:
        """How long it takes to start and end a job."""
        return self._start_s

    @property
    def seconds(self) -> float:
        """How long the tuning has run."""
        return time.time() - self._began

    def core_seconds(self) -> float:
        """What the whole tuning cost, with the sessions that it resumed."""
        return sum(course.core_seconds(machine.cpus()) for course in self.courses)


def _joined(one: _Work, other: _Work) -> _Work:
    """One job for the races of two."""
    algorithms = list(dict.fromkeys([*one.algorithms, *other.algorithms]))
    return replace(one, contests=one.contests + other.contests, algorithms=algorithms)


def _may_run(work: _Work) -> bool:
    """Whether no algorithm of a job was dropped for a collective of it. All algorithms run in all cells."""
    collectives = {contest.collective for contest in work.contests}
    return not any(
        (collective, n) in work.course.dropped for collective in collectives for n in work.algorithms
    )
