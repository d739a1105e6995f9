# SPDX-License-Identifier: BSD-3-Clause
"""offbeat calibrate: measure this machine, and write it as a machine file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offbeat import machine as this_machine
from offbeat.bench import plan as plans
from offbeat.bench import runner
from offbeat.commands.command_line import Command, Context, Option
from offbeat.commands.measuring import PART_OF_PLAN, ended_by_signals, refuse_others, stop_interrupted
from offbeat.commands.options import (
    Budget,
    HostFile,
    HostNames,
    Launcher,
    MpiOfNoProgram,
    MpirunArgs,
    Ranks,
    Verbose,
    checked_ranks,
    parse_numbers,
    start_options,
)
from offbeat.commands.output import checked_output, hold, new_console, warn_of_load, write_text
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import CommandError
from offbeat.mpi.choice import Choice, choose
from offbeat.mpi.launcher import ranks_on
from offbeat.reports.sheet import to_terminal
from offbeat.units import format_count, format_duration, parse_duration_s

if TYPE_CHECKING:
    from offbeat.calibrate.session import Session

_OPTIONS_WITH_RESUME = {"resume", "budget", "output", "json_file", "verbose"}
_MOST_RANK_COUNTS = 4
_NO_ALGORITHM = "none"


def calibrate(
    context: Context,
    ranks: Ranks = 2,
    mpi: MpiOfNoProgram = None,
    output: Annotated[
        Path, Option("-o", "--output", metavar="FILE", help="The machine file to write.")
    ] = Path("machine.toml"),
    json_file: Annotated[
        Path | None,
        Option(
            "--json",
            metavar="FILE",
            help="All measurements, and the parameters with their intervals. Default: beside the machine "
            "file, as .json.",
        ),
    ] = None,
    budget: Budget = "5min",
    algorithms: Annotated[
        str,
        Option(
            metavar="EXPR,...|none",
            help="Algorithms of allreduce that get parameters of their own, also native(NAME). Default: the "
            "six of paper 2, and those of the MPI that have a cost formula.",
        ),
    ] = "",
    algorithm_ranks: Annotated[
        str,
        Option(
            metavar="N,...",
            help="The numbers of ranks that the algorithms run on. Default: powers of two up to -n, and -n.",
        ),
    ] = "",
    name: Annotated[
        str, Option(metavar="NAME", help="The name of the machine. Default: that of this host.")
    ] = "",
    seed: Annotated[int, Option(help="Seed of the random sizes.")] = 1,
    resume: Annotated[
        bool, Option("--resume", help="Measure more for the calibration of FILE, with a new budget.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Overwrite the files.")] = False,
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

    offbeat calibrate --hosts node1:8,node2:8 -o my.toml
    """
    from offbeat.calibrate import session as sessions  # needs numpy and scipy

    budget_s = parse_duration_s(budget)
    if output.is_dir():
        raise CommandError(f"-o {output}: it is a folder")
    path = json_file or output.with_suffix(".json")
    if path == output:
        raise CommandError(f"{output}: the machine file needs another name than the measurements")
    hold(context, path, "--json")
    if resume:
        refuse_others(context, _OPTIONS_WITH_RESUME, PART_OF_PLAN)
        session, choice = _resumed(path)
    else:
        if "ranks" not in context.given and hosts is not None:
            ranks = max(ranks, ranks_on(hosts))
        if ranks < 2:
            raise CommandError(f"-n {ranks}: messages need at least 2 ranks")
        checked_ranks(ranks, most=plans.MOST_RANKS)
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
            for file in (own, runner.path_of_partial_records(own)):
                file.unlink(missing_ok=True)
        runner.path_of_partial_records(path).unlink(missing_ok=True)
        session = sessions.Session(goal, runner.describe_run(sessions.plan_of(goal), choice))
    warn_of_load()
    _run(session, choice, output, path, budget_s, verbose=verbose > 0)


def _resumed(path: Path) -> tuple[Session, Choice]:
    from offbeat.calibrate import session as sessions

    session = sessions.read(path)
    choice = choose(str(session.about["mpi"].get("libmpi")), None, [], os.environ)
    runner.refuse_other(session.about, runner.describe_run(sessions.plan_of(session.goal), choice), path)
    joined = session.take_part(path)
    left = f" ({joined} of them left by a run that was killed)" if joined else ""
    results = format_count(len(session.results), "result")
    return session, choice._replace(why=f"continues {path}, which has {results}{left}")


def _algorithms(text: str, choice: Choice) -> list[str]:
    from offbeat.calibrate import session as sessions

    if text == _NO_ALGORITHM:
        return []
    if not text:
        return sessions.algorithms_to_fit(choice)
    names = [name for name in plans.parse_algorithms(text) if name != "native"]
    sessions.check_algorithms(choice, names)
    return names


def _rank_counts(text: str, ranks: int) -> list[int]:
    if not text:
        powers = [1 << k for k in range(1, ranks.bit_length()) if 1 << k <= ranks]
        return sorted({*powers, ranks})[-_MOST_RANK_COUNTS:]
    return sorted(parse_numbers("--algorithm-ranks", text, least=2, most=ranks))


def _run(
    session: Session, choice: Choice, output: Path, path: Path, budget_s: float, *, verbose: bool
) -> None:
    from offbeat.calibrate import machine_file
    from offbeat.calibrate.calibration import Calibration
    from offbeat.reports import calibration_sheets

    console, line = new_console(width=120), ProgressLine()
    ranks = format_count(session.goal.ranks, "rank")
    console.print(f"{ranks}, {choice.install}: {choice.why}", soft_wrap=True)
    session.write(path)
    write_text(output, "")  # fails now, not after all measurements
    output.unlink()
    work = Calibration(
        session, choice, output, path, budget_s, show=line.show, say=line.say, show_output=verbose
    )
    try:
        with ended_by_signals():
            found = work.run()
    except KeyboardInterrupt:
        line.clear()
        stop_interrupted(f"; all measurements are kept. To resume: {work.resume_command}")
    finally:
        line.clear()
    for sheet in calibration_sheets.sheets(found.machine, found.algorithms):
        console.print(to_terminal(sheet))
    for left_out in found.left_out:
        console.print(f"Left out: {left_out}", soft_wrap=True)
    if found.too_few:
        too_few = calibration_sheets.too_few_line(found.too_few)
        console.print(f"{too_few} {work.resume_command}", soft_wrap=True)
    took = f"Took {format_duration(work.seconds)} of {format_duration(budget_s)}"
    cost = f"cost in all: {session.core_seconds:.0f} core-seconds"
    console.print(f"{took}; {cost}. Machine: {output}. Measurements: {path}", soft_wrap=True)
    if (advice := machine_file.advice_for_missing_level(found.machine)) is not None:
        console.print(advice, soft_wrap=True)


COMMAND = Command(calibrate)
