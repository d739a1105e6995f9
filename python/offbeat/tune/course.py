# SPDX-License-Identifier: BSD-3-Clause
"""What a tuning measures on one number of ranks: its races, their times so far, and the file of both.

The file is that of ``offbeat bench``, with one field more: ``tune``. It has the goal, and the medians of each
job, because a race compares algorithms within jobs (docs/how-to/tune.md).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from offbeat import _core
from offbeat.bench import results, runner
from offbeat.bench.plan import NATIVE, Call, Cell
from offbeat.bench.records import Records
from offbeat.bench.results import MEASURED, NOT_SERVED, WRONG, Benchmark, Result
from offbeat.bench.runner import add_header
from offbeat.errors import FAILED, CommandError
from offbeat.field_types import checked
from offbeat.mpi import host_algorithms
from offbeat.tune import candidates, race
from offbeat.tune.candidates import Place
from offbeat.tune.race import Estimate, Score, Timing

FINAL = -1  # the number of the round that measures the winners again
ROUND_SAMPLES = (60, 200, 600, 1000)  # samples of each algorithm in each cell, round by round
FINAL_SAMPLES = 300
_BEST_PARTS = 3  # how many plain algorithms become parts of others
_BEST_OF_HOST = 1  # how many of the host's own become parts of a grid


@dataclass(frozen=True)
class Goal:
    """What the user asked to tune."""

    objective: str  # robust, balanced or trace:FOLDER
    ranks: Sequence[int]
    algorithms: Sequence[str] | None = None  # None: those of the registry
    host_algorithms: bool = True
    rules_in_force: str | None = None  # a file that comes before the built-in rules


@dataclass
class Contest:
    """A race of algorithms of one collective: at one size, or at all if rules cannot tell sizes apart."""

    collective: str
    size_bytes: int
    cells: list[Cell]
    in_force: list[str]
    candidates: list[str]
    grown: bool = False  # whether the algorithms that are made of others are among the candidates


class Course:
    """The races on one number of ranks."""

    def __init__(self, goal: Goal, benchmark: Benchmark, path: Path) -> None:
        self.goal, self.benchmark, self.path = goal, benchmark, path
        self.contests: list[Contest] = []
        self.jobs: list[dict[str, Any]] = []
        self.place: Place | None = None
        self._timings: dict[Cell, list[Timing]] = {}
        self._rounds: dict[tuple[Cell, str], set[int]] = {}
        # The estimates as of a number of jobs; to compute them takes time from the ranks.
        self._known_rows: dict[tuple[int, bool], tuple[int, list[dict[str, Estimate]]]] = {}
        saved = benchmark.about.setdefault("tune", new_field(goal))
        for job in saved["jobs"]:
            self._add_times(job)
        self.unserved = {  # the sizes at which offbeat does not serve an algorithm
            (result.cell.collective, result.cell.size_bytes, result.algorithm)
            for result in benchmark.results
            if result.status == NOT_SERVED
        }
        self._grown = {(collective, int(size)): list(names) for collective, size, names in saved["grown"]}
        # Why nobody may use an algorithm for a collective.
        self.dropped = {(collective, name): str(why) for collective, name, why in saved["dropped"]}

    # -- setting up

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.benchmark.plan.ranks

    def set_place(self, place: Place, rules: _core.Rules | None) -> None:
        """Make the races, now that it is known where the ranks run."""
        self.place = place
        cells: dict[tuple[str, int], list[Cell]] = {}
        for cell in self.benchmark.plan.cells:
            size = cell.size_bytes if candidates.has_lengths(cell.collective) else 0
            cells.setdefault((cell.collective, size), []).append(cell)
        for (collective, _), of in cells.items():
            size = min(cell.size_bytes for cell in of)
            in_force = candidates.in_force(collective, size, place, rules)
            grown = self._grown.get((collective, size))
            others = self._first_candidates(collective, size, place) if grown is None else grown
            names = dict.fromkeys([NATIVE, *in_force, *others])
            self.contests.append(Contest(collective, size, of, in_force, list(names), grown is not None))
        self._note_plan()

    def _first_candidates(self, collective: str, size_bytes: int, place: Place) -> list[str]:
        if self.goal.algorithms is not None:
            return [name for name in self.goal.algorithms if candidates.may_run(collective, name, place)]
        own = candidates.plain(collective, place, size_bytes)
        return own + (candidates.of_host(place.vendor, collective) if self.goal.host_algorithms else [])

    def grow(self, contest: Contest) -> None:
        """Add the algorithms that are made of the best plain ones."""
        if contest.grown or self.place is None:
            return
        contest.grown = True
        if self.goal.algorithms is not None:
            return
        found = self.scores(contest, [c for c in contest.candidates if host_algorithms.name_in(c) is None])
        best = sorted(found, key=lambda name: found[name].value)
        parts = [
            name for name in best if name == NATIVE or candidates.may_be_a_part(contest.collective, name)
        ]
        named = self.scores(
            contest, [c for c in contest.candidates if host_algorithms.name_in(c) is not None]
        )
        of_host = sorted(named, key=lambda name: named[name].value)[:_BEST_OF_HOST]
        largest = max(cell.size_bytes for cell in contest.cells)
        added = candidates.compound(contest.collective, self.place, parts[:_BEST_PARTS], largest, of_host)
        contest.candidates += [name for name in added if name not in contest.candidates]
        saved = [contest.collective, contest.size_bytes, contest.candidates]
        self.benchmark.about["tune"]["grown"].append(saved)
        self._note_plan()

    def _note_plan(self) -> None:
        names = dict.fromkeys(name for contest in self.contests for name in contest.candidates)
        self.benchmark.plan = replace(self.benchmark.plan, algorithms=list(names))

    # -- measuring

    def begin(self, number: int) -> None:
        """Note beside the file to which round the results belong that a job is about to write."""
        part = runner.path_of_partial_records(self.path)
        try:
            part.write_text(json.dumps({"record": "round", "round": number}) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {part}: {error.strerror}", FAILED) from None

    def take_part(self) -> int:
        """Add the results that a killed tuning left beside the file. Returns how many there were."""
        records = runner.records_of_killed_run(self.path)
        if records is None:
            return 0
        if records.round is not None:
            self.add(records, records.round, 0.0)
        runner.path_of_partial_records(self.path).unlink(missing_ok=True)
        return len(records.results) if records.round is not None else 0

    def add(self, records: Records, number: int, seconds: float) -> None:
        """Add what a job of round ``number`` has measured, and write the file."""
        cells = [
            [*result.cell, result.algorithm, delay.median, delay.ci95_low, delay.ci95_high, result.iterations]
            for result in records.results
            if result.status == MEASURED
            for delay in [result.last_delay]
        ]
        job = {"round": number, "seconds": round(seconds, 2), "cells": cells}
        self._add_times(job)
        self.benchmark.about["tune"]["jobs"].append(job)
        for result in records.results:
            if result.status == WRONG:
                self.drop(result.cell.collective, result.algorithm, f"wrong result: {result.wrong_data}")
            elif result.status == NOT_SERVED:
                self.unserved.add((result.cell.collective, result.cell.size_bytes, result.algorithm))
        earlier = {(result.cell, result.algorithm): result for result in self.benchmark.results}
        self.benchmark.add([_joined(earlier.get((r.cell, r.algorithm)), r) for r in records.results])
        if records.header:
            add_header(self.benchmark, records.header)
        self.benchmark.seconds += seconds
        self.benchmark.write(self.path)
        runner.path_of_partial_records(self.path).unlink(missing_ok=True)

    def _add_times(self, job: dict[str, Any]) -> None:
        number = len(self.jobs)
        self.jobs.append(job)
        for *where, algorithm, median, low, high, samples in job["cells"]:
            cell = Cell(*where)
            self._rounds.setdefault((cell, algorithm), set()).add(job["round"])
            timing = race.timing(number, algorithm, median, low, high, samples)
            if timing is not None:
                self._timings.setdefault(cell, []).append(timing)

    def drop(self, collective: str, algorithm: str, why: str) -> None:
        """Use an algorithm no more, for this collective."""
        if (collective, algorithm) in self.dropped:
            return
        self.dropped[collective, algorithm] = why
        self.benchmark.about["tune"]["dropped"].append([collective, algorithm, why])

    def was_measured(self, cell: Cell, algorithm: str, number: int) -> bool:
        """Whether round ``number`` has measured an algorithm in a cell."""
        return number in self._rounds.get((cell, algorithm), ())

    def native_us(self) -> dict[Call, float]:
        """The medians of the host's calls if no rank is late, in microseconds."""
        return self.benchmark.native_us()

    # -- the state of the races

    def usable(self, contest: Contest) -> list[str]:
        """The candidates that give right results here."""
        return [
            name
            for name in contest.candidates
            if (contest.collective, name) not in self.dropped
            and not any((c.collective, c.size_bytes, name) in self.unserved for c in contest.cells)
        ]

    def rows(self, contest: Contest, *, final: bool = False) -> list[dict[str, Estimate]]:
        """The estimates in each cell: from the rounds of the race, or from the final one."""
        known = self._known_rows.get((id(contest), final))
        if known is not None and known[0] == len(self.jobs):
            return known[1]
        last = {number for number, job in enumerate(self.jobs) if job["round"] == FINAL}
        rows = [
            race.estimates([t for t in self._timings.get(cell, ()) if (t.job in last) == final])
            for cell in contest.cells
        ]
        self._known_rows[id(contest), final] = (len(self.jobs), rows)
        return rows

    def scores(self, contest: Contest, names: Collection[str], *, final: bool = False) -> dict[str, Score]:
        """The scores of those of the algorithms that were measured in all cells."""
        return race.scores(self.rows(contest, final=final), names)

    def racing(self, contest: Contest) -> list[str]:
        """The candidates that are not behind. ``native`` counts as any other."""
        usable = self.usable(contest)
        tests = self._tests(contest)
        found = self.scores(contest, usable)
        in_rules = {name: found[name] for name in found if self.may_be_in_rules(contest, name)}
        # Only algorithms that rules may have can keep one of these out of the rules.
        gone = race.behind(found, tests) - set(in_rules) | race.behind(in_rules, tests)
        return [name for name in usable if name not in gone]

    def may_be_in_rules(self, contest: Contest, name: str) -> bool:
        """Whether a rule may have an algorithm."""
        return self.place is not None and candidates.in_rules(self.place.vendor, contest.collective, name)

    def _tests(self, contest: Contest) -> int:
        return len(contest.candidates) * len(ROUND_SAMPLES)

    def leaders(self) -> list[str | None]:
        """The winner of each race so far. None if nothing was measured in all of its cells."""
        found: list[str | None] = []
        for number, contest in enumerate(self.contests):
            is_next = number > 0 and self.contests[number - 1].collective == contest.collective
            found.append(self.leader(contest, found[-1] if is_next else None))
        return found

    def leader(self, contest: Contest, neighbour: str | None, *, final: bool = False) -> str | None:
        """The choice of a race so far, of the algorithms that rules may have."""
        names = [name for name in self.usable(contest) if self.may_be_in_rules(contest, name)]
        found = self.scores(contest, names, final=final)
        return race.choose(found, NATIVE, contest.in_force, neighbour) if found else None

    def measured_of_wanted(self) -> tuple[int, int]:
        """How many pairs of a cell and a candidate have a time, and how many pairs there are."""
        pairs = [(cell, name) for each in self.contests for cell in each.cells for name in each.candidates]
        return sum(pair in self._rounds for pair in pairs), len(pairs)

    def is_decided(self, contest: Contest) -> bool:
        """Whether more samples would change nothing that matters."""
        racing = self.racing(contest)
        found = self.scores(contest, racing)
        if len(found) < len(racing) or not found:
            return False
        mine = {name: found[name] for name in found if self.may_be_in_rules(contest, name)}
        if not mine:
            return True
        chosen = race.choose(mine, NATIVE, contest.in_force, None)
        return race.is_decided(mine, chosen, self._tests(contest))

    def core_seconds(self, cpus: int) -> float:
        """What the measurements cost: the time of the jobs, times the cores that their ranks used."""
        hosts = self.benchmark.about.get("hosts") or 1
        return sum(float(job["seconds"]) for job in self.jobs) * min(self.ranks, cpus * int(hosts))


