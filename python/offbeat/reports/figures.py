# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a page, made with plotly.

Colours are those of Okabe and Ito. Marks and hatching differ, too, so that nothing depends on colour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from offbeat.bench import ranking
from offbeat.bench.plan import NO_SKEW
from offbeat.bench.ranking import Row
from offbeat.bench.samples import Delay
from offbeat.simulate.simulation import Result as Simulated
from offbeat.simulate.simulation import Simulation
from offbeat.trace import COLLECTIVES, Block, matching, summaries
from offbeat.trace.findings import Diagnosis, Finding
from offbeat.trace.metrics import Calls
from offbeat.trace.reader import ranges
from offbeat.trace.training import Training
from offbeat.units import format_size, format_us

BLUE, ORANGE, GREEN, RED, SKY, PINK, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000",
)  # fmt: skip
_COLOURS = (BLACK, BLUE, RED, GREEN, ORANGE, PINK, SKY)
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")

_MOST_TIMELINES = 3
_MOST_RANKS_DRAWN = 48
_MOST_BARS = 256
_MOST_POINTS = 600
_CALLS_AROUND_WORST = 8


@dataclass(frozen=True)
class Figure:
    """One figure, and a text that says what it shows."""

    name: str  # names its file and its place in the page
    title: str
    text: str
    plot: Any


def figures_of_trace(calls: Calls, diagnosis: Diagnosis) -> list[Figure]:
    """The figures of a trace: timelines of the worst calls, then averages."""
    known = diagnosis.training
    of_steps = [steps(known)] if known is not None and len(known.late_ns) else []
    if not len(calls.whole):
        return of_steps
    found = [
        timeline(calls, finding, number)
        for number, finding in enumerate(diagnosis.findings[:_MOST_TIMELINES], start=1)
    ]
    if not found:
        worst = int(np.argmax(np.where(calls.measured, calls.table["omega"], -1.0)))
        found = [_timeline(calls, worst, "timeline-1", "The call with the largest imbalance", ())]
    return [*of_steps, *found, mean_skew(calls), imbalance(calls), shares(calls), waiting(calls)]


def figures_of_bench(rows: Sequence[Row]) -> list[Figure]:
    """The figures of a benchmark: curves for each collective and pattern."""
    return [
        curves(rows, collective, pattern)
        for collective in ranking.collectives_of(rows)
        for pattern in ranking.patterns_of(rows, collective)
    ]


# -- traces


def steps(training: Training) -> Figure:
    """How late each rank is ready, step by step."""
    late = training.late_ns / 1e6
    latest = np.argsort(-np.nansum(late, axis=0), kind="stable")[: len(_COLOURS)]
    plot = go.Figure()
    for place, column in enumerate(sorted(latest)):
        plot.add_scatter(
            name=f"rank {training.ranks[column]}",
            x=np.arange(1, len(late) + 1),
            y=np.round(late[:, column], 3),
            mode="markers",
            marker={"color": _COLOURS[place], "symbol": _SYMBOLS[place]},
            hovertemplate="step %{x}: %{y:.3g} ms",
        )
    plot.update_xaxes(title="step")
    plot.update_yaxes(title="ready after half of the ranks (ms)")
    _style_plot(plot, height=360)
    some = f" Drawn: the {len(latest)} ranks that are latest." * (len(latest) < len(training.ranks))
    text = (
        "How long after half of the ranks each rank is ready with its gradients. The others wait that long "
        f"for the last one.{some}"
    )
    return Figure("steps", "When ranks are ready, step by step", text, plot)


def timeline(calls: Calls, finding: Finding, number: int) -> Figure:
    """The call with the longest wait of a finding: when each rank arrives and leaves."""
    title = f"The worst call of finding {number}: {finding.who[0].lower()}{finding.who[1:]}"
    return _timeline(calls, finding.worst, f"timeline-{number}", title, finding.ranks)


