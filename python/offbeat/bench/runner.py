# SPDX-License-Identifier: BSD-3-Clause
"""Run the jobs of a benchmark by the measuring ranks (src/mpi/bench), and store their results."""

from __future__ import annotations

import fcntl
import hashlib
import math
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from offbeat import __version__, machine
from offbeat.bench import arrival_patterns, rank_processes
from offbeat.bench.plan import Call, Cell, Job, Plan
from offbeat.bench.records import Records
from offbeat.bench.results import Benchmark
from offbeat.errors import CommandError
from offbeat.mpi import launch, libraries
from offbeat.mpi.choice import Choice
from offbeat.units import Skew, parse_skew

NativeUs = Mapping[Call, float]  # the host's medians when no rank is late

_SHARED_FILES = ("output", "arrivals", "cells", "gate")  # files that the ranks share with this process
# How long a call under way, and the job, may run after the deadline.
_GRACE_AFTER_DEADLINE_S = 10.0
# The beginnings of the environment variables that change what the ranks run.
_DESCRIBED_VARIABLES = (
    "OFFBEAT_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPIR_CVAR_", "MPICH_", "I_MPI_", "HYDRA_",
    "FI_", "UCX_",
)  # fmt: skip


# -- the conditions of a benchmark


def describe_run(plan: Plan, choice: Choice) -> dict[str, Any]:
    """The fields of the file that describe the machine, the MPI, offbeat and the environment."""
    install = choice.install
    library = libraries.preload_library(install.preload)
    variables = {**os.environ, **choice.variables}
    return {
        "offbeat": {
            "version": __version__,
            "library": str(library),
            "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
        },
        "started": timestamp(),
        "updated": timestamp(),
        "machine": machine.description(),
        "mpi": {
            "vendor": install.vendor,
            "version": install.version,
            "family": install.family,
            "libmpi": str(install.libmpi),
            "mpirun": str(install.mpirun),
        },
        "binding": {
            "mpirun_arguments": list(plan.mpirun_arguments),
            "cpus": [],
            "shares_cores": plan.ranks > machine.cpus(),
        },
        "environment": {
            name: variables[name] for name in sorted(variables) if name.startswith(_DESCRIBED_VARIABLES)
        },
        "patterns": {name: _described_pattern(name, plan) for name in plan.patterns},
    }


def _described_pattern(pattern: str, plan: Plan) -> dict[str, Any]:
    rounds = arrival_patterns.rounds(pattern, plan.ranks, plan.seed)
    means = [round(statistics.fmean(delays), 6) for delays in zip(*rounds, strict=True)]
    return {"summary": arrival_patterns.summary(pattern), "mean": means}


def add_header(benchmark: Benchmark, header: Mapping[str, Any]) -> None:
    """Add the facts that only the ranks know."""
    benchmark.about["binding"]["cpus"] = header.get("cpus", [])
    for name in ("hosts", "clock_residual_ns"):
        benchmark.about[name] = header.get(name)


def timestamp() -> str:
    """The time for a file."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def refuse_other(earlier: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Refuse to resume a file under other conditions: machine, MPI, offbeat or environment."""
    for field, what in (("machine", "machine"), ("mpi", "MPI"), ("environment", "environment")):
        _refuse_difference(earlier.get(field), now[field], what, path)
    builds = [side.get("offbeat", {}) for side in (earlier, now)]
    if any(builds[0].get(name) != builds[1].get(name) for name in ("version", "sha256")):
        raise CommandError(
            f"{path} was measured with another build of offbeat ({_build(builds[0])}, this one is "
            f"{_build(builds[1])}), so new times do not belong with its own; start anew with another file or "
            "--force"
        )


def _build(of: Mapping[str, Any]) -> str:
    return f"{of.get('version', 'unknown')}, {str(of.get('sha256', 'unknown'))[:8]}"


def _refuse_difference(earlier: Any, now: Mapping[str, Any], what: str, path: Path) -> None:
    earlier = earlier if isinstance(earlier, dict) else {}
    for name in sorted({*earlier, *now}):
        if earlier.get(name) != now.get(name):
            raise CommandError(
                f"{path} is of another {what} and cannot be resumed here: {name} was "
                f"{earlier.get(name, 'unset')}, now it is {now.get(name, 'unset')}"
            )


