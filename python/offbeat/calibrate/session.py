# SPDX-License-Identifier: BSD-3-Clause
"""One calibration: its plan, its file of measurements, and the jobs that measure.

The file has every sample, so that ``--resume`` can measure more and fit again. While ranks measure, their
results are in a file beside it (``runner.path_of_partial_records``), which outlives a kill of this process.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offbeat import machine
from offbeat.bench import rank_processes, runner
from offbeat.bench import results as bench_results
from offbeat.bench.plan import Plan
from offbeat.bench.records import Records
from offbeat.bench.results import Benchmark, read_document
from offbeat.calibrate import hockney, probes
from offbeat.calibrate.hockney import Case, Hockney
from offbeat.calibrate.parameters import Calibrated
from offbeat.calibrate.probes import Layout, Probe, Result
from offbeat.calibrate.regression import Interval
from offbeat.errors import FAILED, CommandError
from offbeat.field_types import checked
from offbeat.files import write_whole
from offbeat.mpi import host_algorithms, launch, libraries
from offbeat.mpi.choice import Choice

FORMAT = "offbeat calibrate"
VERSION = 1
_KNOWN_ABOUT = {
    "offbeat": dict, "started": str, "updated": str, "machine": dict, "mpi": dict, "binding": dict,
    "environment": dict,
}  # fmt: skip
_ROUNDS_OF_JOB = 400  # more than any budget lets the ranks run
_LAYOUT_TIMEOUT_S = 30.0
_GRACE_AFTER_DEADLINE_S = 20.0
_SILENCE_TIMEOUT_S = 60.0
# Sizes of the fits of algorithms: log-uniform would be better, but cells of a benchmark are whole floats.
ALGORITHM_SIZES = (256, 3000, 20000, 80000, 300000, 1200000)


@dataclass
class Goal:
    """What the user asked to calibrate."""

    ranks: int
    name: str
    algorithms: Sequence[str]
    algorithm_ranks: Sequence[int]
    seed: int = 1
    mpirun_arguments: Sequence[str] = field(default_factory=list)
    launcher: str | None = None


def plan_of(goal: Goal) -> Plan:
    """A plan of a benchmark with the ranks and the launcher of a goal. It describes the job in the file."""
    return Plan(
        ranks=goal.ranks,
        sizes_bytes=[8],
        algorithms=["native"],
        mpirun_arguments=goal.mpirun_arguments,
        launcher=goal.launcher,
    )


@dataclass
class Session:
    """A calibration, as its file has it."""

    goal: Goal
    about: dict[str, Any]
    results: list[Result] = field(default_factory=list)
    node_of_rank: list[int] = field(default_factory=list)
    clock_residual_ns: float = 0.0
    seconds: float = 0.0  # that ranks have measured

    @property
    def layout(self) -> Layout:
        """Which ranks share nodes and cores."""
        return Layout(self.node_of_rank, machine.cpus())

    @property
    def core_seconds(self) -> float:
        """The cost: the number of cores that the ranks had, times the seconds for which they measured."""
        nodes = len(set(self.node_of_rank)) or 1
        return self.seconds * min(self.goal.ranks, nodes * machine.cpus())

    def next_round(self) -> int:
        """The number of the first round that was not measured."""
        return max((result.round for result in self.results), default=-1) + 1

    def to_json(self) -> dict[str, Any]:
        """The head of the file; the results come after it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **self.about,
            "goal": asdict(self.goal),
            "node_of_rank": self.node_of_rank,
            "clock_residual_ns": self.clock_residual_ns,
            "seconds": round(self.seconds, 1),
            "core_seconds": round(self.core_seconds, 1),
        }

    def write(self, path: Path, more: Mapping[str, Any] | None = None) -> None:
        """Write the file, by renaming a complete one."""
        head = {**self.to_json(), **(more or {})}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        rows = ",\n  ".join(json.dumps(result.to_json()) for result in self.results)
        text = "{\n" + ",\n".join([*lines, f' "probes": [\n  {rows}\n ]']) + "\n}\n"
        write_whole(path, lambda file: file.write(text))

    def take_part(self, path: Path) -> int:
        """Add what a killed run left beside the file. Returns how many probes that are."""
        records = ProbeRecords()
        if runner.records_of_killed_run(path, records) is None:
            return 0
        self.add(records)
        self.write(path)
        runner.path_of_partial_records(path).unlink()
        return len(records.probes)

    def add(self, records: ProbeRecords) -> None:
        """Add what ranks have written."""
        self.results += records.probes
        if records.header:
            self.node_of_rank = [int(node) for node in records.header["node_of_rank"]]
            self.clock_residual_ns = float(records.header["clock_residual_ns"])


