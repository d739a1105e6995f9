# SPDX-License-Identifier: BSD-3-Clause
"""Show a prediction as sentences and tables."""

from __future__ import annotations

from offbeat.predict.confirmation import Confirmation
from offbeat.predict.prediction import PredictedCollective, Prediction
from offbeat.reports.sheet import Cell, Sheet, Tone, plain_cells
from offbeat.units import format_count, format_share, format_size, format_us

_MOST_SIZES = 16
_MOST_CHANGES = 3
_LARGEST_ERROR = 0.2  # of the recorded run; a prediction that is further off supports no choice
_EQUAL_RUNS_WITHIN = 0.005  # runs that differ by a smaller share count as equal
_SIZE_MEANINGS = {
    "measured": "of a measured size",
    "between": "between two measured sizes (linear)",
    "outside": "up to 4 times smaller (delay of the smallest) or larger (in proportion)",
}


def facts(prediction: Prediction) -> list[tuple[str, str]]:
    """The facts on which the prediction is based."""
    trace = prediction.calls.trace
    run = format_us(1e6 * prediction.recorded_s)
    return [
        ("program", trace.program or "unknown"),
        ("recorded", f"{run} on {format_count(trace.ranks, 'rank')}, {trace.mpi or 'unknown MPI'}"),
        ("delays", f"{prediction.delays.source}; {prediction.delays.path}"),
        (
            "predicted",
            f"{format_share(prediction.covered)} of the time in collectives; the rest stays as recorded",
        ),
    ]


def basis_sentence(each: PredictedCollective) -> str:
    """A sentence that says which delays stand for which calls."""
    by_pattern = ", ".join(f"{count} as {name}" for name, count in each.arrivals.items())
    by_size = ", ".join(f"{count} {_SIZE_MEANINGS[kind]}" for kind, count in each.sizes.items() if count)
    verb = "is" if each.predicted_calls == 1 else "are"
    return (
        f"{each.collective}: {each.predicted_calls} of {format_count(each.calls, 'call')} {verb} predicted; "
        f"arrivals: {by_pattern}; sizes: {by_size}."
    )


def sheets(each: PredictedCollective) -> list[Sheet]:
    """Tables of the run under each algorithm and, if there are several sizes, of the choice at each."""
    base, against = _base_run(each)
    ways = [(way.name + (" (ran)" if way.name == each.ran else ""), way) for way in each.algorithms]
    if len(each.by_size) > 1:
        ways.append(("best for this program at each size", each.best))
        if _names(each, "by_average") != _names(each, "best"):
            ways.append(("best average at each size", each.by_average))
        if each.by_balanced is not None and _names(each, "by_balanced") != _names(each, "best"):
            ways.append(("best when no rank is late at each size", each.by_balanced))
    least = each.algorithms[0].run_s
    rows = [
        [
            Cell(label),
            Cell(format_us(1e6 * way.run_s), Tone.GOOD if way.run_s == least else Tone.PLAIN),
            Cell(_change_text(way.run_s, base)),
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
            f"Run: computation as in the trace, with the delays of the algorithm. Change: against {against}. "
            "Communicating: the time of one rank after the last arrival that it needs. Average: the delay "
            "divided by the least, averaged over the patterns. 1: best under every pattern.",
        )
    ]
    if len(each.by_size) > 1:
        found.append(_sheet_by_size(each))
    return found


def _base_run(each: PredictedCollective) -> tuple[float, str]:
    """The run that the others are compared with, and its name. It is always a predicted run."""
    if each.model is not None:
        return each.model.run_s, f"{each.ran} as predicted"
    return each.algorithms[0].run_s, "the shortest run"


