# SPDX-License-Identifier: BSD-3-Clause
"""Find the calls for which two files of rules choose differently. The built-in rules follow each file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from offbeat import _core
from offbeat.errors import CommandError

MOST_NODES = 1 << 16
MOST_RANKS_PER_NODE = 1 << 12
_MOST_CELLS = 100_000
_ANY_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Span:
    """The numbers from ``least`` to ``most``, both included. ``most`` None means no upper end."""

    least: int
    most: int | None


@dataclass(frozen=True)
class Choice:
    """The algorithms that the two files choose for a range of lengths."""

    bytes: Span
    first: str
    second: str


@dataclass(frozen=True)
class Difference:
    """Calls for which the two files choose differently."""

    calls: str  # a collective, with an i before it for its non-blocking calls
    hosts: tuple[str, ...]
    nodes: Span
    ppn: Span
    choice: Choice


def differences(first: _core.Rules | None, second: _core.Rules | None) -> list[Difference]:
    """All differences between two files. None stands for the built-in rules alone.

    This compares the choices at the lower end of every range of nodes and of ranks per node that a rule has,
    and at powers of two.
    """
    files = [_core.built_in_rules(), *(rules for rules in (first, second) if rules is not None)]
    found: list[Difference] = []
    for collective in [each["name"] for each in _core.collectives() if each["served"]]:
        rules = [rule for file in files for rule in file.rules if rule["collective"] == collective]
        forms = [collective, *([f"i{collective}"] if any(rule["nonblocking"] for rule in rules) else [])]
        nodes = _spans((rule["nodes"] for rule in rules), MOST_NODES)
        ppn = _spans((rule["ppn"] for rule in rules), MOST_RANKS_PER_NODE)
        if len(nodes) * len(ppn) * len(_core.hosts()) > _MOST_CELLS:
            raise CommandError(f"the rules of {collective} have too many different ranges to compare")
        for calls in forms:
            by_host = {host: _of_host(calls, host, nodes, ppn, first, second) for host in _core.hosts()}
            for one in dict.fromkeys(each for some in by_host.values() for each in some):
                hosts = tuple(host for host, some in by_host.items() if one in some)
                found.append(Difference(calls, hosts, *one))
    return found


def _of_host(
    calls: str,
    host: str,
    nodes: Sequence[Span],
    ppn: Sequence[Span],
    first: _core.Rules | None,
    second: _core.Rules | None,
) -> list[tuple[Span, Span, Choice]]:
    cells = [
        (node_span, rank_span, choice)
        for node_span in nodes
        for rank_span in ppn
        for choice in _choices(calls, host, node_span.least, rank_span.least, first, second)
    ]
    by_ppn = [(n, joined, c) for (n, c), joined in _joined_spans(((n, c), p) for n, p, c in cells)]
    return [(joined, p, c) for (p, c), joined in _joined_spans(((p, c), n) for n, p, c in by_ppn)]


def _joined_spans(
    cells: Iterable[tuple[tuple[Span, Choice], Span]],
) -> list[tuple[tuple[Span, Choice], Span]]:
    """Join the cells whose keys are equal and whose spans follow one another."""
    found: dict[tuple[Span, Choice], list[Span]] = {}
    for key, span in cells:
        spans = found.setdefault(key, [])
        if spans and spans[-1].most is not None and spans[-1].most + 1 == span.least:
            spans[-1] = Span(spans[-1].least, span.most)
        else:
            spans.append(span)
    return [(key, span) for key, spans in found.items() for span in spans]


def _choices(
    calls: str, host: str, nodes: int, ppn: int, first: _core.Rules | None, second: _core.Rules | None
) -> list[Choice]:
    """The ranges of lengths for which the two choices differ."""
    plans = [_core.plan(calls, host, nodes, ppn, True, rules, "", "") for rules in (first, second)]
    starts = sorted({row["least_bytes"] for plan in plans for row in plan})
    parts = [(start, _algorithms(plans[0], start), _algorithms(plans[1], start)) for start in starts]
    merged = [next(group) for _, group in groupby(parts, key=lambda part: part[1:])]
    ends = [part[0] - 1 for part in merged[1:]]
    return [
        Choice(Span(start, most), one, other)
        for (start, one, other), most in zip(merged, [*ends, None], strict=True)
        if one != other
    ]


def _algorithms(plan: Sequence[_core.PlanRow], size: int) -> str:
    row = next(row for row in plan if row["most_bytes"] is None or size <= row["most_bytes"])
    return " | ".join(row["alternatives"])


def _spans(ranges: Iterable[tuple[int, int]], most: int) -> list[Span]:
    """Consecutive spans, in each of which the same rules apply."""
    starts = {1, 2, *(1 << k for k in range(2, 8))}
    for least, last in ranges:
        starts |= {least, last + 1} if last < _ANY_COUNT else {least}
    ordered = sorted(start for start in starts if start <= most)
    ends: list[int | None] = [start - 1 for start in ordered[1:]]
    return [Span(start, end) for start, end in zip(ordered, [*ends, None], strict=True)]
