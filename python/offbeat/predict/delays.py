# SPDX-License-Identifier: BSD-3-Clause
"""Read the last delays in a file of ``offbeat bench`` or ``offbeat simulate``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.bench import arrival_patterns, results
from offbeat.bench.plan import NO_SKEW
from offbeat.bench.samples import is_unsure
from offbeat.errors import CommandError
from offbeat.simulate import simulation
from offbeat.units import format_count, format_size

_DRAWS_FOR_SHAPE = 64  # how many draws give the usual shape of a pattern that is drawn anew for each call

# Predictions extend to sizes up to 4 times smaller or larger than the measured ones.
NEAR_FACTOR = 4


@dataclass(frozen=True)
class Curve:
    """A time as a function of the size.

    It is linear between two measured sizes, grows in proportion above the largest, and is constant below the
    smallest.
    """

    bytes: Floats
    microseconds: Floats

    def __call__(self, size: Any) -> Floats:
        """The time at ``size``, in microseconds."""
        times = np.interp(size, self.bytes, self.microseconds)
        above = np.asarray(size, dtype=np.float64) / max(float(self.bytes[-1]), 1.0)
        return np.asarray(times * np.maximum(above, 1.0))

    @classmethod
    def of(cls, pairs: Mapping[int, float]) -> Curve:
        """The curve through times in microseconds, by size in bytes."""
        sizes = sorted(pairs)
        return cls(np.array(sizes, dtype=np.float64), np.array([pairs[size] for size in sizes]))


@dataclass(frozen=True)
class Arrival:
    """One arrival pattern with its skew, and what each algorithm took under it."""

    pattern: str
    skew: str  # its label, such as 1x or 100us
    shape: Floats | None  # how late each rank is, as a fraction of the skew; None: no rank is late
    shape_is_sorted: bool  # each call has other late ranks, so the shape is sorted by lateness
    skew_us: Curve
    delays: Mapping[str, Curve]  # by algorithm

    def __str__(self) -> str:
        return self.pattern if self.shape is None else f"{self.pattern} ({self.skew})"


@dataclass(frozen=True)
class Delays:
    """All delays in a file for one number of ranks."""

    path: Path
    ranks: int
    source: str  # where the delays are from: an MPI and a machine, or a simulated machine
    mpi: str | None  # None: the delays are simulated
    by_collective: Mapping[str, Sequence[Arrival]]  # those of one collective have equal algorithms and sizes
    notes: Sequence[str]  # for the user: what is doubtful or not used
    # Collectives, sizes and algorithms whose delays can hardly be compared with native's (`?` in the tables).
    unsure: frozenset[tuple[str, int, str]] = frozenset()

    def sizes(self, collective: str) -> list[int]:
        """The measured sizes in ascending order."""
        return [int(size) for size in self.by_collective[collective][0].skew_us.bytes]

    def knows(self, collective: str, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ``sizes`` are near enough to the measured ones for a prediction."""
        measured = self.sizes(collective)
        return np.asarray((NEAR_FACTOR * sizes >= measured[0]) & (sizes <= NEAR_FACTOR * measured[-1]))

    def algorithms(self, collective: str) -> list[str]:
        """The algorithms of a collective."""
        return list(self.by_collective[collective][0].delays)


class _MeasuredDelay(NamedTuple):
    """One result of a benchmark or a simulation."""

    collective: str
    size_bytes: int
    pattern: str
    skew: str
    algorithm: str
    skew_us: float
    delay_us: float