def _sheet_by_size(each: PredictedCollective) -> Sheet:
    shown = sorted(each.by_size, key=lambda size: -max(size.delays_s.values()))[:_MOST_SIZES]
    rows = []
    for size in sorted(shown, key=lambda size: size.size_bytes):
        best = size.delays_s[size.best]
        lost = size.delays_s[size.by_average] / best - 1 if best > 0 else 0.0
        rows.append(
            [
                *plain_cells(format_size(size.size_bytes), str(size.calls), size.best, size.by_average),
                Cell(f"{100 * lost:.1f}%", Tone.BAD if lost > 0.05 else Tone.PLAIN),
                Cell(size.by_balanced or "-"),
            ]
        )
    return Sheet(
        f"{each.collective}: which algorithm at which size",
        ("size", "calls", "best for this program", "best average", "costs more", "best when no rank is late"),
        rows,
        "Costs more: by how much the delays with the best average over the patterns exceed those with the "
        "best for this program. ▲: by more than 5%.",
        left=frozenset({0, 2, 3, 5}),
    )


def conclusions(each: PredictedCollective, prediction: Prediction) -> list[str]:
    """The conclusions, the most important first."""
    best = _choice(each, "best")
    if not runs_differ(each):
        differ = each.algorithms[-1].run_s / each.best.run_s - 1
        return [
            f"It does not matter which algorithm {each.collective} uses: the runs differ by at most "
            f"{format_share(differ)}.",
            *_model(each, prediction),
        ]
    doubt = why_doubtful(each, prediction)
    if doubt is not None:
        run = f"{best} for {each.collective}, a run of {format_us(1e6 * each.best.run_s)}"
        return [
            f"No choice for {each.collective} is certain: {doubt}.",
            *_model(each, prediction),
            f"The shortest predicted run is that with {run}{_saving(each)}. Compare runs of the program.",
        ]
    if each.model is not None and each.best.run_s >= each.model.run_s:
        return [
            f"Keep {each.ran} for {each.collective}: no run with another algorithm is predicted to be "
            "shorter.",
            *_model(each, prediction),
        ]
    found = [
        f"Best for this program: {best} for {each.collective}, a run of "
        f"{format_us(1e6 * each.best.run_s)}{_saving(each)}."
    ]
    ways = [("The best average over the patterns", each.by_average, "by_average")]
    if each.by_balanced is not None:
        ways.append(("A benchmark in which no rank is late", each.by_balanced, "by_balanced"))
    for label, way, name in ways:
        chosen = _choice(each, name)
        loss = way.run_s / each.best.run_s - 1
        if chosen == best:
            found.append(f"{label} chooses the same.")
        elif loss <= _EQUAL_RUNS_WITHIN:
            found.append(f"{label} chooses {chosen}: as good.")
        else:
            run = format_us(1e6 * way.run_s)
            found.append(f"{label} chooses {chosen}: {run}, {format_share(loss)} more than the best.")
    return [*found, *_model(each, prediction)]


def _model(each: PredictedCollective, prediction: Prediction) -> list[str]:
    """A sentence that compares the prediction with the recorded run."""
    if each.model is None:
        return [f"The trace ran {each.ran}, which has no delays here, so the model cannot be tested."]
    predicted, recorded = (format_us(1e6 * s) for s in (each.model.run_s, prediction.recorded_s))
    error = _change_text(each.model.run_s, prediction.recorded_s)
    return [
        f"Test of the model: the trace ran {each.ran}. Its run is predicted as {predicted} and was recorded "
        f"as {recorded} ({error})."
    ]


def _saving(each: PredictedCollective) -> str:
    """How the best run compares with the recorded one, whose algorithm is predicted, too."""
    if each.model is None:
        return ""
    return f" ({_change_text(each.best.run_s, each.model.run_s)} against {each.ran} as predicted)"


def why_doubtful(each: PredictedCollective, prediction: Prediction) -> str | None:
    """Why the best choice is no conclusion: the recorded run is predicted too badly. None: it is one."""
    if each.model is None or prediction.recorded_s <= 0:
        return None
    error = abs(each.model.run_s / prediction.recorded_s - 1)
    if error > _LARGEST_ERROR:
        return f"the recorded run is predicted with an error of {error:.0%}"
    saving = 1 - each.best.run_s / each.model.run_s
    if 0 < saving < error:
        return (
            f"the recorded run is predicted with an error of {100 * error:.1f}%, and the best one saves only "
            f"{100 * saving:.1f}%"
        )
    unsure = sorted(
        {
            size.best
            for size in each.by_size
            if (each.collective, size.size_bytes, size.best) in prediction.delays.unsure
        }
    )
    if unsure:
        return (
            f"the measured delays of {', '.join(unsure)} vary too much (`?` in the tables of the benchmark)"
        )
    return None


