# SPDX-License-Identifier: BSD-3-Clause
"""offbeat calibrate: measure this machine, and write it as a machine file."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from offbeat import files
from offbeat import machine as this_machine
from offbeat.bench import plan as plans
from offbeat.bench import runner
from offbeat.bench.plan import Plan
from offbeat.bench.records import Records
from offbeat.bench.results import Benchmark
from offbeat.commands.bench import ended_by_signals, refuse_others
from offbeat.commands.options import (
    HostFile,
    HostNames,
    Launcher,
    MpiOfNoProgram,
    MpirunArgs,
    Ranks,
    Verbose,
    checked_output,
    checked_ranks,
    start_options,
    warn_of_load,
    write_text,
)
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import FAILED, INTERRUPTED, CommandError
from offbeat.mpi.choice import Choice, choose
from offbeat.reports.sheet import to_terminal
from offbeat.simulate.simulation import MOST_RANKS
from offbeat.units import format_duration, parse_duration_s

if TYPE_CHECKING:
    from offbeat.calibrate.session import Goal

_PLAIN_WIDTH = 120  # columns of output that goes to a file or a pipe
_OPTIONS_WITH_RESUME = {"resume", "budget", "output", "json_file", "verbose"}
_BUDGET_SHARE_OF_MESSAGES = 0.6  # of the budget; the rest is for the algorithms
_MOST_RANK_COUNTS = 4
_NO_ALGORITHM = "none"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(calibrate)


def calibrate(
    context: typer.Context,
    ranks: Ranks = 2,
    mpi: MpiOfNoProgram = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The machine file to write.")
    ] = Path("machine.toml"),
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="All measurements, and the parameters with their intervals. Default: beside the machine "
            "file, as .json.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit of the whole command, such as 90s, 5min or 1h.")
    ] = "5min",
    algorithms: Annotated[
        str,
        typer.Option(
            metavar="EXPR,...|none",
            help="Algorithms of allreduce that get parameters of their own, also native(NAME). Default: the "
            "six of paper 2, and those of the MPI that have a cost formula.",
        ),
    ] = "",
    algorithm_ranks: Annotated[
        str,
        typer.Option(
            metavar="N,...",
            help="The numbers of ranks that the algorithms run on. Default: powers of two up to -n, and -n.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the machine. Default: that of this host.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of the random sizes.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Measure more for the calibration of FILE, with a new budget.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files.")] = False,
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    verbose: Verbose = 0,
) -> None:
    """Measure this machine, and write it as a machine file.

    offbeat calibrate -n 8 -o my.toml --budget 10min

    `offbeat simulate --machine my.toml` reads the file. Each parameter has a 95% interval; one whose interval
    holds zero is left out. Use as many ranks on a node as your programs do, and at least two nodes.

    offbeat calibrate -n 16 --hosts node1:8,node2:8 -o my.toml
    """
    from offbeat.calibrate import session as sessions  # needs numpy and scipy

    budget_s = parse_duration_s(budget)
    if output.is_dir():
        raise CommandError(f"-o {output}: it is a folder")
    path = json_file or output.with_suffix(".json")
    if path == output:
        raise CommandError(f"{output}: the machine file needs another name than the measurements")
    context.with_resource(files.locked_for_writing(path))
    if resume:
        refuse_others(context, _OPTIONS_WITH_RESUME)
        session = sessions.read(path)
        choice = choose(str(session.about["mpi"].get("libmpi")), None, [], os.environ)
        plan = _plan(session.goal)
        runner.refuse_other(session.about, runner.describe_run(plan, choice), path)
        joined = session.take_part(path)
        left = f" ({joined} of them left by a run that was killed)" if joined else ""
        why = f"continues {path}, which has {len(session.results)} results{left}"
        choice = replace(choice, why=why)
    else:
        if ranks < 2:
            raise CommandError(f"-n {ranks}: messages need at least 2 ranks")
        checked_ranks(ranks, most=MOST_RANKS)
        for file in (output, path):
            checked_output(file, force=force)
        choice = choose(mpi, None, [], os.environ)
        expressions = _algorithms(algorithms, choice)
        place = start_options(ranks, launcher, hosts, hostfile, mpirun_args)
        goal = sessions.Goal(
            ranks=ranks,
            name=name or str(this_machine.description()["host"]),
            algorithms=expressions,
            algorithm_ranks=_rank_counts(algorithm_ranks, ranks) if expressions else [],
            seed=seed,
            mpirun_arguments=place.arguments(choice.install),
            launcher=launcher,
        )
        for count in goal.algorithm_ranks:
            own = sessions.benchmark_path(path, count)
            checked_output(own, force=force)
            own.unlink(missing_ok=True)
            runner.path_of_partial_records(own).unlink(missing_ok=True)
        runner.path_of_partial_records(path).unlink(missing_ok=True)
        session = sessions.Session(goal, runner.describe_run(_plan(goal), choice))
    warn_of_load()
    _Run(session, choice, output, path, budget_s, verbose=verbose > 0).run()


def _plan(goal: Goal) -> Plan:
    """A plan for the description of the job in the file."""
    return Plan(
        ranks=goal.ranks,
        sizes_bytes=[8],
        algorithms=["native"],
        mpirun_arguments=goal.mpirun_arguments,
        launcher=goal.launcher,
    )


def _algorithms(text: str, choice: Choice) -> list[str]:
    from offbeat.calibrate import session as sessions

    if text == _NO_ALGORITHM:
        return []
    if not text:
        return sessions.named_algorithms(choice)
    names = [name for name in plans.parse_algorithms(text) if name != "native"]
    sessions.check_algorithms(choice, names)
    return names


def _rank_counts(text: str, ranks: int) -> list[int]:
    if not text:
        powers = [1 << k for k in range(1, ranks.bit_length()) if 1 << k <= ranks]
        return sorted({*powers, ranks})[-_MOST_RANK_COUNTS:]
    counts = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 2 <= int(word) <= ranks:
            raise CommandError(f"--algorithm-ranks {word}: not a number of ranks from 2 to {ranks}")
        counts.append(int(word))
    return sorted(set(counts))


def too_few_line(cases: Mapping[str, int]) -> str:
    """The line about algorithms for which the budget was too short, up to the command that measures more."""
    from offbeat.calibrate.hockney import LEAST_CASES

    least, most = min(cases.values()), max(cases.values())
    measured = f"{most}" if least == most else f"{least} to {most}"
    each = " each" if len(cases) > 1 else ""
    return (
        f"Left out: {', '.join(cases)}: the budget was too short: {measured} cases{each} were measured, and "
        f"a fit needs {LEAST_CASES}. To measure more:"
    )


class _Run:
    """The work of one command."""

    def __init__(
        self, session: Any, choice: Choice, output: Path, path: Path, budget_s: float, *, verbose: bool
    ) -> None:
        self._session = session
        self._choice = choice
        self._output = output
        self._path = path
        self._began = time.time()
        self._budget_s = budget_s
        self._verbose = verbose
        self._line = ProgressLine()
        self._console = Console(
            width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, markup=False
        )

    def run(self) -> None:
        from offbeat.calibrate import session as sessions

        session, path = self._session, self._path
        self._console.print(
            f"{session.goal.ranks} ranks, {self._choice.install}: {self._choice.why}", soft_wrap=True
        )
        self._session.write(path)
        write_text(self._output, "")  # fails now, not after all measurements
        self._output.unlink()
        benchmarks: list[Benchmark] = []
        try:
            with ended_by_signals():
                sessions.find_layout(session, self._choice, path)
                level = sessions.level_of_nodes(session)
                counts = session.goal.algorithm_ranks if level is not None else []
                if level is None and session.goal.algorithms:
                    self._line.say(
                        "several ranks on each of several nodes: no cost formula has that, so no algorithm "
                        "gets parameters; start one rank on each node for them"
                    )
                share = _BUDGET_SHARE_OF_MESSAGES if counts else 1.0
                sessions.measure_messages(
                    session,
                    self._choice,
                    path,
                    self._began + share * self._budget_s,
                    lambda records: self._line.show(self._text(records.doing)),
                    show_output=self._verbose,
                )
                self._line.clear()
                self._write([])
                for number, count in enumerate(counts):
                    benchmarks.append(self._measure_algorithms(count, len(counts) - number))
        except KeyboardInterrupt:
            self._line.clear()
            self._stop_interrupted()
        finally:
            self._line.clear()
        self._show(*self._write(benchmarks))

    def _text(self, doing: str) -> str:
        passed = time.time() - self._began
        return f"{format_duration(passed)} of {format_duration(self._budget_s)}: {doing}"

    def _measure_algorithms(self, ranks: int, left: int) -> Benchmark:
        from offbeat.calibrate import session as sessions

        found = sessions.benchmark(self._session, self._choice, self._path, ranks)
        own = sessions.benchmark_path(self._path, ranks)
        seconds = (self._began + self._budget_s - time.time()) / left
        if found.missing() and seconds > 0:

            def on_change(records: Records, deadline: float) -> None:
                self._line.show(self._text(f"{ranks} ranks, {records.doing}"))

            before = found.seconds
            runner.run(
                found,
                self._choice,
                path=own,
                budget_s=seconds,
                on_change=on_change,
                show_output=self._verbose,
                shared_folder=own.absolute().parent if len(self._session.layout.nodes) > 1 else None,
            )
            self._session.seconds += found.seconds - before
        return found

    def _write(self, benchmarks: Sequence[Benchmark]) -> tuple[Any, Any, list[str], dict[str, int]]:
        """Fit everything, and write both files."""
        from offbeat.calibrate import machine_file, parameters
        from offbeat.calibrate import session as sessions

        session = self._session
        try:
            found = parameters.fit_parameters(session.results, session.layout)
        except CommandError as error:
            raise CommandError(f"{error}; to resume: {self._resume_command()}", FAILED) from None
        fitted, refused, too_few = (
            sessions.fit_algorithms(session, found, benchmarks) if benchmarks else ([], [], {})
        )
        text = machine_file.machine_file_text(
            found,
            fitted,
            name=session.goal.name,
            source=self._source(),
            vendor=self._choice.install.vendor,
            level=sessions.level_of_nodes(session) or "between_nodes",
        )
        session.write(
            self._path,
            {
                "parameters": _finite_or_none(asdict(found)),
                "algorithms": [_finite_or_none(asdict(each)) for each in fitted],
            },
        )
        write_text(self._output, text)
        return found, fitted, [*found.refused, *refused], too_few

    def _source(self) -> str:
        session, install = self._session, self._choice.install
        nodes = len(session.layout.nodes)
        return (
            f"offbeat calibrate, {session.about['updated']}: {session.goal.ranks} ranks on {nodes} "
            f"node{'s' if nodes > 1 else ''}, {install.vendor} {install.version}, "
            f"{session.about['machine']['processor']}"
        )

    def _show(self, found: Any, fitted: Any, refused: Sequence[str], too_few: Mapping[str, int]) -> None:
        from offbeat.calibrate import machine_file
        from offbeat.reports import calibration_sheets

        for sheet in calibration_sheets.sheets(found, fitted):
            self._console.print(to_terminal(sheet))
        for line in refused:
            self._console.print(f"Left out: {line}", soft_wrap=True)
        if too_few:
            self._console.print(f"{too_few_line(too_few)} {self._resume_command()}", soft_wrap=True)
        session = self._session
        took = f"{format_duration(time.time() - self._began)} of {format_duration(self._budget_s)}"
        cost = f"cost in all: {session.core_seconds:.0f} core-seconds"
        self._console.print(
            f"Took {took}; {cost}. Machine: {self._output}. Measurements: {self._path}", soft_wrap=True
        )
        if (advice := machine_file.advice_for_missing_level(found)) is not None:
            self._console.print(advice, soft_wrap=True)

    def _resume_command(self) -> str:
        own = f" --json {self._path}" if self._path != self._output.with_suffix(".json") else ""
        return f"offbeat calibrate --resume -o {self._output}{own}"

    def _stop_interrupted(self) -> NoReturn:
        print(
            f"offbeat: interrupted; all measurements are kept. To resume: {self._resume_command()}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)


def _finite_or_none(value: Any) -> Any:
    """The value for JSON, which has no infinity."""
    if isinstance(value, dict):
        return {name: _finite_or_none(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_or_none(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
