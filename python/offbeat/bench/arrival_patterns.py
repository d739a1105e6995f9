# SPDX-License-Identifier: BSD-3-Clause
"""Arrival patterns: how late each rank is, as a fraction of the skew.

A pattern is a list of rounds. A round has one delay per rank. Iterations take the
rounds in turn. A pattern that is drawn anew for each call has many rounds, every
other pattern has one.

The user writes a name (``ascending``), a name with a number (``bimodal(2)``), the path
of a pattern file (one line per rank, in microseconds; several columns are several rounds),
or the path of a trace to replay.
"""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from offbeat.errors import CommandError
from offbeat.units import checked_delay, format_count

Rounds = list[list[float]]

# A function that makes the rounds. Its arguments are the number of ranks and the seed.
Draw = Callable[[int, int], Iterable[list[float]]]

DRAWN_ROUNDS = 1024


@dataclass(frozen=True)
class Pattern:
    """An arrival pattern: its description, and the function that makes its delays."""

    summary: str
    formula: str  # the delay of rank i of p, as a fraction of the skew
    draw: Draw

    def rounds(self, ranks: int, seed: int, most: int = DRAWN_ROUNDS) -> Rounds:
        """The first ``most`` rounds. No further rounds are drawn."""
        return list(islice(self.draw(ranks, seed), most))


def _rounds_from_fraction(fraction: Callable[[float], float]) -> Draw:
    """One round, from a function of the position x = i / (p - 1)."""
    return lambda ranks, _: [_scaled_to_latest([fraction(rank / max(ranks - 1, 1)) for rank in range(ranks)])]


def _scaled_to_latest(delays: list[float]) -> list[float]:
    """The delays divided by the largest, so that the latest rank is late by the whole skew."""
    latest = max(delays)
    return [delay / latest if latest > 0 else 0.0 for delay in delays]


def _late_only(chosen: Callable[[int], int]) -> Draw:
    return lambda ranks, _: [[float(rank == chosen(ranks)) for rank in range(ranks)]]


def _half_of_ranks_late(ranks: int, _: int) -> Rounds:
    return [[float(2 * rank >= ranks) for rank in range(ranks)]]


def _drawn_pattern(rounds: int) -> Draw:
    def draw(ranks: int, seed: int) -> Iterable[list[float]]:
        generator = random.Random(seed)
        return ([generator.random() for _ in range(ranks)] for _ in range(rounds))

    return draw


def _random_delays(ranks: int, seed: int) -> Rounds:
    (delays,) = _drawn_pattern(1)(ranks, seed)
    return [_scaled_to_latest(delays)]


