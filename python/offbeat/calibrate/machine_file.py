# SPDX-License-Identifier: BSD-3-Clause
"""Write what was calibrated as a machine file (docs/how-to/simulate.md), with the intervals as comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from offbeat.calibrate.hockney import Hockney
from offbeat.calibrate.parameters import Calibrated, Messages, Segment
from offbeat.calibrate.probes import LONGEST
from offbeat.calibrate.regression import Interval
from offbeat.machine import Fingerprint
from offbeat.mpi import host_algorithms
from offbeat.mpi.install import rule_host

_LEVELS = ("within_node", "between_nodes")


def machine_file_text(
    found: Calibrated,
    algorithms: Sequence[Hockney],
    *,
    name: str,
    source: str,
    calibrated: Fingerprint,
    level: str,
) -> str:
    """The file. ``level`` is where the ranks of ``algorithms`` were."""
    return "\n".join(_lines(found, algorithms, name, source, calibrated, level)) + "\n"


def _lines(
    found: Calibrated,
    algorithms: Sequence[Hockney],
    name: str,
    source: str,
    calibrated: Fingerprint,
    level: str,
) -> Iterator[str]:
    yield "# Written by offbeat calibrate. Comments have the 95% interval of a value."
    for line in found.refused:
        yield f"# left out: {line}"
    yield f"name = {_quoted(name)}"
    yield f"source = {_quoted(source)}"
    known = [each for each in (found.between_nodes, found.within_node) if each is not None]
    yield f"eager_limit_bytes = {_limit(known[0])}" if known else "eager_limit_bytes = 8192"
    if (copied := not_measured(found)) is not None:
        yield f'not_measured = "{copied}"  # simulations warn; remove this line when you have edited it'
    yield ""
    yield "[calibrated]  # the rules that `offbeat tune --simulate` makes of this file are stored for"
    for key, value in calibrated._asdict().items():
        yield f"{key} = {_quoted(value) if isinstance(value, str) else value}"
    yield ""
    yield "[core]"
    if "combine_ns_per_byte" not in found.core:
        yield "combine_ns_per_byte = 0  # not known"
    for key, interval in found.core.items():
        yield _value_line(key, interval)
    for speeds in found.beyond:
        yield ""
        yield "[[core.beyond]]"
        yield f"cache_bytes = {speeds.cache_bytes}"
        for key, interval in speeds.values.items():
            yield _value_line(key, interval)
    for each, other in zip(_LEVELS, reversed(_LEVELS), strict=True):
        yield ""
        messages: Messages | None = getattr(found, each)
        if messages is not None:
            yield from _level_section(each, messages, found)
        else:
            yield f"[{each}]  # not measured: no such messages. The values are those {_level_in_words(other)}"
            yield from _level_values(getattr(found, other), each)
    if found.board:
        yield ""
        yield "[board]"
        for key, interval in found.board.items():
            yield _value_line(key, interval)
    for algorithm in algorithms:
        yield from _algorithm(algorithm, rule_host(calibrated.mpi), level)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def not_measured(found: Calibrated) -> str | None:
    """The level between whose ranks no messages were measured, so that its table is a copy of the other."""
    missing = [level for level in _LEVELS if getattr(found, level) is None]
    return missing[0] if len(missing) == 1 else None


def advice_for_missing_level(found: Calibrated) -> str | None:
    """What to do about the level that was not measured. None: both were."""
    copied = not_measured(found)
    if copied == "between_nodes":
        return (
            "All ranks were on one node: [between_nodes] is a copy of [within_node]. Measure on two nodes, "
            "or edit it, before you simulate several."
        )
    if copied == "within_node":
        return (
            "Each rank was alone on its node: [within_node] is a copy of [between_nodes]. Measure with two "
            "ranks on a node, or edit it, before you simulate several."
        )
    return None


def _level_in_words(level: str) -> str:
    return "between nodes" if level == "between_nodes" else "within a node"


def _limit(messages: Messages) -> str:
    if messages.eager_limit_bytes is not None:
        return str(messages.eager_limit_bytes)
    return f"{LONGEST}  # no send of up to this length waited"


def _level_section(level: str, messages: Messages, found: Calibrated) -> Iterator[str]:
    yield f"[{level}]  # {messages.points} points; median error {messages.error:.1%}"
    yield from _level_values(messages, level)
    if level == "between_nodes" and found.node_bandwidth_gb_per_s is not None:
        yield _value_line("node_bandwidth_gb_per_s", found.node_bandwidth_gb_per_s)
    for segment in messages.segments[1:]:
        yield ""
        yield f"[[{level}.longer]]"
        yield f"from_bytes = {segment.from_bytes}"
        yield from _segment_values(segment, level)


def _segment_values(segment: Segment, level: str) -> Iterator[str]:
    yield _value_line("latency_us", segment.latency_us)
    yield _value_line("bandwidth_gb_per_s", segment.bandwidth_gb_per_s)
    for key, interval in segment.copies.items() if level == "within_node" else ():
        yield _value_line(key, interval)


def _level_values(messages: Messages | None, level: str) -> Iterator[str]:
    if messages is None:
        raise ValueError("neither level was measured")
    yield from _segment_values(messages.segments[0], level)
    if level == "within_node":
        yield f"eager_limit_bytes = {_limit(messages)}"
    for key, interval in messages.overheads.items():
        yield _value_line(key, interval)


def _value_line(key: str, interval: Interval) -> str:
    low, high = _rounded_text(interval.low), _rounded_text(interval.high)
    return f"{key} = {_rounded_text(interval.value)}  # {low} to {high}"


def _rounded_text(value: float) -> str:
    return f"{value:.4g}"


def _algorithm(found: Hockney, host: str, level: str) -> Iterator[str]:
    yield ""
    yield (
        f"[[algorithm]]  # {found.cases} cases; error {found.error:.1%}, largest {found.largest_error:.0%}; "
        f"R2 {found.r_squared:.3f}"
    )
    yield f"expression = {json.dumps(found.expression)}"
    if host_algorithms.is_native(found.expression):
        yield f"mpi = {json.dumps(host)}"
    yield f"level = {json.dumps(level)}"
    yield _value_line("latency_us", found.latency_us)
    yield _value_line("bandwidth_gb_per_s", found.bandwidth_gb_per_s)
