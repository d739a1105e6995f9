# SPDX-License-Identifier: BSD-3-Clause
"""Choose algorithms for machines that nobody has measured: models prune the candidates, simulation decides.

A *question* is one collective and size on a group of numbers of nodes, which get one rule. An algorithm is
chosen only if it beats the host MPI on every machine and number of nodes of the question: there its mean last
delay over the arrival patterns is less than the host's by a margin, and under no pattern more by as much.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from statistics import fmean, median
from typing import NamedTuple

from offbeat.bench import arrival_patterns
from offbeat.bench.ranking import BALANCED
from offbeat.rules.spelling import counts_text
from offbeat.simulate.hosts import Phase, Phases, Place, TooLongError
from offbeat.simulate.machine import Machine
from offbeat.simulate.simulation import Shape
from offbeat.tune import simulated_candidates, workers
from offbeat.units import format_size

# An algorithm that a model puts further behind the best one, or behind the hosts, is not simulated.
_MODEL_ERROR = 1.1
_LEAST_US = 1e-3
_MANY_RANKS = 8192  # with more, a simulation takes seconds, so few algorithms are simulated
_MOST_OF_A_STRUCTURE = {"hierarchy": 1, "lanes": 1, "flat": 2}  # how many then; flat ones ignore nodes


class _Shortlist(NamedTuple):
    """Limits which algorithms are simulated under all patterns, by their times if no rank is late."""

    may_be_slower: float  # the largest ratio to the best time
    most: int


_SHORTLIST = _Shortlist(1.1, 4)
_SHORTLIST_OF_MANY_RANKS = _Shortlist(1.05, 2)


@dataclass(frozen=True)
class Terms:
    """What all questions of a tuning share."""

    machines: Sequence[Machine]
    hosts: Sequence[str]
    patterns: Sequence[str]
    skew: float = 1.0  # times the mean of the hosts' times if no rank is late
    margin: float = 0.05
    draws: int = 1
    seed: int = 1
    algorithms: Sequence[str] | None = None  # None: all that offbeat has


@dataclass(frozen=True)
class Question:
    """A collective and a size, on numbers of nodes that get one rule."""

    collective: str
    size_bytes: int
    nodes: tuple[int, int]  # the range of the rule
    ppn: int
    simulated_nodes: tuple[int, ...]  # those that stand for the range

    def shapes(self) -> list[Shape]:
        """The shapes that are simulated."""
        return [Shape(nodes, self.ppn) for nodes in self.simulated_nodes]

    def __str__(self) -> str:
        size = format_size(self.size_bytes)
        return f"{self.collective}, {size}, {counts_text(*self.nodes)} nodes x {self.ppn}"


@dataclass(frozen=True)
class Standing:
    """How an algorithm compares with one host, over all machines and numbers of nodes."""

    of_host: float  # its last delay divided by the host's: the geometric mean of all
    worst: float  # the greatest mean over patterns on one machine and number of nodes


@dataclass
class Answer:
    """What the simulations of a question say."""

    question: Question
    scores: dict[str, float] = field(default_factory=dict)  # of the algorithms that were simulated to the end
    # By host, then by algorithm, without those that the host beats by the margin in any trial.
    standings: dict[str, dict[str, Standing]] = field(default_factory=dict)
    simulations: int = 0

    def better(self, host: str, margin: float) -> list[str]:
        """The algorithms that beat a host everywhere, best first."""
        found = [
            name for name, standing in self.standings.get(host, {}).items() if standing.worst <= 1 - margin
        ]
        return sorted(found, key=lambda name: self.scores[name])


def node_groups(least: int, most: int) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """Divide a range of numbers of nodes, each part with the numbers that stand for it.

    Powers of two are by themselves: there the algorithms of the hosts are at their best. Between
    two of them the first number needs most folding, and the last one has most steps.
    """
    found = []
    while least <= most:
        power = 1 << (least - 1).bit_length()
        end = least if least == power else min(power - 1, most)
        found.append(((least, end), tuple(sorted({least, (least + end) // 2, end}))))
        least = end + 1
    return found


class _Trial:
    """The simulations of one question on one machine with one number of nodes."""

    def __init__(self, terms: Terms, question: Question, machine: Machine, shape: Shape) -> None:
        self._terms, self._question = terms, question
        self.place = Place(machine, shape)
        self._us: dict[tuple[Phases, str], float] = {}  # by algorithm and pattern
        # A shorter delay counts as one latency: a late root may find all done, so that nothing remains.
        latencies = [machine.within_node[0].latency_us, machine.between_nodes[0].latency_us]
        self._least_us = max(min(latencies), _LEAST_US)
        self.simulations = 0
        balanced = [self.host_us(host, BALANCED) for host in terms.hosts]
        self._skew_us = terms.skew * fmean(balanced) if balanced else 0.0

    def us(self, algorithm: str, pattern: str, most_us: float = math.inf) -> float:
        """The last delay of an offbeat algorithm. If it exceeds ``most_us``, the result may be infinite."""
        return self._phases_us((Phase("all", self._question.collective, algorithm),), pattern, most_us)

    def host_us(self, host: str, pattern: str) -> float:
        """The last delay of a host: that of its fastest alternative."""
        alternatives = self.place.default_algorithm(
            host, self._question.collective, self._question.size_bytes
        )
        return min((self._phases_us(phases, pattern) for phases in alternatives), default=math.inf)

    def _phases_us(self, phases: Phases, pattern: str, most_us: float = math.inf) -> float:
        key = phases, pattern
        if key not in self._us:
            us = self._simulate(phases, pattern, most_us)
            if us > most_us:
                return us
            self._us[key] = us
        return self._us[key]

    def _simulate(self, phases: Phases, pattern: str, most_us: float) -> float:
        ranks = self.place.shape.ranks
        if pattern == BALANCED:
            seen, rounds = None, [[0.0] * ranks]
        else:
            drawn = f"{pattern}({self.place.shape.ranks_per_node})" if pattern == "node_late" else pattern
            some = arrival_patterns.rounds(drawn, ranks, self._terms.seed, self._terms.draws + 1)
            seen, *rounds = [[self._skew_us * late for late in row] for row in some]
            rounds = rounds or [seen]  # a pattern that is not random has one round
        try:
            delays = self.place.simulate_last_delays_us(
                phases, self._question.size_bytes, rounds, seen, most_us
            )
        except TooLongError:
            return math.inf
        self.simulations += len(delays)
        return max(median(delays), self._least_us)


def answer(terms: Terms, question: Question) -> Answer:
    """Simulate what may win, and compare it with the hosts."""
    found = Answer(question)
    trials = [
        _Trial(terms, question, machine, shape) for shape in question.shapes() for machine in terms.machines
    ]
    balanced = _balanced(terms, question, trials)
    names = sorted(balanced, key=lambda name: _mean_log(balanced[name]))
    if names:
        shortlist = _shortlist(trials)
        limit = _mean_log(balanced[names[0]]) + math.log(shortlist.may_be_slower)
        names = [name for name in names if _mean_log(balanced[name]) <= limit][: shortlist.most]
    for host in terms.hosts:
        standings = {name: _standing(terms, trials, name, host) for name in names}
        found.standings[host] = {name: each for name, each in standings.items() if each is not None}
    for name in names:
        found.scores[name] = fmean(
            trial.us(name, pattern) / min(trial.us(other, pattern) for other in names)
            for trial in trials
            for pattern in terms.patterns
        )
    found.simulations = sum(trial.simulations for trial in trials)
    return found


def _balanced(terms: Terms, question: Question, trials: Sequence[_Trial]) -> dict[str, list[float]]:
    """The times if no rank is late of the algorithms that are nowhere further than the margin behind a host.

    Those that cannot get onto the shortlist may be missing.
    """
    found: dict[str, list[float]] = {}
    best = math.inf
    simulated = Counter[str]()
    has_many_ranks = _has_many_ranks(trials)
    for name, models in _ordered(terms, question, trials):
        if has_many_ranks and name not in simulated_candidates.NODE_AWARE:
            head = name.partition("(")[0]
            structure = head if head in ("hierarchy", "lanes") else "flat"
            simulated[structure] += 1
            if simulated[structure] > _MOST_OF_A_STRUCTURE[structure]:
                continue
        # The models are of machines without handshakes, so they are rather too low: a bound.
        if models and _mean_log(models) > best + math.log(_MODEL_ERROR):
            continue
        alive = set(terms.hosts)
        limit = best + math.log(_shortlist(trials).may_be_slower)
        times: list[float] = []
        for k, trial in enumerate(trials):
            hosts_us = {host: trial.host_us(host, BALANCED) for host in alive}
            most_us = (1 + terms.margin) * max(hosts_us.values(), default=math.inf)
            if models and models[k] > _MODEL_ERROR * most_us:
                alive = set()
            else:
                if k == len(trials) - 1:
                    most_us = min(most_us, math.exp(len(trials) * limit - sum(math.log(us) for us in times)))
                times.append(trial.us(name, BALANCED, most_us))
                alive = {host for host in alive if times[-1] <= (1 + terms.margin) * hosts_us[host]}
            if not alive:
                break
        if alive:
            found[name] = times
            best = min(best, _mean_log(times))
    return found


def _shortlist(trials: Sequence[_Trial]) -> _Shortlist:
    return _SHORTLIST_OF_MANY_RANKS if _has_many_ranks(trials) else _SHORTLIST


def _has_many_ranks(trials: Sequence[_Trial]) -> bool:
    return max(trial.place.shape.ranks for trial in trials) > _MANY_RANKS


def _mean_log(times: Sequence[float]) -> float:
    return fmean(map(math.log, times))


def _standing(terms: Terms, trials: Sequence[_Trial], name: str, host: str) -> Standing | None:
    """How an algorithm compares with a host. None if the host is faster by the margin in any trial."""
    ratios: list[list[float]] = []
    for trial in trials:
        ratios.append([])
        for pattern in terms.patterns:
            ratios[-1].append(trial.us(name, pattern) / trial.host_us(host, pattern))
            if ratios[-1][-1] > 1 + terms.margin:
                return None
    logs = [math.log(max(ratio, 1e-9)) for row in ratios for ratio in row]
    return Standing(math.exp(fmean(logs)), max(fmean(row) for row in ratios))


def _ordered(terms: Terms, question: Question, trials: Sequence[_Trial]) -> list[tuple[str, list[float]]]:
    """The candidates with their times by models, fastest first; those without a model come last."""
    if terms.algorithms is not None:
        return [
            (name, [])
            for name in terms.algorithms
            if all(trial.place.can_run(question.collective, name) for trial in trials)
        ]
    models: dict[str, list[float]] = {}
    unknown: dict[str, int] = {}
    for trial in trials:
        known = simulated_candidates.simulated(question.collective, trial.place.shape, question.size_bytes)
        for name, of in known.items():
            if not trial.place.can_run(question.collective, name):
                continue
            us = simulated_candidates.model_us(trial.place.machine, question.collective, of)
            if us is None:
                unknown[name] = unknown.get(name, 0) + 1
            else:
                models.setdefault(name, []).append(us)
    whole = {name: times for name, times in models.items() if len(times) == len(trials)}
    ordered = sorted(whole.items(), key=lambda item: _mean_log(item[1]))
    return [*ordered, *((name, []) for name, count in unknown.items() if count == len(trials))]


def _longest_first(questions: Sequence[Question]) -> list[Question]:
    """Sort so that no core is left with a long simulation at the end.

    Questions with the most ranks come first. With many ranks, the longest vectors take longest, and the
    shortest ones, for which all ranks of a node send. So sizes are taken from both ends in turn.
    """
    by_ranks: dict[int, list[Question]] = {}
    for question in sorted(questions, key=lambda q: -q.size_bytes):
        by_ranks.setdefault(max(question.simulated_nodes) * question.ppn, []).append(question)
    found = []
    for _, some in sorted(by_ranks.items(), reverse=True):
        ends = zip(some, reversed(some), strict=True)
        found += list(dict.fromkeys(chain.from_iterable(ends)))
    return found


def answers(
    terms: Terms,
    questions: Sequence[Question],
    on_progress: Callable[[Answer, int], None],
    processes: int = 0,
    budget_s: float | None = None,
) -> list[Answer]:
    """Answer the questions on all cores. The order of the answers is that of the questions.

    With a budget, those with the fewest ranks come first, and those that it is too short for get no answer.
    """
    count = processes or len(os.sched_getaffinity(0))
    found: dict[Question, Answer] = {}

    def take(result: Answer) -> None:
        found[result.question] = result
        on_progress(result, len(found))

    if budget_s is not None:
        ordered = sorted(questions, key=lambda each: max(each.simulated_nodes) * each.ppn)
        workers.apply(partial(answer, terms), ordered, take, count, budget_s)
    elif count == 1 or len(questions) == 1:
        for question in questions:
            take(answer(terms, question))
    else:
        workers.apply(partial(answer, terms), _longest_first(questions), take, count)
    return [found[question] for question in questions if question in found]


def without_part_answers(
    found: Sequence[Answer], questions: Sequence[Question]
) -> tuple[list[Answer], list[Question]]:
    """The answers to whole groups, which have one for each size, and the questions of the other groups."""

    def group(question: Question) -> tuple[str, int, tuple[int, int]]:
        return question.collective, question.ppn, question.nodes

    answered = {each.question for each in found}
    open_groups = {group(each) for each in questions if each not in answered}
    return (
        [each for each in found if group(each.question) not in open_groups],
        [each for each in questions if group(each) in open_groups],
    )
