# SPDX-License-Identifier: BSD-3-Clause
"""offbeat report: explain traces and benchmarks, in the terminal and as one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text

from offbeat import __version__
from offbeat.bench import arrival_patterns, bench_file
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.output import checked_drawing, checked_output, new_console, print_json, write_text
from offbeat.errors import CommandError
from offbeat.reports import bench_sheets
from offbeat.reports.sheet import Sheet, to_terminal
from offbeat.units import format_count

if TYPE_CHECKING:
    from offbeat.trace.findings import Diagnosis
    from offbeat.trace.message_time import MessageTime
    from offbeat.trace.metrics import Calls


def report(
    files: Annotated[
        list[Path], Argument(metavar="FILE...", help="Traces, and files of offbeat bench --json.")
    ],
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="PAGE.html", help="Write one self-contained HTML page."),
    ] = None,
    figures: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write each figure as SVG and PNG. Needs Chromium.")
    ] = None,
    pattern: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Write the mean skew of each rank as a pattern file, and print no report."
        ),
    ] = None,
    alpha: Annotated[
        Path | None,
        Option(metavar="FILE", help="Measured message times: lines of bytes and microseconds."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of tables.")] = False,
    force: Annotated[bool, Option("--force", help="Overwrite files.")] = False,
) -> None:
    """Say what collectives cost, and which ranks are late.

    The report begins with how much time could be saved. The traced program may still run, or may have been
    killed. The report says what is missing.

    offbeat report run.trace
    offbeat report run.trace bench.json -o report.html --figures figures
    """
    checked_output(output, force=force)
    checked_output(pattern, force=force)
    checked_drawing(output, figures)
    benches = [bench_file.read(path) for path in files if bench_file.looks_like_bench_file(path)]
    paths = [path for path in files if not bench_file.looks_like_bench_file(path)]
    if paths:
        traces = _measure(paths, alpha, benches)
    else:
        traces = []
        for option, value in (("--pattern", pattern), ("--alpha", alpha)):
            if value is not None:
                raise CommandError(f"{option} needs a trace")
    if pattern is not None and len(traces) > 1:
        raise CommandError("--pattern takes one trace")
    console = new_console(stderr=as_json)
    if as_json:
        _print_json(traces, benches)
    elif pattern is None:
        for measured in traces:
            _print_trace(console, measured)
        for bench in benches:
            _print_heading(console, f"Benchmark {bench.path}", bench.facts, bench.warnings)
            _print_sheets(console, bench_sheets.sheets(bench.rows))
    if output is not None or figures is not None:
        _write_figures(traces, benches, output, figures, console)
    if pattern is not None:
        title = f"mean skew of each rank in {traces[0].path}"
        write_text(pattern, arrival_patterns.file_text(traces[0].calls.mean_skew_us(), title))
        console.print(f"Wrote {pattern}", soft_wrap=True)


@dataclass(frozen=True)
class _Measured:
    path: Path
    calls: Calls
    diagnosis: Diagnosis
    alpha: MessageTime | None
    facts: list[tuple[str, str]]
    sheets: list[Sheet]
    hangs: list[str]  # one sentence for each call in which a killed run was
    predicted: list[str]  # one sentence for each benchmark: the run that it predicts
    commands: list[str]  # commands to type next

    @property
    def first(self) -> list[str]:
        """The sentences that matter most, in that order."""
        said = self.diagnosis.first
        if self.hangs and self.diagnosis.stakes is not None:
            said = [line for line in said if line != self.diagnosis.stakes.what_to_do]  # the hang is first
        return [*self.hangs, *said, *self.predicted, *filter(None, [self.diagnosis.rest])]


def _measure(
    paths: list[Path], alpha_file: Path | None, benches: list[bench_file.BenchFile]
) -> list[_Measured]:
    # Imported here because NumPy is slow to load, and benchmarks do not need it.
    from offbeat import trace
    from offbeat.reports import next_commands, trace_sheets
    from offbeat.trace import diagnosis, message_time, metrics

    known = message_time.MessageTime.read(alpha_file) if alpha_file is not None else None
    found = []
    for path in paths:
        calls = metrics.collect(trace.read(path))
        alpha = known or message_time.estimate_message_time(calls)
        diagnosed = diagnosis.diagnose(calls)
        sheets = trace_sheets.sheets(calls, diagnosed, alpha)
        facts = list(trace_sheets.facts(calls))
        predicted = [_predicted(calls, bench.path) for bench in benches]
        commands = next_commands.commands_after_diagnosis(calls, diagnosed)
        hung = trace_sheets.hangs(calls)
        found.append(_Measured(path, calls, diagnosed, alpha, facts, sheets, hung, predicted, commands))
    return found


def _predicted(calls: Calls, results: Path) -> str:
    from offbeat.predict import delays, prediction
    from offbeat.reports import prediction_sheets

    try:
        prediction.check_ranks(calls)
        measured = delays.read(results, calls.trace.ranks, len(set(calls.trace.hosts.values())))
        return prediction_sheets.one_line_summary(prediction.predict(calls, measured))
    except CommandError as error:
        return f"No prediction: {error}."


def _print_json(traces: list[_Measured], benches: list[bench_file.BenchFile]) -> None:
    from offbeat.reports import report_json

    found = [report_json.json_of_trace(each.calls, each.diagnosis, each.commands) for each in traces]
    print_json(report_json.json_of_report(found, benches))


def _print_trace(console: Console, measured: _Measured) -> None:
    from offbeat.reports.next_commands import MEASURE

    _print_heading(console, f"Trace {measured.path}", measured.facts)
    console.print(Text("What matters", style="bold"))
    for line in measured.first:
        console.print(Text(line))
    _print_warnings(console, measured.calls.trace.missing)
    console.print()
    diagnosis = measured.diagnosis
    for number, (finding, advice) in enumerate(
        zip(diagnosis.findings, diagnosis.advice, strict=True), start=1
    ):
        console.print(Text(f"{number}. {finding.sentence}", style="bold"))
        for line in finding.details:
            console.print(Text(f"   - {line}"))
        console.print(Text(f"   {advice}"))
        console.print()
    if measured.commands:
        console.print(Text(MEASURE))
        for command in measured.commands:
            console.print(Text(f"  {command}", style="dim"), soft_wrap=True)
        console.print()
    _print_sheets(console, measured.sheets)


def _print_heading(
    console: Console, title: str, facts: list[tuple[str, str]], warnings: Sequence[str] = ()
) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(Text(f"  {name:<{width}}  {value}"))
    _print_warnings(console, warnings)
    console.print()


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for line in warnings:
        console.print(Text(f"  missing: {line}", style="dark_orange"), soft_wrap=True)


def _print_sheets(console: Console, sheets: list[Sheet]) -> None:
    for sheet in sheets:
        console.print(to_terminal(sheet), "")


def _write_figures(
    traces: list[_Measured],
    benches: list[bench_file.BenchFile],
    output: Path | None,
    folder: Path | None,
    console: Console,
) -> None:
    from offbeat.reports import figures, next_commands, page

    sections = []
    for number, measured in enumerate(traces, start=1):
        drawn = figures.figures_of_trace(measured.calls, measured.diagnosis)
        sections += page.trace_sections(
            str(measured.path),
            measured.facts,
            measured.calls.trace.missing,
            measured.first,
            measured.diagnosis,
            next_commands.MEASURE,
            measured.commands,
            drawn,
            measured.sheets,
            prefix=f"trace-{number}-" if len(traces) > 1 else "",
        )
    for number, bench in enumerate(benches, start=1):
        sections += page.bench_sections(
            str(bench.path),
            bench.facts,
            bench.warnings,
            figures.figures_of_bench(bench.rows),
            bench_sheets.sheets(bench.rows),
            prefix=f"bench-{number}-" if len(benches) > 1 else "",
        )
    if output is not None:
        names = ", ".join(str(path) for path in [*(t.path for t in traces), *(b.path for b in benches)])
        write_text(output, page.render(f"offbeat report: {names}", __version__, sections))
        console.print(f"Wrote {output}", soft_wrap=True)
    if folder is not None:
        from offbeat.reports import images

        every = [figure for section in sections for figure in section.figures]
        written = images.write(every, folder)
        console.print(f"Wrote {format_count(len(written), 'file')} to {folder}", soft_wrap=True)


COMMAND = Command(report)