# -- the jobs


def rank_arguments(
    job: Job, plan: Plan, files: Mapping[str, Path], *, deadline: float, share_cores: bool
) -> list[str]:
    """The arguments of the measuring ranks, as src/mpi/bench/options.cpp reads them."""
    arguments = []
    for name in _SHARED_FILES:
        arguments += [f"--{name}", str(files[name])]
    for algorithm in job.algorithms:
        arguments += ["--algorithm", algorithm]
    arguments += ["--deadline", f"{deadline:.3f}", "--max-iterations", str(plan.max_iterations)]
    arguments += ["--same-buffers"] if plan.same_buffers else []
    arguments += ["--all-iterations"] if plan.all_iterations else []
    arguments += ["--warm-up", str(plan.warm_up)] if plan.warm_up is not None else []
    if plan.computing is not None:
        arguments += ["--computing", _as_numbers(plan.computing)]
        arguments += ["--asleep"] if plan.asleep else []
    return [*arguments, "--yield"] if share_cores else arguments


def _as_numbers(skew: Skew) -> str:
    return f"{skew.factor or 0.0!r} {skew.microseconds or 0.0!r}"


def _cell_line(cell: Cell, native_us: float) -> str:
    where = f"{cell.collective} {cell.size_bytes} {cell.pattern} {cell.skew}"
    data = f"{cell.type} {cell.operation} {cell.root} {int(cell.in_place)}"
    return f"{where} {_as_numbers(parse_skew(cell.skew))} {native_us!r} {data}\n"


def _write_files(job: Job, plan: Plan, native_us: NativeUs, files: Mapping[str, Path]) -> None:
    arrivals = arrival_patterns.delays_as_text(list(plan.patterns), plan.ranks, plan.seed)
    files["arrivals"].write_text(arrivals, encoding="utf-8")
    lines = [_cell_line(c, native_us.get(c.call, 0.0)) for c in job.cells]
    files["cells"].write_text("".join(lines), encoding="utf-8")
    files["gate"].write_bytes(bytes(mmap.PAGESIZE))


def job_command(
    job: Job, plan: Plan, choice: Choice, files: Mapping[str, Path], *, deadline: float
) -> launch.Launch:
    """The mpirun command of a job."""
    install = choice.install
    starter, bench = libraries.bench_files(install.family)
    base = dict(os.environ)
    share_cores = plan.ranks > machine.cpus()
    ranks = rank_arguments(job, plan, files, deadline=deadline, share_cores=share_cores)
    request = launch.Request(
        install=install,
        ranks=plan.ranks,
        program=[str(starter), str(install.libmpi), str(bench), *ranks],
        libraries=[libraries.preload_library(install.preload)],
        mpirun_arguments=plan.mpirun_arguments,
        variables={**choice.variables, **job.variables},
        launcher=plan.launcher,
    )
    slots = None if machine.in_batch_job(base) else machine.cores()
    return launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)


def path_of_partial_records(path: Path) -> Path:
    """The file beside ``path`` in which the ranks write while they measure."""
    return path.with_name(f"{path.name}.part")


def records_of_killed_run(path: Path, records: Records | None = None) -> Records | None:
    """The records that a killed run left beside the file ``path``, if there are any. Removes nothing.

    They are added to ``records``, by default to new ones.
    """
    part = path_of_partial_records(path)
    if not part.exists():
        return None
    with part.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(f"ranks of an earlier run still write to {part}; stop them first") from None
        records = Records() if records is None else records
        *lines, _ = file.read().split(b"\n")  # the last one may be cut
        for number, line in enumerate(lines, start=1):
            records.add(line, f"{part}, line {number},")
    return records


def add_results_of_killed_run(benchmark: Benchmark, path: Path) -> int:
    """Add the results that a killed run left beside its file. Returns how many there were."""
    records = records_of_killed_run(path)
    if records is None:
        return 0
    benchmark.add(records.results)
    add_header(benchmark, records.header)
    benchmark.write(path)
    path_of_partial_records(path).unlink()
    return len(records.results)