def _bimodal(stragglers: int | None) -> Draw:
    def draw(ranks: int, seed: int) -> Iterable[list[float]]:
        late = max(1, ranks // 16) if stragglers is None else stragglers
        if late > ranks:
            raise CommandError(f"bimodal({late}): there are only {format_count(ranks, 'rank')}")
        generator = random.Random(seed)
        chosen = (set(generator.sample(range(ranks), late)) for _ in range(DRAWN_ROUNDS))
        return ([float(rank in stragglers) for rank in range(ranks)] for stragglers in chosen)

    return draw


def _node_late(ranks_per_node: int | None) -> Draw:
    def delays(ranks: int, _: int) -> Rounds:
        width = math.ceil(ranks / 2) if ranks_per_node is None else ranks_per_node
        last = (ranks - 1) // width
        return [[float(rank // width == last) for rank in range(ranks)]]

    return delays


# First no lateness. Then the eight shapes of paper 4, figure 3; its text names five of them, and half_step,
# bell and valley are our names. Then the bounded random arrival of paper 0, and what clusters show.
PATTERNS: dict[str, Pattern] = {
    "balanced": Pattern("all ranks arrive together", "0", _rounds_from_fraction(lambda x: 0.0)),
    "ascending": Pattern(
        "rank 0 arrives first, the others follow at equal steps", "x", _rounds_from_fraction(lambda x: x)
    ),
    "descending": Pattern(
        "the last rank arrives first, the others at equal steps",
        "1 - x",
        _rounds_from_fraction(lambda x: 1.0 - x),
    ),
    "first_delayed": Pattern(
        "rank 0 is late by the skew", "1 for rank 0, otherwise 0", _late_only(lambda ranks: 0)
    ),
    "first_early": Pattern(
        "rank 0 arrives first, all others are late by the skew",
        "0 for rank 0, otherwise 1",
        _rounds_from_fraction(math.ceil),
    ),
    "last_delayed": Pattern(
        "the last rank is late by the skew",
        "1 for rank p - 1, otherwise 0",
        _late_only(lambda ranks: ranks - 1),
    ),
    "half_step": Pattern(
        "the upper half of the ranks is late by the skew",
        "1 for i >= p / 2, otherwise 0",
        _half_of_ranks_late,
    ),
    "bell": Pattern(
        "the ranks in the middle are late",
        "4 x (1 - x)",
        _rounds_from_fraction(lambda x: 4.0 * x * (1.0 - x)),
    ),
    "valley": Pattern(
        "the ranks at both ends are late",
        "(2 x - 1)^2",
        _rounds_from_fraction(lambda x: (2.0 * x - 1.0) ** 2),
    ),
    "random_once": Pattern(
        "each rank is late by a random part of the skew, drawn once",
        "u_i / max u, u uniform in 0 .. 1",
        _random_delays,
    ),
    "random": Pattern(
        "each rank is late by a random part of the skew, drawn anew each time",
        "u_i for each call, uniform in 0 .. 1",
        _drawn_pattern(DRAWN_ROUNDS),
    ),
    "bimodal": Pattern(
        "a few ranks, drawn anew each time, are late by the skew: bimodal(K), otherwise one in 16",
        "1 for K random ranks, otherwise 0",
        _bimodal(None),
    ),
    "node_late": Pattern(
        "all ranks of the last node are late by the skew: node_late(RANKS_PER_NODE), otherwise half of them",
        "1 for i / RANKS_PER_NODE = the last, rounded down",
        _node_late(None),
    ),
}

_PATTERNS_WITH_NUMBER = {"bimodal": _bimodal, "node_late": _node_late}


def find_pattern(name: str) -> Pattern:
    """The pattern that ``name`` means: a name, a name with a number, or a path."""
    if name in PATTERNS:
        return PATTERNS[name]
    match = re.fullmatch(r"(\w+)\((\d{1,9})\)", name)
    if match is not None and match[1] in _PATTERNS_WITH_NUMBER:
        if int(match[2]) == 0:
            raise CommandError(f"{name}: the number must be at least 1")
        base = PATTERNS[match[1]]
        return Pattern(
            base.summary.partition(":")[0], base.formula, _PATTERNS_WITH_NUMBER[match[1]](int(match[2]))
        )
    if "/" in name or "." in name or (name and Path(name).exists()):
        return Pattern(f"as recorded in {name}", "line i / the largest line", _recorded(Path(name)))
    known = ", ".join(PATTERNS)
    raise CommandError(f"unknown arrival pattern '{name}'; the patterns are {known}, or the path of a file")


def _recorded(path: Path) -> Draw:
    def delays(ranks: int, _: int) -> Rounds:
        found = read_rounds(path)
        if len(found[0]) != ranks:
            raise CommandError(
                f"{path} is a pattern of {format_count(len(found[0]), 'rank')}, not of {ranks}"
            )
        latest = max(max(delays) for delays in found)
        return [[delay / latest if latest > 0 else 0.0 for delay in delays] for delays in found]

    return delays


def parse_names(text: str) -> list[str]:
    """Split a list such as ``balanced,random``. Raises CommandError if a part is not a pattern."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        find_pattern(name)
        if re.search(r"\s", name):
            raise CommandError(f"the path of a pattern must have no spaces: '{name}'")
    return list(dict.fromkeys(names))


def summary(name: str) -> str:
    """The pattern in words."""
    return find_pattern(name).summary


def rounds(name: str, ranks: int, seed: int, most: int = DRAWN_ROUNDS) -> Rounds:
    """The rounds of a pattern; calls take them in turn."""
    return find_pattern(name).rounds(ranks, seed, most)


def is_skewed(name: str, ranks: int) -> bool:
    """Whether any rank is late."""
    return any(delay > 0 for row in find_pattern(name).draw(ranks, 1) for delay in row)


def delays_as_text(names: Sequence[str], ranks: int, seed: int) -> str:
    """The patterns as src/mpi/bench/options.cpp reads them. All draws happen here, in one process."""
    lines = []
    for name in names:
        delays = rounds(name, ranks, seed)
        lines.append(f"{name} {len(delays)}")
        lines += [" ".join(f"{delay:.9f}" for delay in row) for row in delays]
    return "\n".join(lines) + "\n"


# -- files


def read_delays(path: Path) -> list[float]:
    """The mean delay of each rank in microseconds, in a pattern file or a trace."""
    return [statistics.fmean(delays) for delays in zip(*read_rounds(path), strict=True)]


def read_rounds(path: Path) -> Rounds:
    """The delays in microseconds: the columns of a pattern file, or the mean skews in a trace."""
    if path.is_dir():
        # Only traces need NumPy, so it is imported here.
        from offbeat import trace
        from offbeat.trace import metrics

        return [[float(skew) for skew in metrics.mean_skew_us(trace.read(path))]]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"cannot read the arrival pattern {path}: {why}") from None
    ranks: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        words = line.partition("#")[0].split()
        if not words:
            continue
        ranks.append([_microseconds(word, where) for word in words])
        if len(words) != len(ranks[0]):
            raise CommandError(f"{where}: {len(words)} delays; the lines before have {len(ranks[0])}")
    if not ranks:
        raise CommandError(f"{path}: no line with a delay; a pattern has one line per rank, in microseconds")
    return [list(delays) for delays in zip(*ranks, strict=True)]


def _microseconds(text: str, where: str) -> float:
    try:
        delay = float(text)
    except ValueError:
        delay = math.nan
    if not 0 <= delay < math.inf:
        raise CommandError(f"{where}: '{text[:40]}' is not a delay in microseconds")
    return checked_delay(delay, f"{where}: {text[:40]} us")


def file_text(delays_us: Sequence[float], title: str) -> str:
    """The text of a pattern file with one round."""
    return rounds_text([delays_us], title)


def rounds_text(rounds_us: Sequence[Sequence[float]], title: str) -> str:
    """The text of a pattern file, as ``read_rounds`` reads it."""
    lines = (" ".join(f"{delay:.3f}" for delay in delays) for delays in zip(*rounds_us, strict=True))
    return f"# {title}: microseconds, one line per rank\n" + "".join(f"{line}\n" for line in lines)