def _joined(earlier: Result | None, new: Result) -> Result:
    """One result with the samples of both. A result that is not measured counts alone."""
    if earlier is None or earlier.status != MEASURED or new.status != MEASURED:
        return new
    return replace(
        new,
        on_time=earlier.on_time and new.on_time,
        last_delays_us=[*earlier.last_delays_us, *new.last_delays_us],
        total_delays_us=[*earlier.total_delays_us, *new.total_delays_us],
    )


# -- files


def new_field(goal: Goal, jobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A value for the field ``tune`` of a result file."""
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(goal).items()}
    return {"goal": plain, "jobs": list(jobs), "dropped": [], "grown": []}


def path_for(path: Path, ranks: int, all_ranks: Sequence[int]) -> Path:
    """The file for one number of ranks. With several numbers each file has its own in its name."""
    return path if len(all_ranks) == 1 else path.with_name(f"{path.stem}-n{ranks}{path.suffix}")


def files_of(path: Path) -> list[Path]:
    """The files of the tuning that ``path`` names: itself, or one for each number of ranks."""
    if path.exists():
        return [path]
    found = path.parent.glob(f"{path.stem}-n*{path.suffix}")
    numbered = {int(n): each for each in found if (n := each.stem[len(path.stem) + 2 :]).isdigit()}
    if not numbered:
        raise CommandError(f"there is no {path} to resume, nor one for a number of ranks")
    return [numbered[ranks] for ranks in sorted(numbered)]


def read(path: Path) -> Course:
    """The races of a file, to go on with. Raises CommandError if it is not a file of a tuning."""
    benchmark = results.read(path)
    saved = benchmark.about.get("tune")
    if not isinstance(saved, dict):
        raise CommandError(f"{path} is a file of offbeat bench, not of offbeat tune")
    try:
        return Course(checked(Goal(**saved["goal"])), benchmark, path)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CommandError(f"{path} is damaged: its field tune: {error}") from None
