# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench on real MPIs: every collective is right, and the host's own algorithms can be named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from harness import CORES, ON_ONE_MPI, PROGRAMS, VENV, Mpi, clean_environment, execute, on_mpis
from offbeat.bench import runner
from offbeat.bench.plan import COLLECTIVES, Job, Plan
from offbeat.errors import CommandError
from offbeat.mpi import host_algorithms, libraries
from offbeat.mpi.choice import choose

NAMED = {"openmpi": "linear", "mpich": "recursive_doubling", "impi": "recursive_doubling"}


@ON_ONE_MPI
@on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
def test_all_collectives(mpi: Mpi, tmp_path: Path) -> None:
    output = tmp_path / "b.json"
    ranks = 2 if mpi.slow_when_oversubscribed else 3
    command = [
        str(VENV / "bin" / "offbeat"), "bench", "-n", str(ranks), "--mpi", str(mpi.prefix),
        "--collectives", ",".join(COLLECTIVES),
        "--sizes", "4,1004", "--patterns", "last_delayed", "--algorithms", f"ring,native({NAMED[mpi.kind]})",
        "--budget", "12", "--json", str(output),
    ]  # fmt: skip
    result = execute(command, clean_environment(mpi), 120)
    assert "WRONG" not in result.stdout, result
    assert result.returncode == 0, result
    document = json.loads(output.read_text())
    # On a busy machine the budget may end before the last cell; what is there is right.
    measured = {cell["collective"] for cell in document["cells"] if cell["status"] == "measured"}
    assert {"allreduce", "barrier", "bcast"} <= measured
    assert all(cell["wrong"] is None for cell in document["cells"])


def sums_by(mpi: Mpi, algorithm: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What four ranks add up in the job that would measure an algorithm of the host's."""
    environment = clean_environment(mpi) | {"OFFBEAT_ALLREDUCE": "native"}
    for name in {*os.environ, *environment}:
        monkeypatch.delenv(name, raising=False)
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    choice = choose(str(mpi.prefix), None, [], os.environ)
    plan = Plan(4, [8 * elements], ["native", algorithm])
    job: Job = plan.jobs(choice.install.vendor)[-1]
    assert job.algorithms == [algorithm]
    files = {name: Path("/unused") / name for name in ("output", "arrivals", "cells", "gate")}
    built = runner.job_command(job, plan, choice, files, deadline=0)
    starter, _ = libraries.bench_files(choice.install.family)
    command = built.command[: built.command.index(str(starter))]
    command += [str(mpi.python), str(PROGRAMS / "sum_order.py"), str(elements)]
    said = execute(command, built.environment, 120).succeeded().stdout
    (line,) = (line for line in said.splitlines() if line.startswith("sums "))
    return np.array([float.fromhex(word) for word in line.split()[1:]])


@on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
def test_the_host_runs_the_algorithm_that_is_named(mpi: Mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a ring adds up each quarter of the vector from another rank on, one rank after the other."""
    elements = 400
    given = [np.random.default_rng(rank).random(elements) for rank in range(4)]
    ring = sums_by(mpi, "native(ring)", elements, monkeypatch)
    quarters = [slice(100 * quarter, 100 * (quarter + 1)) for quarter in range(4)]
    begun = []
    for quarter in quarters:
        orders = [np.roll(range(4), -first) for first in range(4)]
        in_turn = [((given[a] + given[b]) + given[c]) + given[d] for a, b, c, d in orders]
        same = [first for first in range(4) if (in_turn[first][quarter] == ring[quarter]).all()]
        assert len(same) == 1
        begun += same
    assert sorted(begun) == [0, 1, 2, 3]

    pairs = sums_by(mpi, "native(recursive_doubling)", elements, monkeypatch)
    assert (pairs == (given[0] + given[1]) + (given[2] + given[3])).all()
    assert (pairs != ring).any()


@on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
def test_an_algorithm_that_the_host_does_not_have(mpi: Mpi) -> None:
    offbeat = [str(VENV / "bin" / "offbeat"), "bench", "--mpi", str(mpi.prefix)]
    done = execute([*offbeat, "--algorithms", "native(binomial_ring)"], clean_environment(mpi), 60)
    assert done.returncode == 2
    vendor = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI"}[mpi.kind]
    names = ", ".join(host_algorithms.known_names(vendor, "allreduce"))
    assert done.stderr == (
        f"offbeat: native(binomial_ring): {vendor} has no such allreduce; it has: {names}\n"
    )


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_ranks_refuse_more_floats_than_a_call_counts(mpi: Mpi) -> None:
    """The command line refuses such a size; a file that is resumed, or was written by hand, may have one."""
    choice = choose(str(mpi.prefix), None, [], clean_environment(mpi))
    with pytest.raises(CommandError, match="8589934592 bytes are more elements than an MPI call counts"):
        runner.measure(Plan(2, [8 << 30], ["native"], budget_s=20), choice)


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_nodes_that_are_made_up(mpi: Mpi, tmp_path: Path) -> None:
    """Two nodes of two ranks each: hierarchy is served, and the ranks of the last node are late together."""
    output = tmp_path / "b.json"
    skew_us = 3000
    command = [
        str(VENV / "bin" / "offbeat"), "bench", "-n", "4", "--mpi", str(mpi.prefix), "--sizes", "1024",
        "--algorithms", "hierarchy(arrival_tree, recursive_doubling)", "--budget", "8",
        "--patterns", "balanced,node_late(2)", "--skew", f"{skew_us}us", "--json", str(output),
    ]  # fmt: skip
    execute(command, clean_environment(mpi) | {"OFFBEAT_NODE_RANKS": "2"}, 120).succeeded()
    document = json.loads(output.read_text())
    assert document["environment"]["OFFBEAT_NODE_RANKS"] == "2"
    assert document["binding"]["shares_cores"] == (CORES < 4)
    assert document["patterns"]["node_late(2)"]["mean"] == [0, 0, 1, 1]
    late = {cell["algorithm"]: cell for cell in document["cells"] if cell["pattern"] == "node_late(2)"}
    assert sorted(late) == ["hierarchy(arrival_tree, recursive_doubling)", "native"]
    for cell in late.values():
        assert (cell["status"], cell["skew_us"]) == ("measured", skew_us)
        assert cell["total_delay_us"]["median"] - cell["last_delay_us"]["median"] > 0.9 * skew_us
