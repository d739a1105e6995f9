# SPDX-License-Identifier: BSD-3-Clause
"""offbeat predict: predict the run time of a traced program under other algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text

from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.output import new_console, print_json
from offbeat.errors import CommandError
from offbeat.reports.sheet import to_terminal

if TYPE_CHECKING:
    from offbeat.predict.confirmation import MeasuredRun
    from offbeat.predict.prediction import Prediction
    from offbeat.trace.metrics import Calls


def predict(
    trace: Annotated[Path, Argument(metavar="TRACE", help="The folder that offbeat trace made.")],
    results: Annotated[
        Path,
        Option(
            "--from",
            metavar="RESULTS",
            help="A file of offbeat bench --json or offbeat simulate --json with as many ranks as TRACE.",
        ),
    ],
    measured: Annotated[
        list[Path] | None,
        Option(
            "--measured",
            metavar="TRACE",
            help="A trace of the same program under another algorithm, to compare with; may be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict the run time of a traced program.

    There is a prediction for each algorithm of a benchmark or a simulation. The computation takes as long as
    in the trace. Each collective takes as long as the benchmark measured for its size, under the pattern that
    is nearest to its arrivals.

    offbeat predict run.trace --from bench.json
    offbeat predict run.trace --from bench.json --measured tree.trace
    """
    # Imported here because NumPy is slow to load and may not be installed.
    from offbeat.predict import confirmation, delays, prediction
    from offbeat.reports import prediction_sheets, report_json

    calls = _calls(trace)
    prediction.check_ranks(calls)
    hosts = len(set(calls.trace.hosts.values()))
    found = prediction.predict(calls, delays.read(results, calls.trace.ranks, hosts))
    runs = [confirmation.MeasuredRun.of(calls), *(_measured(path, calls) for path in measured or [])]
    confirmed = [(each, confirmation.confirm(each, runs)) for each in found.collectives]
    if as_json:
        print_json(report_json.json_of_prediction(found, confirmed))
        return
    console = new_console()
    console.print(Text(f"Prediction for {trace}", style="bold"), soft_wrap=True)
    for name, value in prediction_sheets.facts(found):
        console.print(Text(f"  {name:<10} {value}"))
    for note in [*calls.trace.missing, *found.notes]:
        console.print(Text(f"  note: {note}", style="dark_orange"), soft_wrap=True)
    console.print()
    for each, compared in confirmed:
        console.print(Text(prediction_sheets.basis_sentence(each)))
        for line in prediction_sheets.conclusions(each, found):
            console.print(Text(line, style="bold"))
        console.print()
        for sheet in prediction_sheets.sheets(each):
            console.print(to_terminal(sheet), "")
        if compared is not None:
            sheet, verdict = prediction_sheets.confirmation(compared)
            console.print(to_terminal(sheet))
            console.print(Text(verdict, style="bold"))
            console.print()
        elif measured:
            console.print(Text(f"{each.collective}: {_NOTHING_CONFIRMED_TEXT}", style="dark_orange"))
            console.print()
    if not measured:
        _print_next(console, found)


_NOTHING_CONFIRMED_TEXT = (
    "the traces show fewer than two algorithms that have a prediction, so nothing is confirmed."
)


def _print_next(console: Console, found: Prediction) -> None:
    from offbeat.reports import next_commands

    commands = next_commands.commands_after_prediction(found)
    if commands:
        console.print(Text("To check the prediction, run the program with the algorithms that it names:"))
        for command in commands:
            console.print(Text(f"  {command}", style="dim"), soft_wrap=True)


def _calls(path: Path) -> Calls:
    from offbeat import trace
    from offbeat.trace import metrics

    return metrics.collect(trace.read(path))


def _measured(path: Path, calls: Calls) -> MeasuredRun:
    from offbeat.predict.confirmation import MeasuredRun

    other = _calls(path)
    if other.trace.ranks != calls.trace.ranks:
        raise CommandError(
            f"{path} has {other.trace.ranks} ranks, {calls.trace.path} has {calls.trace.ranks}"
        )
    return MeasuredRun.of(other)


COMMAND = Command(predict)
