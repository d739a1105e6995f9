# SPDX-License-Identifier: BSD-3-Clause
"""A prediction as sentences and tables."""

from __future__ import annotations

from offbeat.predict.prediction import Confirmation, OfCollective, Prediction
from offbeat.reports.sheet import Cell, Sheet, Tone, cells
from offbeat.units import format_share, format_size, format_us

_MOST_SIZES = 16
_MOST_CHANGES = 3
_SAME = 0.005  # of the run: less is no difference
_SIZES = {
    "measured": "of a measured size",
    "between": "between two measured sizes (linear)",
    "outside": "up to 4 times smaller (as the smallest) or larger (in proportion)",
}


def facts(prediction: Prediction) -> list[tuple[str, str]]:
    """What the prediction is made from."""
    trace = prediction.calls.trace
    run = format_us(1e6 * prediction.recorded_s)
    return [
        ("program", trace.program or "unknown"),
        ("recorded", f"{run} on {trace.ranks} ranks, {trace.mpi or 'unknown MPI'}"),
        ("delays", f"{prediction.delays.source}; {prediction.delays.path}"),
        (
            "predicted",
            f"{format_share(prediction.covered)} of the time in collectives; the rest stays as recorded",
        ),
    ]


def basis(each: OfCollective) -> str:
    """Which delays were taken for which calls."""
    by_pattern = ", ".join(f"{count} as {name}" for name, count in each.arrivals.items())
    by_size = ", ".join(f"{count} {_SIZES[kind]}" for kind, count in each.sizes.items() if count)
    return (
        f"{each.collective}: {each.predicted_calls} of {each.calls} calls are predicted; "
        f"arrivals: {by_pattern}; sizes: {by_size}."
    )


def sheets(each: OfCollective) -> list[Sheet]:
    """The run under each algorithm, and the choice size by size if there are several sizes."""
    base, against = _base(each)
    ways = [(way.name + (" (ran)" if way.name == each.ran else ""), way) for way in each.algorithms]
    if len(each.by_size) > 1:
        ways.append(("at each size the best for this program", each.best))
        if _names(each, "by_average") != _names(each, "best"):
            ways.append(("at each size the best average", each.by_average))
        if each.by_balanced is not None and _names(each, "by_balanced") != _names(each, "best"):
            ways.append(("at each size the best when nobody is late", each.by_balanced))
    least = each.algorithms[0].run_s
    rows = [
        [
            Cell(label),
            Cell(format_us(1e6 * way.run_s), Tone.GOOD if way.run_s == least else Tone.PLAIN),
            Cell(_change(way.run_s, base)),
            Cell(format_us(1e6 * way.communicating_s)),
            Cell(f"{each.scores[way.name]:.2f}" if number < len(each.algorithms) else "-"),
        ]
        for number, (label, way) in enumerate(ways)
    ]
    found = [
        Sheet(
            f"{each.collective}: the run under each algorithm",
            ("algorithm", "run", "change", "communicating", "average"),
            rows,
            f"Run: computation as in the trace, and the delays of the algorithm. Change: against {against}. "
            "Communicating: of a rank, after the last arrival that it needs. Average: over the patterns, of "
            "the delay divided by the least; 1 is best under all.",
        )
    ]
    if len(each.by_size) > 1:
        found.append(_by_size(each))
    return found


def _base(each: OfCollective) -> tuple[float, str]:
    """The run that others are compared with: predictions only with one another."""
    if each.model is not None:
        return each.model.run_s, f"{each.ran} as predicted"
    return each.algorithms[0].run_s, "the shortest run"


def _by_size(each: OfCollective) -> Sheet:
    shown = sorted(each.by_size, key=lambda size: -max(size.delays_s.values()))[:_MOST_SIZES]
    rows = []
    for size in sorted(shown, key=lambda size: size.size_bytes):
        best = size.delays_s[size.best]
        lost = size.delays_s[size.by_average] / best - 1 if best > 0 else 0.0
        rows.append(
            [
                *cells(format_size(size.size_bytes), str(size.calls), size.best, size.by_average),
                Cell(f"{100 * lost:.1f}%", Tone.BAD if lost > 0.05 else Tone.PLAIN),
                Cell(size.by_balanced or "-"),
            ]
        )
    return Sheet(
        f"{each.collective}: which algorithm at which size",
        ("size", "calls", "best for this program", "best average", "costs more", "best when nobody is late"),
        rows,
        "Costs more: the delays with the best average over the patterns, against those with the best for "
        "this program; ▲: by more than 5%.",
        left=frozenset({0, 2, 3, 5}),
    )


