# SPDX-License-Identifier: BSD-3-Clause
"""Run a host alone with an export, and see whether the algorithms that it names take effect.

Each cell is measured by the host as it is, by the host with the variables that force one algorithm (those
with which ``offbeat bench`` measured it), and by the host with the export. The algorithm has taken effect if
the signature (export_probe.py) is that of the forced one and not that of the default. Some algorithms have no
signature of their own, above all on two ranks: these have taken effect if the call is faster than before.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from offbeat import machine
from offbeat.bench.rank_processes import end_job
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import host_algorithms, launch
from offbeat.mpi.install import MpiInstall
from offbeat.rules.export import Export
from offbeat.rules.export_choices import Table
from offbeat.units import format_count

# How the effect was seen. The last three: it was not, or does harm.
ORDER, TIME, NOT_FASTER, SLOWER, NO_EFFECT = "order", "time", "not faster", "slower", "no effect"
_PROBE_SCRIPT = Path(__file__).with_name("export_probe.py")
_PROBE_ROUNDS = 3
_TIMING_S = 0.1  # of timing, for each cell in each round
_LATE_RANK_AWAY_S = (0.15, 0.6)  # how long the late rank stays away; longer in the second attempt
# A job may take at most this long: to start, and for each cell.
_START_S, _CELL_S = 120, 10

Key = tuple[str, int]  # collective and size


@dataclass(frozen=True)
class SeenEffect:
    """What the check saw in one cell."""

    ranks: int
    collective: str
    size_bytes: int
    name: str
    default_us: float
    exported_us: float
    by: str  # ORDER (of messages or operands), TIME, NOT_FASTER, SLOWER or NO_EFFECT

    @property
    def has_effect(self) -> bool:
        """Whether the export may name the algorithm."""
        return self.by in (ORDER, TIME)


@dataclass(frozen=True)
class Host:
    """How to run the host alone."""

    install: MpiInstall
    variables: Mapping[str, str]  # those that make a program load this MPI
    on_start: Callable[[str], None] = lambda what: None


@dataclass(frozen=True)
class _ProbedCell:
    signature: str
    time_us: float


def check(export: Export, folder: Path, table: Table, settings: str, host: Host) -> list[SeenEffect]:
    """Run the host with the files in ``folder``. Raises CommandError if it fails or has wrong results."""
    named = {(c, size): name for ranks, c, size, name in export.named if ranks == table.ranks}
    exported = export.variables(settings, folder)
    run_with_files(export, folder, table, settings, host)
    times: list[tuple[dict[Key, _ProbedCell], dict[Key, _ProbedCell]]] = []
    by: dict[Key, str] = {}
    for attempt in range(_PROBE_ROUNDS):
        # The first round also looks at signatures. A second attempt gives slow machines more time.
        unseen = _without_effect(named, by) if attempt < len(_LATE_RANK_AWAY_S) else {}
        patience = _LATE_RANK_AWAY_S[attempt] if unseen else 0.0
        default, found = (
            _run_probe(
                host, table, variables, list(named), what, seconds=_TIMING_S, patience=patience, looked=unseen
            )
            for variables, what in (({}, ""), (exported, "with the export"))
        )
        times.append((default, found))
        forced = _cells_with_forced_names(host, table, unseen, patience)
        by |= {key: _kind_of_effect(default[key], found[key], cell) for key, cell in forced.items()}
    seen = []
    for (collective, size), name in named.items():
        key = (collective, size)
        default_us = [default[key].time_us for default, _ in times]
        exported_us = [found[key].time_us for _, found in times]
        medians = statistics.median(default_us), statistics.median(exported_us)
        how = _effect_by_times(by[key], default_us, exported_us)
        seen.append(SeenEffect(table.ranks, collective, size, name, *medians, how))
    return seen


def _cells_of_table(table: Table) -> list[Key]:
    return [(c, choice.size_bytes) for c, choices in table.choices.items() for choice in choices]


def _without_effect(named: Mapping[Key, str], by: Mapping[Key, str]) -> dict[Key, str]:
    return {key: name for key, name in named.items() if by.get(key, NO_EFFECT) == NO_EFFECT}


def _kind_of_effect(default: _ProbedCell, found: _ProbedCell, forced: _ProbedCell) -> str:
    """How the effect in a cell can be seen: by ORDER, only by TIME, or NO_EFFECT."""
    if found.signature != forced.signature:
        return NO_EFFECT
    return ORDER if default.signature != forced.signature else TIME


def _effect_by_times(by: str, default_us: Sequence[float], exported_us: Sequence[float]) -> str:
    """How the effect was seen, after a look at the times of all rounds."""
    if by == ORDER and min(exported_us) > max(default_us):
        return SLOWER
    if by == TIME and statistics.median(exported_us) >= statistics.median(default_us):
        return NOT_FASTER
    return by


def run_with_files(export: Export, folder: Path, table: Table, settings: str, host: Host) -> None:
    """Run the host once with the files in ``folder``.

    Raises CommandError if it fails or has wrong results.
    """
    _run_probe(host, table, export.variables(settings, folder), _cells_of_table(table), "with the export")


def _cells_with_forced_names(
    host: Host, table: Table, named: Mapping[Key, str], patience: float
) -> dict[Key, _ProbedCell]:
    """The cells with the algorithms that are named, forced by the variables of ``offbeat bench``."""
    found: dict[Key, _ProbedCell] = {}
    for batch in _batches(list(named), named):
        variables = _forcing_variables(host.install.vendor, {key[0]: named[key] for key in batch})
        found |= _run_probe(
            host, table, variables, batch, "with forced algorithms", patience=patience, looked=batch
        )
    return found


def _batches(cells: Sequence[Key], named: Mapping[Key, str]) -> list[list[Key]]:
    """The cells, such that no collective has two algorithms in one batch."""
    by_collective: dict[str, dict[str, list[Key]]] = {}
    for key in cells:
        by_collective.setdefault(key[0], {}).setdefault(named[key], []).append(key)
    columns = [list(by_name.values()) for by_name in by_collective.values()]
    return [[key for group in row for key in group or []] for row in zip_longest(*columns)]


def _forcing_variables(vendor: str, names: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for collective, name in names.items():
        found |= host_algorithms.variables(vendor, collective, name)
    return found


def _run_probe(
    host: Host,
    table: Table,
    variables: Mapping[str, str],
    cells: Sequence[Key],
    what: str,
    *,
    seconds: float = 0.0,
    patience: float = 0.0,
    looked: Collection[Key] = (),
) -> dict[Key, _ProbedCell]:
    """One job of the host alone. It takes the signatures of the cells in ``looked``."""
    doing = f"{host.install.vendor} {what}".strip()
    host.on_start(f"{doing}, {format_count(table.ranks, 'rank')}")
    base = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OFFBEAT_") and name != "LD_PRELOAD"
    }
    with tempfile.TemporaryDirectory(prefix="offbeat-export-") as folder:
        output = Path(folder) / "seen.json"
        program = [
            sys.executable, "-I", "-S", str(_PROBE_SCRIPT), str(host.install.libmpi), host.install.family,
            str(output), str(seconds), str(patience),
            *(f"{key[0]}:{key[1]}:{int(key in looked)}" for key in cells),
        ]  # fmt: skip
        request = launch.Request(
            install=host.install,
            ranks=table.ranks,
            program=program,
            libraries=[],
            mpirun_arguments=table.mpirun_arguments,
            variables={**host.variables, **variables},
        )
        slots = None if machine.in_batch_job(base) else machine.cores()
        built = launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)
        said = _output_of_job(built, doing, _START_S + _CELL_S * len(cells))
        try:
            document = json.loads(output.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise CommandError(f"{doing} wrote no results{said}; nothing was exported", FAILED) from None
    wrong = [each for each in document if not each["right"]]
    if wrong:
        first = wrong[0]
        raise CommandError(
            f"{doing} has a wrong result in {first['collective']} of {first['size_bytes']} bytes on "
            f"{format_count(table.ranks, 'rank')}; nothing was exported",
            FAILED,
        )
    return {
        (each["collective"], each["size_bytes"]): _ProbedCell(each["signature"], each["time_us"])
        for each in document
    }


def _output_of_job(built: launch.Launch, doing: str, timeout_s: float) -> str:
    """Run a job to its end. Returns what it said, for a message."""
    with tempfile.TemporaryFile() as output:
        job = subprocess.Popen(
            built.command,
            env=built.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            job.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise CommandError(
                f"{doing} was not finished after {timeout_s:.0f} s; nothing was exported", FAILED
            ) from None
        finally:
            end_job(job)
        output.seek(0)
        lines = output.read().decode(errors="replace").split("\n")
    words = next((f": {line.strip()}" for line in lines if any(c.isalnum() for c in line)), "")
    if job.returncode != 0:
        raise CommandError(
            f"{doing} ended with exit code {job.returncode}{words}; nothing was exported", FAILED
        )
    return words