def _timeline(calls: Calls, row: int, name: str, title: str, late: Sequence[int]) -> Figure:
    worst = calls.table[row]
    communicator = calls.trace.communicators[int(worst["communicator"])]
    number = int(worst["number"])
    block = matching.blocks_in_range(
        calls.trace, communicator, max(number - _CALLS_AROUND_WORST, 0), number + _CALLS_AROUND_WORST
    )
    assert block is not None  # the row comes from this block
    ranks = _drawn_ranks(block, number, late)
    unit, per_unit = _time_unit(float(worst["end"] - worst["first"]))
    pieces = _timeline_pieces(block, worst, ranks, per_unit)
    plot = go.Figure()
    for label, colour, hatch in (("waiting", ORANGE, "/"), ("communicating", BLUE, "")):
        mine = [piece for piece in pieces if piece.kind == label]
        plot.add_bar(
            name=label,
            orientation="h",
            y=[f"rank {piece.rank}" for piece in mine],
            base=[piece.begin for piece in mine],
            x=[piece.length for piece in mine],
            customdata=[piece.call for piece in mine],
            hovertemplate="%{y}, %{customdata}<br>" + label + " %{x:.4g} " + unit + "<extra></extra>",
            marker={"color": colour, "pattern": {"shape": hatch, "fgcolor": BLACK, "size": 6}},
        )
    order = [f"rank {rank}" for rank in ranks]
    plot.update_yaxes(categoryorder="array", categoryarray=order, autorange="reversed", title=None)
    plot.update_xaxes(title=f"time since the first rank arrived ({unit})")
    _style_plot(plot, barmode="overlay", height=170 + 22 * max(len(ranks), 4))
    what = (
        f"{COLLECTIVES[int(worst['collective'])]} of {format_size(int(worst['bytes']))}, "
        f"call number {number} on {communicator}"
    )
    some = f" {len(ranks)} of {len(block.ranks)} ranks are drawn." * (len(ranks) < len(block.ranks))
    text = (
        f"{what[0].upper()}{what[1:]}, with the calls around it. Hatched: the rank waits in the call for the "
        f"last rank, which is rank {int(worst['last_rank'])}. Solid: all ranks have arrived.{some}"
    )
    return Figure(name, title, text, plot)


@dataclass(frozen=True)
class _TimelinePiece:
    rank: int
    kind: str
    begin: float
    length: float
    call: str


def _timeline_pieces(block: Block, worst: Any, ranks: Sequence[int], per_unit: float) -> list[_TimelinePiece]:
    """The waiting and communicating parts of the worst call and of those close to it in time."""
    begin = int(worst["first"])
    span = max(int(worst["end"]) - begin, 1)
    column = {int(rank): index for index, rank in enumerate(block.ranks)}
    found = []
    for row in range(len(block.number)):
        present = block.present[row]
        arrival, end = block.arrival[row], block.end[row]
        if not present.any():
            continue
        last = int(arrival[present].max())
        if int(end[present].max()) < begin - span or int(arrival[present].min()) > begin + 2 * span:
            continue
        call = f"{COLLECTIVES[int(block.call['collective'][row])]} number {int(block.number[row])}"
        for rank in ranks:
            index = column[rank]
            if not present[index]:
                continue
            here, leave = int(arrival[index]), int(end[index])
            middle = min(max(last, here), leave)
            for kind, first, then in (("waiting", here, middle), ("communicating", middle, leave)):
                if then > first:
                    length = (then - first) / per_unit
                    found.append(_TimelinePiece(rank, kind, (first - begin) / per_unit, length, call))
    return found