def conclusions(each: OfCollective, prediction: Prediction) -> list[str]:
    """What follows, the most important first."""
    base, _ = _base(each)
    best = _choice(each, "best")
    if not matters(each):
        differ = each.algorithms[-1].run_s / each.best.run_s - 1
        return [
            f"It does not matter which algorithm {each.collective} has: the runs differ by at most "
            f"{format_share(differ)}.",
            *_model(each, prediction),
        ]
    change = f" ({_change(each.best.run_s, base)})" if each.model is not None else ""
    found = [
        f"Best for this program: {best} for {each.collective}, a run of "
        f"{format_us(1e6 * each.best.run_s)}{change}."
    ]
    ways = [("The best average over the patterns", each.by_average, "by_average")]
    if each.by_balanced is not None:
        ways.append(("A benchmark in which nobody is late", each.by_balanced, "by_balanced"))
    for label, way, name in ways:
        chosen = _choice(each, name)
        loss = way.run_s / each.best.run_s - 1
        if chosen == best:
            found.append(f"{label} chooses the same.")
        elif loss <= _SAME:
            found.append(f"{label} chooses {chosen}: as good.")
        else:
            run = format_us(1e6 * way.run_s)
            found.append(f"{label} chooses {chosen}: {run}, {format_share(loss)} more than the best.")
    return [*found, *_model(each, prediction)]


def _model(each: OfCollective, prediction: Prediction) -> list[str]:
    """How far the prediction is from the run that was recorded."""
    if each.model is None:
        return [f"{each.ran} ran in the trace, and there are no delays of it to test the model with."]
    predicted, recorded = (format_us(1e6 * s) for s in (each.model.run_s, prediction.recorded_s))
    error = _change(each.model.run_s, prediction.recorded_s)
    return [
        f"How good the model is: {each.ran} ran in the trace, predicted {predicted}, recorded {recorded} "
        f"({error})."
    ]


def _names(each: OfCollective, way: str) -> list[str]:
    """The algorithm at each size: ``best``, ``by_average`` or ``by_balanced``."""
    return [str(getattr(size, way)) for size in each.by_size]


def _choice(each: OfCollective, way: str) -> str:
    """``ring``, or ``nap to 8 B, ring from 8 KiB``, or that it differs more often."""
    names = _names(each, way)
    changes = [k for k in range(1, len(names)) if names[k] != names[k - 1]]
    if not changes:
        return names[0]
    if len(changes) > _MOST_CHANGES:
        return f"another algorithm at each of {len(changes) + 1} ranges of sizes"
    sizes = [format_size(size.size_bytes) for size in each.by_size]
    parts = [f"{names[0]} to {sizes[changes[0] - 1]}"]
    return ", ".join([*parts, *(f"{names[k]} from {sizes[k]}" for k in changes)])


def matters(each: OfCollective) -> bool:
    """Whether the runs differ at all."""
    return each.algorithms[-1].run_s / each.best.run_s - 1 > _SAME


def in_one_line(prediction: Prediction) -> str:
    """What the best algorithms would bring, for a report."""
    each = prediction.collectives[0]
    if not matters(each):
        return f"By {prediction.delays.path}, it does not matter which algorithm {each.collective} has."
    base, against = _base(each)
    run = format_us(1e6 * each.best.run_s)
    change = f" ({_change(each.best.run_s, base)} against {against})" if each.model is not None else ""
    return (
        f"By {prediction.delays.path}, {_choice(each, 'best')} for {each.collective} would make it a run of "
        f"{run}{change}; offbeat predict {prediction.calls.trace.path} --from {prediction.delays.path} "
        "says more."
    )


def confirmation(found: Confirmation) -> tuple[Sheet, str]:
    """Predicted and measured runs, and whether the order is the same."""
    rows = []
    for line in found.lines:
        predicted, error = "-", "-"
        if line.predicted_s is not None:
            predicted = format_us(1e6 * line.predicted_s)
            error = f"{100 * (line.predicted_s / line.measured_s - 1):+.1f}%"
        rows.append(cells(line.name, predicted, format_us(1e6 * line.measured_s), error, str(line.runs)))
    sheet = Sheet(
        f"{found.collective}: predicted and measured",
        ("algorithm", "predicted", "measured", "error", "runs"),
        rows,
        "Measured: the median of the traced runs, the first trace included; the shortest is first.",
    )
    best, chosen = found.both[0], found.predicted_best
    if best is chosen:
        order = "the whole order is as predicted" if found.same_order else "the others are in another order"
        return sheet, f"Confirmed: {best.name} is the best as predicted; {order}."
    return sheet, (
        f"Not confirmed: {chosen.name} was predicted to be the best, {best.name} is: "
        f"{chosen.name} took {format_share(found.loss)} more."
    )


def _change(run_s: float, base_s: float) -> str:
    return f"{100 * (run_s / base_s - 1):+.1f}%".replace("-0.0%", "+0.0%") if base_s > 0 else "-"
