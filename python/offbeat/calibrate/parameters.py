# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of a machine file, each with its interval, from the results of the probes.

The model is the simulator's (src/simulator/simulator.hpp). A parameter whose interval holds zero is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from offbeat.arrays import Floats
from offbeat.calibrate import memory
from offbeat.calibrate.memory import CoreSpeeds
from offbeat.calibrate.probes import LONGEST, Layout, Result
from offbeat.calibrate.regression import (
    Draws,
    Interval,
    bootstrap,
    breakpoints,
    fit,
    fit_line,
    median_interval,
    quantile,
    relative_errors,
)
from offbeat.errors import FAILED, CommandError
from offbeat.units import format_size

LEAST_ROUNDS = 6
_LEAST_SLOWDOWN_OF_LIMIT = 0.05  # many at once count as limited if they are slower than one alone by more
_LONG_BYTES = 64 << 10

Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Segment:
    """The messages of ``from_bytes`` bytes and more."""

    from_bytes: int
    latency_us: Interval
    bandwidth_gb_per_s: Interval
    copies: dict[str, Interval] = field(default_factory=dict)  # by key, such as send_ns_per_byte


@dataclass
class Messages:
    """What messages cost, within a node or between nodes."""

    eager_limit_bytes: int | None = None  # None: no message was so long that its send waited
    segments: list[Segment] = field(default_factory=list)
    overheads: dict[str, Interval] = field(default_factory=dict)  # by key, such as send_overhead_us
    error: float = 0.0  # median of the relative errors
    points: int = 0


@dataclass
class Calibrated:
    """Everything that is known about a machine."""

    within_node: Messages | None = None  # None: no node has two ranks
    between_nodes: Messages | None = None  # None: there is one node
    core: dict[str, Interval] = field(default_factory=dict)  # by key
    beyond: list[CoreSpeeds] = field(default_factory=list)  # smallest cache first
    node_bandwidth_gb_per_s: Interval | None = None
    board: dict[str, Interval] = field(default_factory=dict)  # by key; empty: not measured
    refused: list[str] = field(default_factory=list)  # one line for each parameter that is left out


def fit_parameters(results: Sequence[Result], layout: Layout) -> Calibrated:
    """Fit all parameters. Raises CommandError if too little was measured."""
    rounds = {result.round for result in results}
    if len(rounds) < LEAST_ROUNDS:
        raise CommandError(
            f"the budget was too short: {len(rounds)} rounds of messages were measured, and intervals need "
            f"{LEAST_ROUNDS}",
            FAILED,
        )
    found = Calibrated()
    node_of = layout.node_of_rank
    within = [result for result in results if len({node_of[rank] for rank in result.ranks}) == 1]
    between = [result for result in results if len({node_of[rank] for rank in result.ranks}) > 1]
    node = memory.fit_memory(within)
    found.core, found.beyond, found.board = node.cores[0].values, node.cores[1:], node.board
    found.refused += node.refused
    if layout.ranks_per_node > 1:
        found.within_node = _messages(within, "within_node", found)
    if len(layout.nodes) > 1:
        found.between_nodes = _messages(between, "between_nodes", found)
        _node_limit(between, found)
    return found


def _results_of(results: Sequence[Result], kind: str, ranks: int | None = None) -> list[Result]:
    return [r for r in results if r.kind == kind and (ranks is None or len(r.ranks) == ranks)]


def _sizes(results: Sequence[Result]) -> Floats:
    return np.array([result.size_bytes for result in results], dtype=float)


def _medians(
    results: Sequence[Result], value: Callable[[Result], float] = quantile
) -> tuple[Floats, list[int]]:
    return np.array([value(result) for result in results]), [result.round for result in results]


# -- messages


class _Line:
    """The line of a level: one latency, more of it in longer segments, and the rate of each segment."""

    def __init__(self, sizes: Floats, values: Floats, points: Sequence[int]) -> None:
        self.sizes = sizes
        self.values = values
        self.points = [0, *points]
        numbers = np.searchsorted(np.array(self.points[1:]), sizes, side="right")
        columns = {"latency": np.ones_like(sizes)}
        for number in range(len(self.points)):
            inside = (numbers == number).astype(float)
            columns[f"rate {number}"] = inside * sizes
            if number > 0:
                columns[f"more {number}"] = inside
        self.columns = columns

    def estimate(self, numbers: Numbers) -> Floats:
        return fit(
            np.column_stack([column[numbers] for column in self.columns.values()]), self.values[numbers]
        )

    def draws(self, groups: Sequence[int]) -> Draws:
        return bootstrap(groups, self.estimate)

    def weights(self, **by_column: float) -> list[float]:
        """The weights of a sum of parameters, by column, with ``_`` for a blank."""
        return [by_column.get(name.replace(" ", "_"), 0.0) for name in self.columns]

    def error(self) -> float:
        whole = np.column_stack(list(self.columns.values()))
        found = relative_errors(whole, self.values, self.estimate(np.arange(len(self.values))))
        return float(np.median(np.abs(found)))


