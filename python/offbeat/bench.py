# SPDX-License-Identifier: BSD-3-Clause
"""Start the measuring ranks (src/mpi/bench) and follow what they write."""

from __future__ import annotations

import mmap
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from offbeat import arrival, launch, libraries, machine
from offbeat.choice import Choice
from offbeat.errors import FAILED, CommandError
from offbeat.expressions import canonical, split_list
from offbeat.records import Records
from offbeat.units import Skew

MAX_ITERATIONS = 1000
_FILES = ("output", "arrivals", "cells", "gate")  # what the ranks share with this process
_POLL_S = 0.1
_LEAST_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Cell:
    """All algorithms at one size under one arrival pattern."""

    size_bytes: int
    pattern: str
    skew: Skew


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    ranks: int
    sizes_bytes: Sequence[int]
    algorithms: Sequence[str]  # canonical; the first is native
    patterns: Sequence[str]
    skews: Sequence[Skew]
    budget_s: float
    seed: int
    mpirun_arguments: Sequence[str] = ()
    # By size, what a factor of skew multiplies; the host's own balanced median where there is none.
    native_us: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def cells(self) -> list[Cell]:
        """In the order of measuring; without a skew there is one balanced cell."""
        cells = []
        for size in self.sizes_bytes:
            for pattern in self.patterns:
                skews = self.skews if arrival.is_skewed(pattern, self.ranks) else [Skew(microseconds=0.0)]
                cells += [Cell(size, pattern, skew) for skew in skews]
        return cells


def parse_algorithms(text: str) -> list[str]:
    """Canonical expressions, native first whether it is named or not."""
    named = [canonical(expression) for expression in split_list(text)]
    return list(dict.fromkeys(["native", *named]))


def rank_arguments(plan: Plan, folder: Path, *, deadline: float, share_cores: bool) -> list[str]:
    """The command line of src/mpi/bench/options.cpp."""
    arguments = []
    for name in _FILES:
        arguments += [f"--{name}", str(folder / name)]
    for algorithm in plan.algorithms:
        arguments += ["--algorithm", algorithm]
    arguments += ["--deadline", f"{deadline:.3f}", "--max-iterations", str(MAX_ITERATIONS)]
    return [*arguments, "--yield"] if share_cores else arguments


def _cell_line(cell: Cell, native_us: float) -> str:
    factor, us = cell.skew.factor or 0.0, cell.skew.microseconds or 0.0
    return f"{cell.size_bytes} {cell.pattern} {factor!r} {us!r} {native_us!r}\n"


def _write_files(plan: Plan, folder: Path) -> None:
    (folder / "arrivals").write_text(arrival.as_text(list(plan.patterns), plan.ranks, plan.seed))
    lines = [_cell_line(cell, plan.native_us.get(cell.size_bytes, 0.0)) for cell in plan.cells]
    (folder / "cells").write_text("".join(lines))
    (folder / "gate").write_bytes(bytes(mmap.PAGESIZE))


def build(plan: Plan, choice: Choice, folder: Path) -> launch.Launch:
    """The mpirun call that measures; its files go to ``folder``."""
    install = choice.install
    starter, bench = libraries.bench_files(install.family)
    _write_files(plan, folder)
    base = dict(os.environ)
    deadline = time.time() + plan.budget_s
    ranks = rank_arguments(plan, folder, deadline=deadline, share_cores=plan.ranks > machine.cpus())
    request = launch.Request(
        install=install,
        ranks=plan.ranks,
        program=[str(starter), str(install.libmpi), str(bench), *ranks],
        library=libraries.preload_library(install.family),
        mpirun_arguments=plan.mpirun_arguments,
        variables=choice.variables,
    )
    slots = None if machine.in_batch_job(base) else machine.cores()
    return launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)


def run(
    plan: Plan, choice: Choice, on_change: Callable[[Records], None], *, show_output: bool = False
) -> Records:
    """Measure; ``on_change`` sees the records whenever there are more of them."""
    with tempfile.TemporaryDirectory(prefix="offbeat-bench-") as name:
        folder = Path(name)
        built = build(plan, choice, folder)
        with (folder / "said").open("wb") as output:
            job = subprocess.Popen(
                built.command, env=built.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            try:
                records = _follow(
                    job, folder / "output", on_change, max(_LEAST_PATIENCE_S, 2 * plan.budget_s)
                )
            finally:
                _end(job)
        said = (folder / "said").read_text(errors="replace").strip()
    if records.error is not None:
        raise CommandError(records.error, FAILED)
    if job.returncode != 0 or not records.ended:
        last_words = f": {said.splitlines()[0]}" if said and not show_output else ""
        text = f"the benchmark job ended with exit code {job.returncode} while {records.doing}{last_words}"
        raise CommandError(f"{text}\n{said}" if show_output else text, FAILED)
    if show_output and said:
        print(said)
    return records


def _follow(
    job: subprocess.Popen[bytes], path: Path, on_change: Callable[[Records], None], patience_s: float
) -> Records:
    records = Records()
    last_news = time.monotonic()
    rest = b""
    offset = 0
    while True:
        ended = job.poll() is not None  # before reading, so that nothing written until then is missed
        try:
            with path.open("rb") as file:
                file.seek(offset)
                news = file.read()
        except FileNotFoundError:
            news = b""
        if news:
            offset += len(news)
            *lines, rest = (rest + news).split(b"\n")
            for line in lines:
                records.add(line.decode())
            on_change(records)
            last_news = time.monotonic()
        if ended:
            return records
        if time.monotonic() - last_news > patience_s:
            raise CommandError(
                f"nothing happened for {patience_s:.0f} s while {records.doing}: a deadlock?", FAILED
            )
        time.sleep(_POLL_S)


def _end(job: subprocess.Popen[bytes]) -> None:
    """Leave no ranks behind, however this ends."""
    if job.poll() is None:
        job.terminate()
        try:
            job.wait(timeout=5)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