def _names(each: PredictedCollective, way: str) -> list[str]:
    """The algorithm at each size by ``way``, which is ``best``, ``by_average`` or ``by_balanced``."""
    return [str(getattr(size, way)) for size in each.by_size]


def _choice(each: PredictedCollective, way: str) -> str:
    """The choice in words: ``ring``, or ``nap to 8 B, ring from 8 KiB``. Many changes are only counted."""
    names = _names(each, way)
    changes = [k for k in range(1, len(names)) if names[k] != names[k - 1]]
    if not changes:
        return names[0]
    if len(changes) > _MOST_CHANGES:
        return f"another algorithm at each of {len(changes) + 1} ranges of sizes"
    sizes = [format_size(size.size_bytes) for size in each.by_size]
    parts = [f"{names[0]} to {sizes[changes[0] - 1]}"]
    return ", ".join([*parts, *(f"{names[k]} from {sizes[k]}" for k in changes)])


def runs_differ(each: PredictedCollective) -> bool:
    """Whether the runs under the algorithms differ."""
    return each.algorithms[-1].run_s / each.best.run_s - 1 > _EQUAL_RUNS_WITHIN


def one_line_summary(prediction: Prediction) -> str:
    """One sentence for a report: the best algorithms, and the run with them."""
    each = prediction.collectives[0]
    if not runs_differ(each):
        return f"By {prediction.delays.path}, it does not matter which algorithm {each.collective} uses."
    more = f"offbeat predict {prediction.calls.trace.path} --from {prediction.delays.path} says more."
    doubt = why_doubtful(each, prediction)
    if doubt is not None:
        return f"{prediction.delays.path} supports no choice for {each.collective}: {doubt}; {more}"
    if each.model is not None and each.best.run_s >= each.model.run_s:
        kept = f"no algorithm is better than {each.ran} for {each.collective}"
        return f"By {prediction.delays.path}, {kept}; {more}"
    run = format_us(1e6 * each.best.run_s)
    return (
        f"By {prediction.delays.path}, the run would take {run}{_saving(each)} with {_choice(each, 'best')} "
        f"for {each.collective}; {more}"
    )


def confirmation(found: Confirmation) -> tuple[Sheet, str]:
    """A table of predicted and measured runs, and a sentence that compares their order."""
    rows = []
    for line in found.lines:
        predicted, error = "-", "-"
        if line.predicted_s is not None:
            predicted = format_us(1e6 * line.predicted_s)
            error = f"{100 * (line.predicted_s / line.measured_s - 1):+.1f}%"
        rows.append(
            plain_cells(line.name, predicted, format_us(1e6 * line.measured_s), error, str(line.runs))
        )
    sheet = Sheet(
        f"{found.collective}: predicted and measured",
        ("algorithm", "predicted", "measured", "error", "runs"),
        rows,
        "Measured: the median of the traced runs, including the first trace. The shortest run is first.",
    )
    best, chosen = found.both[0], found.predicted_best
    if best is chosen:
        order = "the whole order is as predicted" if found.same_order else "the others are in another order"
        return sheet, f"Confirmed: {best.name} is the best, as predicted; {order}."
    return sheet, (
        f"Not confirmed: {chosen.name} was predicted to be the best, but {best.name} is: "
        f"{chosen.name} took {format_share(found.loss)} more."
    )


def _change_text(run_s: float, base_s: float) -> str:
    return f"{100 * (run_s / base_s - 1):+.1f}%".replace("-0.0%", "+0.0%") if base_s > 0 else "-"
