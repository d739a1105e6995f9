# SPDX-License-Identifier: BSD-3-Clause
"""A made-up MPI for offbeat tune: jobs that take no time and measure what a table of true delays says."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes import benchmark_of, result_of
from offbeat.bench import runner
from offbeat.bench.plan import Cell, Job, Plan
from offbeat.bench.records import Records
from offbeat.bench.results import NOT_SERVED, WRONG, Benchmark, Result, WrongData
from offbeat.errors import CommandError
from offbeat.expressions import serves
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice
from offbeat.mpi.install import MpiInstall
from offbeat.tune.course import Course, Goal
from offbeat.tune.tuning import Tuning
from offbeat.units import Skew

ABOUT = benchmark_of().about
Truth = Callable[[Cell, str], float]  # the median last delay of an algorithm in a cell, in us


def install(vendor: str = "Open MPI") -> MpiInstall:
    family = "openmpi" if vendor == "Open MPI" else "mpich"
    return MpiInstall(vendor, "5.0.11", family, Path("/l"), Path("/m"), Path("/p"))


@dataclass
class MadeBench:
    """Stands in for the ranks of a job."""

    truth: Truth
    wrong: Collection[str] = ()
    unserved: Collection[str] = ()
    hosts: int = 1
    noise: float = 0.02
    drift: float = 0.0  # a job may be slower as a whole by up to this
    crash_in_check: Collection[str] = ()  # names, or a collective and a name
    crash_in_measure: Collection[str] = ()
    crashes: int = 0
    jobs: list[tuple[Job, int]] = field(default_factory=list)  # with the samples that were asked for
    random: random.Random = field(default_factory=lambda: random.Random(7))

    def run_job(
        self, job: Job, plan: Plan, choice: Choice, records: Records, *, until: float, **others: Any
    ) -> None:
        self.jobs.append((job, plan.max_iterations))
        records.header = {"hosts": self.hosts, "cpus": [], "clock_residual_ns": 0.0}
        slower = 1 + self.drift * self.random.random()
        for cell in job.cells:
            names = [name for name in job.algorithms if self._is_accepted(name, cell.collective)]
            for what, crashing in (("check", self.crash_in_check), ("measure", self.crash_in_measure)):
                for name in names:
                    records.last_begin = {
                        "what": what,
                        "collective": cell.collective,
                        "algorithm": name if what == "check" else "",
                    }
                    if name in crashing or f"{cell.collective} {name}" in crashing:
                        self.crashes += 1
                        raise CommandError("the benchmark job ended with exit code 139", 1)
            records.results += [self._result(cell, name, plan.max_iterations, slower) for name in names]
        records.ended = True

    @staticmethod
    def _is_accepted(name: str, collective: str) -> bool:
        return host_algorithms.is_native(name) or serves(name, collective)

    def _result(self, cell: Cell, name: str, samples: int, slower: float) -> Result:
        where: dict[str, Any] = {
            "collective": cell.collective,
            "size": cell.size_bytes,
            "pattern": cell.pattern,
        }
        if name in self.wrong:
            return result_of(
                name, status=WRONG, wrong_data=WrongData(1, 0, 0, 1.0, 2.0), skew=cell.skew, **where
            )
        if name in self.unserved:
            return result_of(name, status=NOT_SERVED, skew=cell.skew, **where)
        off = 1 + self.noise * (self.random.random() - 0.5) / samples**0.5
        median = self.truth(cell, name) * slower * off
        return result_of(name, median, spread=self.noise, count=samples, skew=cell.skew, **where)

    def samples_of(self, algorithm: str) -> int:
        """How many samples of an algorithm were asked for, over all jobs, times the cells."""
        return sum(samples * len(job.cells) for job, samples in self.jobs if algorithm in job.algorithms)


def tuned(
    monkeypatch: pytest.MonkeyPatch,
    bench: MadeBench,
    path: Path,
    *,
    collectives: Sequence[str] = ("allreduce",),
    sizes: Sequence[int] = (8, 1024),
    ranks: int = 4,
    patterns: Sequence[str] = ("balanced", "ascending", "random"),
    algorithms: Sequence[str] | None = None,
    vendor: str = "Open MPI",
    budget_s: float = 60.0,
    said: list[str] | None = None,
    course: Course | None = None,
) -> Course:
    """Run a tuning on a made-up bench."""
    monkeypatch.setattr(runner, "run_job", bench.run_job)
    monkeypatch.delenv("OFFBEAT_NODE_RANKS", raising=False)
    if course is None:
        course = new_course(path, collectives, sizes, ranks, patterns, algorithms)
    choice = Choice(install(vendor), "why")
    Tuning([course], choice, budget_s, None, say=(said if said is not None else []).append).run()
    return course


def new_course(
    path: Path,
    collectives: Sequence[str] = ("allreduce",),
    sizes: Sequence[int] = (8, 1024),
    ranks: int = 4,
    patterns: Sequence[str] = ("balanced", "ascending", "random"),
    algorithms: Sequence[str] | None = None,
) -> Course:
    plan = Plan(ranks, sizes, ["native"], patterns, (Skew(factor=1.0),), collectives)
    about = {**ABOUT, "binding": {}}
    return Course(Goal("robust", [ranks], algorithms), Benchmark(plan, about), path)


def table(delays: Mapping[str, float], otherwise: float) -> Truth:
    """The same delays in every cell."""
    return lambda cell, name: delays.get(name, otherwise)