def run(
    benchmark: Benchmark,
    choice: Choice,
    *,
    path: Path | None = None,
    budget_s: float | None = None,
    native_us: NativeUs | None = None,
    on_change: Callable[[Records, float], None] = lambda records, deadline: None,
    show_output: bool = False,
    shared_folder: Path | None = None,
) -> None:
    """Measure the missing results until the budget is spent. Finished results survive any kind of end.

    ``shared_folder`` is one that all nodes see, for the files of a job; None: the ranks are on this node.
    ``path`` is the file of the benchmark. ``on_change`` is called with everything that the ranks have written
    so far and with the deadline as Unix time.
    """
    plan = benchmark.plan
    started = time.time()
    deadline = started + (plan.budget_s if budget_s is None else budget_s)
    jobs = _unfinished_jobs(benchmark)
    seconds_before = benchmark.seconds
    while jobs and time.time() < deadline:
        weights = [len(job.cells) * len(job.algorithms) for job in jobs]
        until = time.time() + (deadline - time.time()) * weights[0] / sum(weights)
        job = jobs.pop(0)
        records = Records()
        try:
            run_job(
                job,
                plan,
                choice,
                records,
                until=until,
                native_us={**benchmark.native_us(), **(native_us or {})},
                path=path,
                on_change=lambda seen: on_change(seen, deadline),
                show_output=show_output,
                shared_folder=shared_folder,
            )
        finally:
            benchmark.add(records.results)
            benchmark.seconds = seconds_before + time.time() - started
            benchmark.about["updated"] = timestamp()
            add_header(benchmark, records.header)
            if path is not None:
                benchmark.write(path)
                path_of_partial_records(path).unlink(missing_ok=True)


def _unfinished_jobs(benchmark: Benchmark) -> list[Job]:
    missing = benchmark.missing()
    jobs = []
    for job in benchmark.jobs():
        wanted = {cell for cell, algorithm in missing if algorithm in job.algorithms}
        if wanted:
            jobs.append(job._replace(cells=[cell for cell in job.cells if cell in wanted]))
    return jobs


def run_job(
    job: Job,
    plan: Plan,
    choice: Choice,
    records: Records,
    *,
    until: float,
    native_us: NativeUs,
    path: Path | None = None,
    on_change: Callable[[Records], None] = lambda records: None,
    show_output: bool = False,
    grace_s: float | None = None,
    silence_s: float = math.inf,
    shared_folder: Path | None = None,
) -> None:
    """Run one job until its time is over. Fills ``records`` while it runs, and also if the job fails.

    The ranks stop at ``until``, a Unix time. They are ended ``grace_s`` later, or as soon as they have
    written nothing for ``silence_s``; both raise CommandError. If ``path`` is the file of a benchmark, the
    ranks write beside it (``path_of_partial_records``), so that their results survive a kill of this process.
    """
    shared = shared_folder or _shared_folder(plan)
    with tempfile.TemporaryDirectory(prefix=".offbeat-bench-", dir=shared) as folder:
        files = {name: Path(folder) / name for name in _SHARED_FILES}
        if path is not None:
            files["output"] = path_of_partial_records(path)
        _write_files(job, plan, native_us, files)
        built = job_command(job, plan, choice, files, deadline=until)
        limits = rank_processes.Limits(
            until + (_GRACE_AFTER_DEADLINE_S if grace_s is None else grace_s), silence_s
        )
        rank_processes.follow(
            built, Path(folder), files["output"], limits, records, on_change, show_output=show_output
        )


def _shared_folder(plan: Plan) -> str | None:
    """A folder that other hosts see as well. None: /tmp will do, as all ranks are on this host."""
    elsewhere = plan.launcher is not None or machine.in_batch_job(os.environ)
    return os.getcwd() if elsewhere and os.access(os.getcwd(), os.W_OK) else None


def measure(plan: Plan, choice: Choice, native_us: NativeUs | None = None) -> Benchmark:
    """Run a benchmark without a file."""
    benchmark = Benchmark(plan, describe_run(plan, choice))
    run(benchmark, choice, native_us=native_us)
    return benchmark