def _typed(document: Mapping[str, Any], name: str, kind: type) -> Any:
    """The value of a field. Raises KeyError if it is missing, and ValueError if it has another type."""
    if not isinstance(value := document[name], kind):
        raise ValueError(f"{name} is {value!r}"[:60])
    return value


def read(path: Path) -> Session:
    """Read the file of a calibration. Raises CommandError if it is anything else."""
    document = read_document(path, "offbeat calibrate", FORMAT, VERSION)
    try:
        found = Session(
            checked(Goal(**document["goal"])),
            {name: _typed(document, name, kind) for name, kind in _KNOWN_ABOUT.items()},
            [Result.from_json(values) for values in document["probes"]],
            [int(node) for node in document["node_of_rank"]],
            float(document["clock_residual_ns"]),
            float(document["seconds"]),
        )
        if found.goal.ranks < 1 or len(found.node_of_rank) not in (0, found.goal.ranks):
            raise ValueError(f"{len(found.node_of_rank)} of {found.goal.ranks} ranks are on nodes")
        if (found.results and not found.node_of_rank) or any(
            not 0 <= rank < found.goal.ranks for result in found.results for rank in result.ranks
        ):
            raise ValueError("a probe of ranks that there are not")
        _typed(found.about["machine"], "processor", str)
        return found
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise CommandError(f"{path} is damaged: {what}") from None


class ProbeRecords(Records):
    """What the ranks of a calibration have written."""

    def __init__(self) -> None:
        super().__init__()
        self.probes: list[Result] = []

    def _add_record(self, record: dict[str, Any]) -> None:
        if record["record"] == "probe":
            self.probes.append(Result.from_json(record))
            self.doing = f"round {self.probes[-1].round + 1}, {self.probes[-1].kind.replace('_', ' ')}"
        else:
            super()._add_record(record)


# -- messages and cores


def find_layout(session: Session, choice: Choice, path: Path) -> None:
    """Start the ranks once, to learn which nodes they are on."""
    if not session.node_of_rank:
        _run(
            session,
            choice,
            path,
            [],
            time.time() + _LAYOUT_TIMEOUT_S,
            lambda records: None,
            show_output=False,
        )


def measure_messages(
    session: Session,
    choice: Choice,
    path: Path,
    until: float,
    on_change: Callable[[ProbeRecords], None],
    *,
    show_output: bool,
) -> None:
    """Measure rounds of probes until a Unix time."""
    todo = probes.probes_of_rounds(session.layout, session.next_round(), _ROUNDS_OF_JOB, session.goal.seed)
    _run(session, choice, path, todo, until, on_change, show_output=show_output)


def _run(
    session: Session,
    choice: Choice,
    path: Path,
    todo: Iterable[Probe],
    until: float,
    on_change: Callable[[ProbeRecords], None],
    *,
    show_output: bool,
) -> None:
    records = ProbeRecords()
    lines = path.with_name(f"{path.name}.probes")  # beside the file: rank 0 may be on another host
    began = time.time()
    try:
        lines.write_text("".join(probe.line() for probe in todo), encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="offbeat-calibrate-") as folder:
            rank_processes.follow(
                _launch(session, choice, lines, runner.path_of_partial_records(path), until),
                Path(folder),
                runner.path_of_partial_records(path),
                rank_processes.Limits(until + _GRACE_AFTER_DEADLINE_S, _SILENCE_TIMEOUT_S),
                records,
                lambda _: on_change(records),
                show_output=show_output,
            )
    except OSError as error:
        raise CommandError(f"cannot write {lines}: {error.strerror}", FAILED) from None
    finally:
        lines.unlink(missing_ok=True)
        session.add(records)
        session.seconds += time.time() - began
        session.about["updated"] = runner.timestamp()
        session.write(path)
        runner.path_of_partial_records(path).unlink(missing_ok=True)