def read(path: Path, ranks: int, hosts: int) -> Delays:
    """Read the delays for a program with ``ranks`` ranks on ``hosts`` hosts.

    Raises CommandError if the file has no results for that number of ranks.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{path} is not a file of offbeat bench or simulate: it is not JSON") from None
    kind = document.get("format") if isinstance(document, dict) else None
    try:
        if kind == results.FORMAT:
            return _delays_of_benchmark(path, ranks)
        if kind == simulation.FORMAT:
            return _delays_of_simulation(path, document, ranks, hosts)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise CommandError(f"{path} is damaged: it is not what {kind} writes") from None
    raise CommandError(f"{path} is not a file of offbeat bench --json or offbeat simulate --json")


def _delays_of_benchmark(path: Path, ranks: int) -> Delays:
    benchmark = results.read(path)
    plan, about = benchmark.plan, benchmark.about
    if plan.computing is not None:
        raise CommandError(f"{path} has non-blocking calls: measure blocking ones, without --computing")
    if plan.ranks != ranks:
        raise CommandError(
            f"{path} has {format_count(plan.ranks, 'rank')}, the trace has {ranks}: offbeat bench -n {ranks}"
        )
    lines = [
        _MeasuredDelay(*result.cell[:4], result.algorithm, result.skew_us, result.last_delay.median)
        for result in benchmark.results
        if result.status == results.MEASURED and not result.cell.variant
    ]
    recorded = {name: each["mean"] for name, each in about.get("patterns", {}).items()}
    machine, mpi = about["machine"], f"{about['mpi']['vendor']} {about['mpi']['version']}"
    source = f"{mpi} on {machine['host']} ({machine['processor']})"
    found = _delays_by_collective(path, lines, _Shapes(path, ranks, plan.seed, recorded), source, mpi)
    found = replace(found, unsure=_unsure(benchmark))
    late = sum(not result.on_time for result in benchmark.results)
    if not late:
        return found
    every = format_count(len(benchmark.results), "result")
    busy = (
        f"in {late} of {every} of {path} the ranks rarely arrived as the pattern says (shared or busy "
        "cores): such delays are uncertain"
    )
    return replace(found, notes=[busy, *found.notes])


def _unsure(benchmark: results.Benchmark) -> frozenset[tuple[str, int, str]]:
    measured = [each for each in benchmark.results if each.status == results.MEASURED]
    native = {each.cell: each.last_delay for each in measured if each.algorithm == "native"}
    return frozenset(
        (each.cell.collective, each.cell.size_bytes, each.algorithm)
        for each in measured
        if each.cell in native and is_unsure(native[each.cell], each.last_delay)
    )


def _delays_of_simulation(path: Path, document: Mapping[str, Any], ranks: int, hosts: int) -> Delays:
    if document["version"] != simulation.VERSION:
        raise CommandError(
            f"{path} has version {document['version']} of the format; this offbeat reads version "
            f"{simulation.VERSION}"
        )
    shapes = {(int(each["nodes"]), int(each["ranks_per_node"])) for each in document["results"]}
    fitting = [shape for shape in shapes if shape[0] * shape[1] == ranks]
    if not fitting:
        there = ", ".join(f"{nodes} x {ppn}" for nodes, ppn in sorted(shapes)) or "nothing"
        raise CommandError(
            f"{path} has no simulation of {format_count(ranks, 'rank')}, as in the trace; it has: {there}"
        )
    nodes, ppn = min(fitting, key=lambda shape: (abs(shape[0] - hosts), shape))
    lines = [
        _MeasuredDelay(
            str(document["collective"]), int(each["size_bytes"]), str(each["pattern"]), str(each["skew"]),
            str(each["algorithm"]), float(each["skew_us"]), float(each["last_delay_us"]),
        )
        for each in document["results"]
        if (each["nodes"], each["ranks_per_node"]) == (nodes, ppn)
    ]  # fmt: skip
    source = f"simulated, machine {document['machine']['name']}, {nodes} x {ppn} ranks"
    shapes_of = _Shapes(path, ranks, int(document["seed"]), {}, ppn)
    return _delays_by_collective(path, lines, shapes_of, source, None)


@dataclass(frozen=True)
class _Shapes:
    """Computes how late each rank is under a pattern of a file."""

    path: Path
    ranks: int
    seed: int
    recorded: Mapping[str, Sequence[float]]  # the mean delays that the file itself holds, by pattern
    ranks_per_node: int | None = None

    def __call__(self, pattern: str) -> tuple[Floats, bool]:
        """The shape of a pattern, and whether each call has other late ranks."""
        rounds = np.array(self._rounds(pattern), dtype=np.float64)
        rounds /= np.maximum(rounds.max(axis=1, keepdims=True), 1e-12)
        if len(rounds) == 1:
            return rounds[0], False
        return np.sort(rounds, axis=1).mean(axis=0), True

    def _rounds(self, pattern: str) -> Sequence[Sequence[float]]:
        if pattern == "node_late" and self.ranks_per_node is not None:
            pattern = f"node_late({self.ranks_per_node})"
        name = pattern.partition("(")[0]
        if name in arrival_patterns.PATTERNS:
            return arrival_patterns.rounds(pattern, self.ranks, self.seed, _DRAWS_FOR_SHAPE)
        mean = self.recorded.get(pattern)
        if mean is None or len(mean) != self.ranks:
            raise CommandError(f"{self.path} does not say who is late under its pattern {pattern}")
        return [mean]


def _delays_by_collective(
    path: Path, lines: Sequence[_MeasuredDelay], shapes: _Shapes, source: str, mpi: str | None
) -> Delays:
    if not lines:
        raise CommandError(f"{path} has no measured result")
    for line in lines:
        if not (math.isfinite(line.delay_us) and math.isfinite(line.skew_us) and line.size_bytes >= 0):
            raise ValueError("not a number")
    found: dict[str, list[Arrival]] = {}
    notes: list[str] = []
    for collective in dict.fromkeys(line.collective for line in lines):
        mine = [line for line in lines if line.collective == collective]
        kept = _measured_under_all_patterns(mine)
        if not kept:
            raise CommandError(
                f"{path}: no algorithm of {collective} was measured at one size under all of its patterns"
            )
        notes += _notes_on_unused(collective, mine, kept)
        keys = dict.fromkeys((line.pattern, line.skew) for line in kept)
        found[collective] = [_arrival_from_lines(kept, pattern, skew, shapes) for pattern, skew in keys]
    return Delays(path, shapes.ranks, source, mpi, found, notes)


def _measured_under_all_patterns(lines: Sequence[_MeasuredDelay]) -> list[_MeasuredDelay]:
    """Keep the sizes and algorithms that have a result under every pattern, so that no cell is missing."""
    keys = {(line.pattern, line.skew) for line in lines}
    there: dict[tuple[int, str], set[tuple[str, str]]] = {}
    for line in lines:
        there.setdefault((line.size_bytes, line.algorithm), set()).add((line.pattern, line.skew))
    whole: dict[int, set[str]] = {}
    for (size, algorithm), patterns in there.items():
        if patterns == keys:
            whole.setdefault(size, set()).add(algorithm)
    common = set.intersection(*whole.values()) if whole else set()
    return [line for line in lines if line.size_bytes in whole and line.algorithm in common]


def _notes_on_unused(
    collective: str, lines: Sequence[_MeasuredDelay], kept: Sequence[_MeasuredDelay]
) -> list[str]:
    sizes = {line.size_bytes for line in lines} - {line.size_bytes for line in kept}
    names = dict.fromkeys(line.algorithm for line in lines)
    gone = [name for name in names if name not in {line.algorithm for line in kept}]
    what = [format_size(size) for size in sorted(sizes)] + gone
    return [f"{collective}: not used, because some patterns lack a result: {', '.join(what)}"] if what else []


def _arrival_from_lines(lines: Sequence[_MeasuredDelay], pattern: str, skew: str, shapes: _Shapes) -> Arrival:
    mine = [line for line in lines if (line.pattern, line.skew) == (pattern, skew)]
    shape, shape_is_sorted = (None, False) if skew == NO_SKEW.label else shapes(pattern)
    delays: dict[str, dict[int, float]] = {}
    for line in mine:
        delays.setdefault(line.algorithm, {})[line.size_bytes] = line.delay_us
    return Arrival(
        pattern,
        skew,
        shape,
        shape_is_sorted,
        Curve.of({line.size_bytes: line.skew_us for line in mine}),
        {name: Curve.of(pairs) for name, pairs in delays.items()},
    )
