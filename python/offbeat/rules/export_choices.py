# SPDX-License-Identifier: BSD-3-Clause
"""Choose the best of the host's own algorithms for each cell of a benchmark.

The choice is between ``native``, the host's own decision, and each ``native(NAME)`` that was measured.
offbeat's algorithms do not take part, because the exports are for programs that run without offbeat.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from offbeat.bench import results
from offbeat.bench.ranking import BALANCED, scores_of_times
from offbeat.bench.results import FEW_SAMPLES, MEASURED, Benchmark
from offbeat.bench.samples import Delay
from offbeat.errors import CommandError
from offbeat.mpi import host_algorithms

ROBUST = "robust"
OBJECTIVES = (ROBUST, BALANCED)
_CACHE_LINE_BYTES = 64  # shorter calls take as long as one byte does
TIE = 0.03  # the host's own decision wins unless a named algorithm is better by more than this
VENDORS = {"openmpi": "Open MPI", "mpich": "MPICH", "intel": "Intel MPI"}
# Variables that make `native` something else than the host's own decision.
_DISTURBING_VARIABLES = re.compile(
    r"OMPI_MCA_coll_.*|I_MPI_(ADJUST|TUNING|COLL)_.*|MPIR_CVAR_.*COLL_SELECTION_.*"
    r"|MPIR_CVAR_.*_(INTRA_ALGORITHM|DEVICE_COLLECTIVE|COMPOSITION|KVAL)"
)


@dataclass(frozen=True)
class Choice:
    """The best algorithm at one size of one collective."""

    size_bytes: int  # as `offbeat bench` counts it: of the vector, or of one block
    name: str | None  # the NAME in native(NAME); None: the host's own decision is best
    near: str | None = None  # if that is best: the best named algorithm, if it is as good
    gain: float = 1.0  # the score of the host's own decision divided by that of the best algorithm


@dataclass(frozen=True)
class Band:
    """A range of sizes with one choice. Both ends belong to it."""

    least: int
    most: int
    name: str | None


@dataclass(frozen=True)
class Table:
    """All choices for one number of ranks."""

    ranks: int
    choices: Mapping[str, Sequence[Choice]]  # by collective, in ascending order of size
    mpirun_arguments: Sequence[str] = ()
    hosts: int = 1

    def without(self, dropped: Mapping[tuple[str, int], bool]) -> Table:
        """The table in which the host decides by itself in some cells, named by collective and size.

        The value of a cell says whether its algorithm is as good as the host's decision.
        """
        kept = {
            collective: [_dropped(each, dropped.get((collective, each.size_bytes))) for each in choices]
            for collective, choices in self.choices.items()
        }
        return Table(self.ranks, kept, self.mpirun_arguments, self.hosts)

    @property
    def has_names(self) -> bool:
        """Whether a named algorithm is best anywhere."""
        return any(each.name is not None for choices in self.choices.values() for each in choices)


def _dropped(choice: Choice, is_as_good: bool | None) -> Choice:
    if is_as_good is None:
        return choice
    return Choice(choice.size_bytes, None, near=choice.name if is_as_good else None)


def read(path: Path, to: str) -> Benchmark:
    """Read a file of ``offbeat bench``. Raises CommandError if it cannot be exported to a host."""
    found = results.read(path)
    vendor = found.about["mpi"]["vendor"]
    if vendor != VENDORS[to]:
        raise CommandError(f"{path} was measured under {vendor}, so it cannot be exported to {VENDORS[to]}")
    if found.plan.computing is not None:
        raise CommandError(f"{path} has non-blocking calls; exports are for blocking ones")
    environment = found.about.get("environment") or {}
    if (name := disturbing_variable(environment)) is not None:
        raise CommandError(
            f"{path} was measured with {name}={environment[name]}, so its `native` is not the default of "
            f"{vendor}; measure again without this variable"
        )
    if not any(host_algorithms.is_native(a) and a != "native" for a in found.plan.algorithms):
        raise CommandError(
            f"{path} has no algorithm of {vendor} by name; measure some, such as "
            f"offbeat bench --algorithms 'native({_example(vendor, found.plan.collectives)})'"
        )
    return found


def disturbing_variable(environment: Mapping[str, str]) -> str | None:
    """A variable that changes the host's own decision, or None."""
    return next((name for name in environment if _DISTURBING_VARIABLES.fullmatch(name)), None)


