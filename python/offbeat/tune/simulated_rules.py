# SPDX-License-Identifier: BSD-3-Clause
"""The rules that follow from simulations: for each size the best algorithm, if it beats the host MPI."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from offbeat.bench.plan import NATIVE
from offbeat.rules.spelling import bytes_text, counts_text
from offbeat.rules.stored import SIMULATED
from offbeat.tune import candidates, decisions
from offbeat.tune.by_simulation import Answer, Terms

_TIE = 0.03  # scores that differ by less count as equal


@dataclass(frozen=True)
class Choice:
    """The algorithm for one size, with the answer that it comes from."""

    algorithm: str
    answer: Answer


@dataclass(frozen=True)
class SimulatedRow:
    """A rule for neighbouring sizes that one algorithm wins."""

    collective: str
    host: str
    nodes: tuple[int, int]
    ppn: int
    least: int  # bytes
    most: int | None  # bytes; None: no limit
    choices: tuple[Choice, ...]

    @property
    def algorithm(self) -> str:
        """The expression that the rule chooses."""
        return self.choices[0].algorithm

    def fields(self) -> list[str]:
        """The six fields of the rule, as a file of rules has them."""
        size = bytes_text(self.least, self.most)
        return [self.collective, self.host, counts_text(*self.nodes), str(self.ppn), size, self.algorithm]

    def of_host(self, names: Sequence[str]) -> float | None:
        """The last delay divided by the host's: the geometric mean over sizes and hosts."""
        ratios = [
            choice.answer.standings[host][choice.algorithm].of_host
            for choice in self.choices
            for host in names
            if choice.algorithm != NATIVE
        ]
        return math.exp(fmean(map(math.log, ratios))) if ratios else None

    def reason(self, names: Sequence[str]) -> str:
        """The comment of the rule: what it gains over these hosts."""
        if (ratio := self.of_host(names)) is None:
            return f"{SIMULATED}: nothing of offbeat's is faster everywhere"
        return f"{SIMULATED}: {ratio:.2f} of the MPI's time"


def choose(answers_: Sequence[Answer], host: str, margin: float) -> list[Choice]:
    """The choices for one host: for each size the best, or the neighbour's if it is as good."""
    found: list[Choice] = []
    for each in sorted(answers_, key=lambda a: a.question.size_bytes):
        better = each.better(host, margin)
        near = [name for name in better if each.scores[name] <= (1 + _TIE) * each.scores[better[0]]]
        before = found[-1].algorithm if found else ""
        algorithm = before if before in near else near[0] if near else NATIVE
        found.append(Choice(algorithm, each))
    return found


def rules(terms: Terms, found: Sequence[Answer]) -> list[SimulatedRow]:
    """The rules that the answers make: for any host if all choose alike, otherwise for each."""
    rows: list[SimulatedRow] = []
    keys = list(dict.fromkeys((a.question.collective, a.question.ppn, a.question.nodes) for a in found))
    by_nodes: dict[tuple[str, int], list[tuple[tuple[int, int], Mapping[str, list[Choice]]]]] = {}
    for collective, ppn, nodes in keys:
        of = [
            a
            for a in found
            if (a.question.collective, a.question.ppn, a.question.nodes) == (collective, ppn, nodes)
        ]
        chosen: Mapping[str, list[Choice]] = {host: choose(of, host, terms.margin) for host in terms.hosts}
        by_nodes.setdefault((collective, ppn), []).append((nodes, chosen))
    for (collective, ppn), groups in by_nodes.items():
        for nodes, chosen in _joined(groups):
            texts = {host: [c.algorithm for c in choices] for host, choices in chosen.items()}
            if len({tuple(text) for text in texts.values()}) == 1:
                rows += _rows(collective, "*", nodes, ppn, next(iter(chosen.values())))
            else:
                for host, choices in chosen.items():
                    rows += _rows(collective, host, nodes, ppn, choices)
    return rows


def _joined(
    groups: Sequence[tuple[tuple[int, int], Mapping[str, list[Choice]]]],
) -> Iterator[tuple[tuple[int, int], Mapping[str, list[Choice]]]]:
    """Adjacent ranges of nodes with the same choices become one."""
    before: tuple[tuple[int, int], Mapping[str, list[Choice]]] | None = None
    for nodes, chosen in sorted(groups, key=lambda group: group[0]):
        if before is None:
            before = nodes, chosen
        elif nodes[0] == before[0][1] + 1 and _texts(chosen) == _texts(before[1]):
            before = (before[0][0], nodes[1]), before[1]
        else:
            yield before
            before = nodes, chosen
    if before is not None:
        yield before


def _texts(chosen: Mapping[str, list[Choice]]) -> list[tuple[str, list[tuple[int, str]]]]:
    return [
        (host, [(c.answer.question.size_bytes, c.algorithm) for c in choices])
        for host, choices in chosen.items()
    ]


def _rows(
    collective: str, host: str, nodes: tuple[int, int], ppn: int, choices: Sequence[Choice]
) -> Iterator[SimulatedRow]:
    sizes = [c.answer.question.size_bytes for c in choices]
    limits = decisions.limits(sizes) if candidates.has_lengths(collective) else [0, None]
    for algorithm, numbers in groupby(range(len(choices)), key=lambda k: choices[k].algorithm):
        which = list(numbers)
        last = limits[which[-1] + 1]
        most = None if last is None else last - 1
        within = tuple(choices[k] for k in which)
        assert within[0].algorithm == algorithm
        yield SimulatedRow(collective, host, nodes, ppn, limits[which[0]] or 0, most, within)