def _launch(session: Session, choice: Choice, lines: Path, output: Path, until: float) -> launch.Launch:
    install = choice.install
    starter, bench = libraries.bench_files(install.family)
    shares = session.layout.shares_cores if session.node_of_rank else session.goal.ranks > machine.cpus()
    arguments = ["--calibrate", "--probes", str(lines), "--output", str(output), "--deadline", f"{until:.3f}"]
    request = launch.Request(
        install=install,
        ranks=session.goal.ranks,
        program=[str(starter), str(install.libmpi), str(bench), *arguments, *(["--yield"] if shares else [])],
        libraries=[],
        mpirun_arguments=session.goal.mpirun_arguments,
        variables=choice.variables,
        launcher=session.goal.launcher,
    )
    base = dict(os.environ)
    slots = None if machine.in_batch_job(base) else machine.cores()
    return launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)


# -- algorithms


def benchmark_path(path: Path, ranks: int) -> Path:
    """The path of the file of offbeat bench with the times of the algorithms on ``ranks`` ranks."""
    return path.with_name(f"{path.stem}-{ranks}-ranks.json")


def benchmark(session: Session, choice: Choice, path: Path, ranks: int) -> Benchmark:
    """The times of the algorithms on ``ranks`` ranks that were measured until now."""
    own = benchmark_path(path, ranks)
    plan = Plan(
        ranks=ranks,
        sizes_bytes=ALGORITHM_SIZES,
        algorithms=["native", *session.goal.algorithms],
        seed=session.goal.seed,
        mpirun_arguments=session.goal.mpirun_arguments,
        launcher=session.goal.launcher,
    )
    if not own.exists():
        return Benchmark(plan, runner.describe_run(plan, choice))
    found = bench_results.read(own)
    runner.refuse_other(found.about, runner.describe_run(plan, choice), own)
    runner.add_results_of_killed_run(found, own)
    return found


def level_of_nodes(session: Session) -> str | None:
    """The level on which the algorithms ran, or None.

    None means several ranks on each of several nodes, for which no formula holds.
    """
    layout = session.layout
    if len(layout.nodes) == 1:
        return "within_node"
    return "between_nodes" if max(map(len, layout.nodes)) == 1 else None


def fit_algorithms(
    session: Session, found: Calibrated, benchmarks: Sequence[Benchmark]
) -> tuple[list[Hockney], list[str], dict[str, int]]:
    """The parameters of each algorithm, one line for each that has none, and those with too few cases."""
    combine = found.core.get("combine_ns_per_byte", Interval(0, 0, 0)).value
    messages = found.within_node if level_of_nodes(session) == "within_node" else found.between_nodes
    eager = messages.eager_limit_bytes if messages is not None else None
    fitted, refused, too_few = [], [], {}
    for expression in session.goal.algorithms:
        cases: list[Case] = []
        for each in benchmarks:
            cases += hockney.cases_of(each.results, each.plan.ranks, expression)
        if not hockney.has_cost_formula(cases):
            too_few[expression] = len(cases)
            continue
        one = hockney.fit_algorithm(expression, cases, combine, probes.LONGEST if eager is None else eager)
        fitted.append(one) if isinstance(one, Hockney) else refused.append(one)
    return fitted, refused, too_few


def algorithms_to_fit(choice: Choice) -> list[str]:
    """The algorithms that get parameters by default, under this MPI."""
    return hockney.usual_algorithms(choice.install.vendor, choice.install.version)


def check_algorithms(choice: Choice, names: Sequence[str]) -> None:
    """Raise CommandError for an algorithm that this MPI lacks, or that has no cost formula."""
    for name in names:
        host_algorithms.refuse_unknown_names(choice.install.vendor, ["allreduce"], name)
        if hockney.formula_of(name) is None:
            raise CommandError(f"--algorithms {name}: it has no cost formula, so nothing can be fitted")