def _example(vendor: str, collectives: Sequence[str]) -> str:
    names = [name for each in collectives for name in host_algorithms.known_names(vendor, each)]
    return names[0] if names else "NAME"


def table(benchmark: Benchmark, objective: str) -> Table:
    """The best choice in each cell of a benchmark."""
    wrong = {(r.cell.collective, r.algorithm) for r in benchmark.results if r.wrong_data is not None}
    delays: dict[tuple[str, int], dict[tuple[Any, ...], dict[str, Delay]]] = {}
    for result in benchmark.results:
        collective, size, pattern, *_ = result.cell
        is_used = host_algorithms.is_native(result.algorithm) and (collective, result.algorithm) not in wrong
        if result.status != MEASURED or not is_used or (objective == BALANCED and pattern != BALANCED):
            continue
        if result.iterations >= FEW_SAMPLES and _is_positive(result.last_delay):
            rows = delays.setdefault((collective, size), {})
            rows.setdefault(result.cell[2:], {})[result.algorithm] = result.last_delay
    choices: dict[str, list[Choice]] = {}
    for (collective, size), by_pattern in sorted(delays.items()):
        choice = _best_choice(size, list(by_pattern.values()))
        if choice is not None:
            choices.setdefault(collective, []).append(choice)
    return Table(
        benchmark.plan.ranks,
        choices,
        tuple(benchmark.plan.mpirun_arguments),
        int(benchmark.about.get("hosts") or 1),
    )


def _is_positive(delay: Delay) -> bool:
    return delay.ci95_low > 0 and all(map(math.isfinite, (delay.median, delay.ci95_low, delay.ci95_high)))


def _best_choice(size: int, rows: Sequence[Mapping[str, Delay]]) -> Choice | None:
    """The choice by the delays under each pattern; None if the host's own decision was not measured."""
    scores = scores_of_times([{name: delay.median for name, delay in row.items()} for row in rows])
    named = {name: score for name, score in scores.items() if name != "native"}
    if "native" not in scores:
        return None
    if not named:
        return Choice(size, None)
    best = min(named, key=named.__getitem__)
    gain = scores["native"] / named[best]
    name = host_algorithms.name_in(best)
    # The least that the algorithm gains if both medians are at the worse ends of their intervals.
    worst = [{"native": row["native"].ci95_low, best: row[best].ci95_high} for row in rows]
    sure = scores_of_times(worst)
    if gain > 1 + TIE and sure["native"] > sure[best]:
        return Choice(size, name, gain=gain)
    return Choice(size, None, near=name if gain >= 1 / (1 + TIE) else None)


def bands(choices: Sequence[Choice]) -> list[Band]:
    """The ranges of sizes with equal choices, which end as those of the rules of ``offbeat tune`` do.

    Two choices meet at the geometric mean of their sizes. The first range begins at half of the least size,
    or at 0 if that size is at most one cache line. The last one ends at twice the greatest size.
    """
    sizes = [choice.size_bytes for choice in choices]
    begins = [0 if sizes[0] <= _CACHE_LINE_BYTES else -(-sizes[0] // 2)]
    begins += [math.isqrt(one * other - 1) + 1 for one, other in pairwise(sizes)]
    found: list[Band] = []
    for begin, end, choice in zip(begins, [*begins[1:], 2 * sizes[-1] + 1], choices, strict=True):
        if found and found[-1].name == choice.name:
            found[-1] = Band(found[-1].least, end - 1, choice.name)
        else:
            found.append(Band(begin, end - 1, choice.name))
    return found


def best_at_all_sizes(choices: Sequence[Choice]) -> str | None:
    """The named algorithm that is best at every size that was measured, or None."""
    names = {choice.name for choice in choices}
    return next(iter(names)) if len(names) == 1 else None