def _drawn_ranks(block: Block, number: int, late: Sequence[int]) -> list[int]:
    """The ranks to draw: all, or if they are many, the late ones, the first, the last, and some between."""
    ranks = [int(rank) for rank in block.ranks]
    if len(ranks) <= _MOST_RANKS_DRAWN:
        return ranks
    row = int(np.searchsorted(block.number, np.uint64(number)))
    by_arrival = [ranks[index] for index in np.argsort(block.arrival[row], kind="stable")]
    part = _MOST_RANKS_DRAWN // 4
    between = by_arrival[part : -2 * part : max(1, len(ranks) // part)]
    return sorted({*by_arrival[-part:], *by_arrival[:part], *between[:part], *list(late)[:part]} & set(ranks))


def mean_skew(calls: Calls) -> Figure:
    """The mean skew of each rank."""
    ranks, skews = calls.skew_ranks, calls.mean_skew / 1e3
    per_bar = -(-len(ranks) // _MOST_BARS)
    groups = [slice(first, first + per_bar) for first in range(0, len(ranks), per_bar)]
    plot = go.Figure()
    plot.add_bar(
        x=[ranges([int(rank) for rank in ranks[part]]) for part in groups],
        y=[float(skews[part].max()) for part in groups],
        marker={"color": BLUE},
        hovertemplate="rank %{x}: %{y:.4g} µs<extra></extra>",
    )
    plot.update_xaxes(title="rank", type="category")
    plot.update_yaxes(title="mean skew (µs)", rangemode="tozero")
    _style_plot(plot, showlegend=False)
    latest = int(ranks[int(np.argmax(skews))])
    several = f" Each bar is the latest of {per_bar} ranks." * (per_bar > 1)
    text = (
        "How long after the first rank each rank arrives, averaged over all calls. The latest is rank "
        f"{latest} with {format_us(float(skews.max()))}.{several}"
    )
    return Figure("mean-skew", "Mean skew of each rank", text, plot)


def imbalance(calls: Calls) -> Figure:
    """The imbalance of arrival over the run."""
    table = np.sort(calls.whole, order="first")
    bounds = np.unique(np.linspace(0, len(table), min(len(table), _MOST_POINTS) + 1).astype(int))
    begins = bounds[:-1]
    plot = go.Figure()
    series = (
        ("worst in a cluster (Ω)", "omega", RED, "triangle-up", np.maximum),
        ("average in a cluster (Δ̄)", "delta", BLUE, "circle", np.add),
    )
    for label, field, colour, symbol, combine in series:
        values = combine.reduceat(table[field], begins) / 1e3
        if combine is np.add:
            values = values / np.diff(bounds)
        plot.add_scatter(
            name=label,
            x=begins,
            y=np.maximum(values, 1e-3),
            mode="lines+markers",
            line={"color": colour, "width": 1},
            marker={"symbol": symbol, "size": 6, "color": colour},
            hovertemplate="invocation %{x}: %{y:.4g} µs<extra>" + label + "</extra>",
        )
    plot.update_xaxes(title="invocation, in the order of time", rangemode="tozero")
    plot.update_yaxes(title="imbalance (µs)", type="log")
    _style_plot(plot)
    per_point = len(table) / max(len(begins), 1)
    several = (
        f" Each point is {per_point:.0f} calls: the largest Ω and the average Δ̄." if per_point > 1 else ""
    )
    text = (
        "Worst imbalance: the time from the first to the last arrival. Average imbalance: the mean distance "
        f"of the arrivals from their average.{several}"
    )
    return Figure("imbalance", "Imbalance over the invocations", text, plot)


def shares(calls: Calls) -> Figure:
    """The time in collectives, by collective and size."""
    found = summaries.shares(calls)
    labels = [f"{COLLECTIVES[share.collective]}, {share.size_class}" for share in found]
    plot = go.Figure()
    series = (
        ("of all calls", [100 * share.call_share for share in found], SKY, "."),
        ("of all time in collectives", [100 * share.time_share for share in found], BLUE, ""),
    )
    for label, values, colour, hatch in series:
        plot.add_bar(
            name=label,
            orientation="h",
            y=labels,
            x=values,
            marker={"color": colour, "pattern": {"shape": hatch, "fgcolor": BLACK}},
            hovertemplate="%{y}: %{x:.1f}% " + label + "<extra></extra>",
        )
    plot.update_yaxes(autorange="reversed")
    plot.update_xaxes(title="share (%)", range=[0, 100])
    _style_plot(plot, barmode="group", height=200 + 46 * len(found))
    text = f"By collective and size ({summaries.SIZE_CLASS_MEANING})."
    return Figure("shares", "Share of calls and of time", text, plot)


def waiting(calls: Calls) -> Figure:
    """Who waits for whom."""
    found = summaries.shares(calls)
    labels = [f"{COLLECTIVES[share.collective]}, {share.size_class}" for share in found]
    most = max((share.time_ns for share in found), default=1.0)
    unit, per_unit = _time_unit(most)
    plot = go.Figure()
    series = (
        ("waiting", [share.waiting_ns / per_unit for share in found], ORANGE, "/"),
        ("communicating", [share.communicating_ns / per_unit for share in found], BLUE, ""),
    )
    for label, values, colour, hatch in series:
        plot.add_bar(
            name=label,
            orientation="h",
            y=labels,
            x=values,
            marker={"color": colour, "pattern": {"shape": hatch, "fgcolor": BLACK, "size": 6}},
            hovertemplate="%{y}: %{x:.4g} " + unit + " " + label + "<extra></extra>",
        )
    plot.update_yaxes(autorange="reversed")
    plot.update_xaxes(title=f"time in the calls, of all ranks together ({unit})")
    _style_plot(plot, barmode="stack", height=200 + 32 * len(found))
    text = (
        "Waiting is the time in a call before the last rank arrived; a faster network does not shorten it. "
        "Non-blocking calls count as communicating: the program goes on meanwhile."
    )
    return Figure("waiting", "Waiting against communicating", text, plot)


# -- benchmarks and simulations


def curves(rows: Sequence[Row], collective: str, pattern: str) -> Figure:
    """The times of algorithms over the sizes."""
    mine = sorted(
        (row for row in rows if (row.collective, row.pattern) == (collective, pattern)),
        key=lambda row: row.size_bytes,
    )
    lines = {
        name: [(row.size_bytes, row.delays[name]) for row in mine if name in row.delays]
        for name in ranking.algorithms_of(rows, collective)
    }
    text = (
        f"{collective} when the ranks arrive {pattern}: median of the time from the last arrival to the last "
        "exit, with its 95% confidence interval."
    )
    plot = _curves(lines, "size", format_size)
    return Figure(_name_of(collective, pattern), f"{collective}, {pattern} arrival", text, plot)


def figures_of_simulation(found: Simulation) -> list[Figure]:
    """The figures of a simulation: delay over ranks if it has one size, otherwise delay over size."""
    results = found.results
    drawn = []
    for pattern, skew in dict.fromkeys((r.cell.pattern, r.cell.skew) for r in results):
        mine = [r for r in results if (r.cell.pattern, r.cell.skew) == (pattern, skew)]
        arrival = f"{pattern} arrival" + (f", skew {skew}" if skew != NO_SKEW.label else "")
        if len(found.plan.sizes_bytes) == 1:
            of_what = format_size(found.plan.sizes_bytes[0])
            drawn.append(_simulated(found, mine, of_what, arrival, "ranks"))
        else:
            for shape in found.plan.shapes:
                of_shape = [r for r in mine if r.cell.shape == shape]
                drawn.append(_simulated(found, of_shape, f"{shape} ranks", arrival, "size"))
    return drawn


def _simulated(
    found: Simulation, results: Sequence[Simulated], of_what: str, arrival: str, axis: str
) -> Figure:
    lines = {
        name: [
            (r.cell.size_bytes if axis == "size" else r.cell.shape.ranks, r.last_delay)
            for r in results
            if r.algorithm == name
        ]
        for name in found.plan.algorithms
    }
    plot = _curves(lines, axis, format_size if axis == "size" else "{:,}".format)
    title = f"{found.plan.collective}, {of_what}, {arrival}"
    text = f"Simulated on {found.plan.machine.name}: the time from the last arrival to the last exit."
    return Figure(_name_of(found.plan.collective, of_what, arrival), title, text, plot)


def _curves(
    lines: Mapping[str, Sequence[tuple[int, Delay]]], axis: str, format_x: Callable[[int], str]
) -> Any:
    """A plot with logarithmic axes that has one line per algorithm, if it was measured."""
    plot = go.Figure()
    for number, (name, measured) in enumerate(lines.items()):
        if not measured:
            continue
        colour = _COLOURS[number % len(_COLOURS)]
        plot.add_scatter(
            name=name,
            x=[x for x, _ in measured],
            y=[delay.median for _, delay in measured],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [delay.ci95_high - delay.median for _, delay in measured],
                "arrayminus": [delay.median - delay.ci95_low for _, delay in measured],
            },
            mode="lines+markers",
            line={"color": colour, "dash": _DASHES[number % len(_DASHES)]},
            marker={"color": colour, "symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 9},
            text=[format_x(x) for x, _ in measured],
            hovertemplate="%{text}: %{y:.4g} µs<extra>" + _plain(name) + "</extra>",
        )
    ticks = sorted({x for measured in lines.values() for x, _ in measured})
    plot.update_xaxes(title=axis, type="log", tickvals=ticks, ticktext=[format_x(x) for x in ticks])
    plot.update_yaxes(title="last delay (µs)", type="log")
    _style_plot(plot)
    return plot


def _name_of(*words: str) -> str:
    return "curves-" + "".join(c if c.isalnum() else "-" for c in "-".join(words))


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _time_unit(nanoseconds: float) -> tuple[str, float]:
    for unit, factor in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= factor:
            return unit, factor
    return "µs", 1e3


def _style_plot(plot: Any, **layout: Any) -> None:
    plot.update_layout(
        **{
            "template": "simple_white",
            "font": {"size": 14, "family": "system-ui, sans-serif", "color": "#111"},
            "margin": {"l": 70, "r": 40, "t": 20, "b": 60},
            # Beside the plot: above it, it would cover the legend of a narrow page.
            "modebar": {"orientation": "v"},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "height": 420,
            **layout,
        }
    )
    # Ticks with the unit of the axis: 10,000 µs and not 10k.
    plot.update_yaxes(exponentformat="none", separatethousands=True)
    plot.update_yaxes(automargin=True, gridcolor="#ddd", showgrid=True)
    plot.update_xaxes(automargin=True)