def _messages(results: Sequence[Result], level: str, found: Calibrated) -> Messages:
    trips = _results_of(results, "round_trip", 2)
    values, groups = _medians(trips)
    sizes = _sizes(trips)
    limit = _eager_limit(results)
    points = breakpoints(sizes, values, [limit + 1] if limit is not None else [])
    fitted, draws = _without_zero_parts(_Line(sizes, values, points), groups, level, found)
    messages = Messages(limit, error=fitted.error(), points=len(trips))
    messages.overheads = _overheads(results, level, draws.interval(fitted.weights(latency=1)), found)
    cores = sum(each.value for each in messages.overheads.values())
    waiting = ""  # the column of what a handshake adds
    for number, first in enumerate(fitted.points):
        more = f"more_{number}"
        if limit is not None and first == limit + 1 and f"more {number}" in fitted.columns:
            messages.overheads["handshake_us"] = draws.interval(fitted.weights(**{more: 0.5}))
            waiting = more
        latency = {"latency": 1.0, more: 1.0}
        if waiting:
            latency[waiting] = latency.get(waiting, 0.0) - 1
        whole = draws.interval(fitted.weights(**latency))
        messages.segments.append(
            Segment(
                first,
                Interval(*(max(us - cores, 0.0) for us in (whole.value, whole.low, whole.high))),
                draws.interval(fitted.weights(**{f"rate_{number}": 1}))
                .inverse()
                .scaled(1e-3),  # bytes per microsecond
            )
        )
    messages.overheads |= _port_gaps(results, level, messages, found)
    _copies(results, messages, cores)
    return messages


_ZERO_INTERVAL = Interval(0.0, 0.0, 0.0)


def _eager_limit(results: Sequence[Result]) -> int | None:
    limits = [int(result.us[0]) for result in _results_of(results, "eager")]
    if not limits:
        return None
    limit = max(statistics.median_low(limits), 0)
    return limit if limit < LONGEST else None


def _without_zero_parts(
    fitted: _Line, groups: Sequence[int], level: str, found: Calibrated
) -> tuple[_Line, Draws]:
    """Fit the line, and leave out what may be zero: a segment without a rate, or more of a latency."""
    while True:
        draws = fitted.draws(groups)
        intervals = dict(zip(fitted.columns, draws.intervals(), strict=True))
        flat = [n for n in range(len(fitted.points)) if intervals[f"rate {n}"].low <= 0]
        if not flat:
            break
        if len(fitted.points) == 1:
            raise _unknown_error("bandwidth", level)
        points = fitted.points[1:]
        gone = points.pop(max(flat[0] - 1, 0))
        found.refused.append(
            f"{level}: no other numbers from {format_size(gone)} on: the rate there may be 0"
        )
        fitted = _Line(fitted.sizes, fitted.values, points)
    names = [name for name in fitted.columns if name.startswith("more ") and intervals[name].low <= 0]
    for name in names:
        del fitted.columns[name]
        first = fitted.points[int(name.split()[1])]
        found.refused.append(f"{level}: no more latency from {format_size(first)} on: its interval holds 0")
    if names:
        draws = fitted.draws(groups)
    if draws.intervals()[0].low <= 0:
        raise _unknown_error("latency", level)
    return fitted, draws


def _unknown_error(what: str, level: str) -> CommandError:
    return CommandError(
        f"the {what} of messages {_level_in_words(level)} is not known: its interval holds 0", FAILED
    )


def _level_in_words(level: str) -> str:
    return level.replace("_", " ").replace("within node", "within a node")


def _overheads(
    results: Sequence[Result], level: str, latency: Interval, found: Calibrated
) -> dict[str, Interval]:
    late = [result for result in _results_of(results, "late") if result.receive_us]
    if not late:
        return {}
    sent, groups = _medians(late)
    received, _ = _medians(late, lambda result: quantile(result, received=True))
    overheads = {
        "send_overhead_us": median_interval(sent, groups),
        "receive_overhead_us": median_interval(received, groups),
    }
    if sum(each.value for each in overheads.values()) >= latency.value:
        # A late receive also does work that does not delay a message for which a rank already waits.
        found.refused.append(
            f"{level}: send_overhead_us and receive_overhead_us: together they are longer than a message"
        )
        return {}
    return overheads


