# SPDX-License-Identifier: BSD-3-Clause
"""offbeat rules export on real MPIs: the host alone takes the exported files, and runs what they name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import PROGRAMS, VENV, Mpi, clean_environment, execute, on_mpis
from offbeat.bench.plan import Cell, Plan
from offbeat.bench.results import MEASURED, Benchmark, Result
from offbeat.errors import CommandError
from offbeat.mpi.choice import choose
from offbeat.rules import export_check, export_mpich, export_openmpi, export_run
from offbeat.rules.export import Export
from offbeat.rules.export_choices import Choice, Table

RANKS = 3
TO = {"openmpi": "openmpi", "mpich": "mpich", "impi": "intel"}
WITH_NAMES = on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
# Algorithms that send other messages, or add in another order, than the default does at this size.
NAMES: Mapping[str, Mapping[str, str]] = {
    "openmpi": {"allreduce": "ring", "bcast": "pipeline", "allgather": "linear", "alltoall": "pairwise"},
    "mpich": {"allreduce": "ring", "allgather": "ring", "alltoall": "bruck", "reduce_scatter": "pairwise"},
    "impi": {"allreduce": "ring", "bcast": "ring", "allgather": "ring", "alltoall": "bruck"},
}
NAMED_BYTES, OTHER_BYTES = 1536, 6144


def prepared(mpi: Mpi, monkeypatch: pytest.MonkeyPatch) -> export_run.Request:
    """A request for the algorithms of NAMES. For one size of allreduce the host decides by itself."""
    environment = clean_environment(mpi)
    for name in {*os.environ, *environment}:
        monkeypatch.delenv(name, raising=False)
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    cells = {each: [Choice(NAMED_BYTES, name)] for each, name in NAMES[mpi.kind].items()}
    cells["allreduce"].append(Choice(OTHER_BYTES, None, near="recursive_doubling"))
    return export_run.Request(
        TO[mpi.kind], [Table(RANKS, cells)], choose(str(mpi.prefix), None, [], os.environ)
    )


def made_for(request: export_run.Request) -> Export:
    return export_run._exporter(request)(request.tables)


@WITH_NAMES
@pytest.mark.in_turn(1, "mpi")
def test_the_host_alone_runs_what_is_exported(
    mpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = prepared(mpi, monkeypatch)
    monkeypatch.setattr(export_check, "_PROBE_ROUNDS", 2)
    made = made_for(request)
    assert made.notes == []
    for name, text in made.files(tmp_path, "a test").items():
        (tmp_path / name).write_text(text)
    host = export_check.Host(request.choice.install, request.choice.variables)
    seen = export_check.check(made, tmp_path, request.tables[0], "settings.sh", host)
    assert {each.collective: each.name for each in seen} == NAMES[mpi.kind]
    # These names are not the fastest, but each has its own order of messages or operands.
    assert {each.by for each in seen} <= {export_check.ORDER, export_check.SLOWER}, seen

    # A program that knows nothing of the check takes the settings as a user would.
    named = sums(mpi, NAMED_BYTES, tmp_path / "settings.sh")
    assert ring_begins_at(NAMED_BYTES, named) == [0, 1, 2]
    other = sums(mpi, OTHER_BYTES, tmp_path / "settings.sh")
    assert (
        (other == by_recursive_doubling(OTHER_BYTES)).all()
        if mpi.kind == "impi"
        else (other == sums(mpi, OTHER_BYTES, None)).all()
    )


def given(size_bytes: int) -> list[np.ndarray]:
    """The numbers of each rank of sum_order.py."""
    return [np.random.default_rng(rank).random(size_bytes // 8) for rank in range(RANKS)]


def sums(mpi: Mpi, size_bytes: int, settings: Path | None) -> np.ndarray:
    """What the host alone adds up, started by a shell that has read the settings."""
    program = [*mpi.launch(RANKS), str(mpi.python), str(PROGRAMS / "sum_order.py"), str(size_bytes // 8)]
    script = f'. {settings}; exec "$@"' if settings is not None else 'exec "$@"'
    said = execute(["sh", "-c", script, "sh", *program], clean_environment(mpi), 120).succeeded().stdout
    (line,) = (line for line in said.splitlines() if line.startswith("sums "))
    return np.array([float.fromhex(word) for word in line.split()[1:]])


def ring_begins_at(size_bytes: int, sums: np.ndarray) -> list[int]:
    """The ranks from which the thirds of the vector were added up, one rank after the other."""
    data = given(size_bytes)
    count = len(sums) // RANKS
    begun = []
    for part in range(RANKS):
        third = slice(count * part, count * (part + 1))
        orders = [np.roll(range(RANKS), -first) for first in range(RANKS)]
        in_turn = [(data[a] + data[b]) + data[c] for a, b, c in orders]
        begun += [first for first in range(RANKS) if (in_turn[first][third] == sums[third]).all()]
    return sorted(begun)


def by_recursive_doubling(size_bytes: int) -> np.ndarray:
    """The first two ranks of three fold; the sum of these meets that of the last."""
    first, second, third = given(size_bytes)
    return np.asarray((first + second) + third)


# Intel MPI ignores what it does not know.
@on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi" and mpi.kind != "impi")
def test_a_file_that_the_host_aborts_on_is_not_written(
    mpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = prepared(mpi, monkeypatch)
    table = Table(RANKS, {"allreduce": [Choice(NAMED_BYTES, "ring")]})
    request = replace(request, tables=[table])
    if mpi.kind == "mpich":
        # A file without a collective that every program calls.
        library = export_mpich.Library.read(request.choice.install.libmpi)
        del library.coll["collective=barrier"]
        monkeypatch.setattr(export_mpich.Library, "read", staticmethod(lambda libmpi: library))
    else:
        # A number that no algorithm has.
        monkeypatch.setattr(export_openmpi, "_line", lambda collective, least, name: f"{least} 99 0 0")
    with pytest.raises(CommandError, match=r"with the export ended with exit code .*nothing was exported"):
        export_run.make_and_check(request, tmp_path / "out", lambda what: None)
    assert list(tmp_path.iterdir()) == []


@WITH_NAMES
@pytest.mark.in_turn(1, "mpi")
def test_the_command(mpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user types: from a file of results to files that the host takes, or to none, with the reason."""
    request = prepared(mpi, monkeypatch)
    path = results(request, tmp_path / "b.json", {"native": 10.0, "native(ring)": 5.0})
    offbeat = [str(VENV / "bin" / "offbeat"), "rules", "export", str(path), "--to", TO[mpi.kind]]
    done = execute([*offbeat, "-o", str(tmp_path / "out")], clean_environment(mpi), 300)
    written = sorted(each.name for each in tmp_path.glob("out/*"))
    if done.returncode == 1:
        assert "ring was slower in the check" in done.stdout, done
        assert (written, "nothing to export" in done.stderr) == ([], True)
    else:
        done.succeeded()
        assert "seen by" in done.stdout
        assert "settings.sh" in written
        sum_of_ring = sums(mpi, NAMED_BYTES, tmp_path / "out" / "settings.sh")
        assert ring_begins_at(NAMED_BYTES, sum_of_ring) == [0, 1, 2]
    assert not list(tmp_path.glob(".offbeat-export-*"))


def results(request: export_run.Request, path: Path, medians: Mapping[str, float]) -> Path:
    """A file of a benchmark of allreduce."""
    install = request.choice.install
    cell = Cell("allreduce", NAMED_BYTES, "balanced", "0us")
    plan = Plan(RANKS, [NAMED_BYTES], list(medians))
    about: dict[str, Any] = {
        "mpi": {"vendor": install.vendor, "version": install.version, "libmpi": str(install.libmpi)},
        "environment": {},
    }
    measured: Sequence[Result] = [
        Result(cell, name, MEASURED, native_us=10.0, last_delays_us=[us] * 5, total_delays_us=[us] * 5)
        for name, us in medians.items()
    ]
    Benchmark(plan, about, list(measured)).write(path)
    assert json.loads(path.read_text())["complete"]
    return path