def _copies(results: Sequence[Result], messages: Messages, cores: float) -> None:
    """What cores copy. In an exchange each core makes both copies of a message."""
    handshake = 2 * messages.overheads.get("handshake_us", _ZERO_INTERVAL).value
    exchanges = _results_of(results, "exchange")
    ends = [segment.from_bytes for segment in messages.segments[1:]] + [LONGEST + 1]
    for segment, end in zip(messages.segments, ends, strict=True):
        here = [result for result in exchanges if segment.from_bytes <= result.size_bytes < end]
        values, groups, slowest = [], [], 1e-3 / segment.bandwidth_gb_per_s.value
        for result in here:
            waits = messages.eager_limit_bytes is not None and result.size_bytes > messages.eager_limit_bytes
            fixed = segment.latency_us.value + cores + (handshake if waits else 0.0)
            if result.size_bytes * slowest >= fixed:  # otherwise most of the time is latency
                values.append((quantile(result) - fixed) / result.size_bytes)
                groups.append(result.round)
        if len(set(groups)) < LEAST_ROUNDS:
            continue
        both = median_interval(np.array(values), groups)
        if both.low > 0:
            half = both.scaled(500)  # nanoseconds of one of the two copies
            segment.copies.update(send_ns_per_byte=half, receive_ns_per_byte=half)


def _port_gaps(
    results: Sequence[Result], level: str, messages: Messages, found: Calibrated
) -> dict[str, Interval]:
    """The gaps of ports: the time of each further message of many at once, if it exceeds the core's time."""
    gaps = {}
    for kind, side in (("fan_out", "send"), ("fan_in", "receive")):
        fans = _results_of(results, kind)
        if len({len(fan.ranks) for fan in fans}) < 2:
            continue
        values, groups = _medians(fans)
        columns = fit_line(np.array([len(fan.ranks) - 2 for fan in fans], dtype=float))

        def period(numbers: Numbers, columns: Floats = columns, values: Floats = values) -> Floats:
            return fit(columns[numbers], values[numbers])[1:]

        overhead = messages.overheads.get(f"{side}_overhead_us", _ZERO_INTERVAL)
        each = bootstrap(groups, period).intervals()[0]
        if each.low <= overhead.high:
            found.refused.append(
                f"{level}: {side}_gap_us: no more than the core's time, or its interval holds 0"
            )
        else:
            gaps[f"{side}_gap_us"] = each
    return gaps


# -- nodes


def _node_limit(results: Sequence[Result], found: Calibrated) -> None:
    """R_N, from as many pairs at once as there are (the max-rate model)."""
    assert found.between_nodes is not None
    many = [result for result in _results_of(results, "round_trip") if len(result.ranks) > 2]
    if not many:
        return
    most = max(len(result.ranks) for result in many)
    several = [result for result in many if len(result.ranks) == most and result.size_bytes >= _LONG_BYTES]
    if not several:
        return
    pairs = most // 2
    handshake = 2 * found.between_nodes.overheads.get("handshake_us", _ZERO_INTERVAL).value
    overheads = found.between_nodes.overheads
    cores = sum(overheads.get(f"{s}_overhead_us", _ZERO_INTERVAL).value for s in ("send", "receive"))

    def slower(result: Result) -> float:
        """The time of a byte, divided by its time when one message travels alone."""
        assert found.between_nodes is not None
        segment = [s for s in found.between_nodes.segments if s.from_bytes <= result.size_bytes][-1]
        limit = found.between_nodes.eager_limit_bytes
        waits = handshake if limit is not None and result.size_bytes > limit else 0
        bytes_us = quantile(result) - segment.latency_us.value - cores - waits
        return bytes_us * segment.bandwidth_gb_per_s.value * 1e3 / result.size_bytes

    values, groups = _medians(several, slower)
    times = median_interval(values, groups)
    if times.low <= 1 + _LEAST_SLOWDOWN_OF_LIMIT:
        found.refused.append(
            f"between_nodes: node_bandwidth_gb_per_s: {pairs} pairs at once are not slower than one"
        )
        return
    rate = found.between_nodes.segments[-1].bandwidth_gb_per_s.value
    found.node_bandwidth_gb_per_s = times.inverse().scaled(pairs * rate)
