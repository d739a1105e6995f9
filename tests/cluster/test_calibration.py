# SPDX-License-Identifier: BSD-3-Clause
"""offbeat calibrate between two hosts, and the rules for more of them that offbeat tune makes of its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import PROGRAMS, clean_environment, compile_program
from hosts import Cluster
from launch import ClusterMpi, on_hosts, patient, run_job
from offbeat.calibrate import session
from offbeat.simulate import machine


@dataclass(frozen=True)
class Network:
    """A network of virtual hosts, and how many times its delay a message may take on a busy machine."""

    name: str
    mbit: float
    delay_us: float
    most: float

    def __str__(self) -> str:
        return self.name


# One is so slow that other work on the machine does not hide it. It still makes messages much slower.
SLOW, FAST = Network("slow", 100.0, 2000.0, 6), Network("fast", 400.0, 200.0, 100)
SIZES = (8, 80_000)  # of the calls of sum_once.c
HOST = "mpich"


@pytest.fixture
def hosts(network: Network) -> Iterator[Cluster]:
    """Eight hosts on a network, which other tests do not want."""
    with Cluster(8) as made:
        made.shape(network.mbit, network.delay_us)
        yield made


def offbeat(mpi: ClusterMpi, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command on the first host, where ``home`` is the home folder."""
    command = mpi.launch(mpi.ranks)
    environment = clean_environment(mpi) | patient(mpi) | {"HOME": str(home)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return subprocess.run(
        [*command[: command.index(mpi.mpirun)], sys.executable, "-m", "offbeat", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def calibrated(mpi: ClusterMpi, home: Path) -> Path:
    """A machine file of hosts with one rank each."""
    command = mpi.launch(mpi.ranks)
    arguments = "--mpirun-args=" + " ".join(command[command.index(mpi.mpirun) + 1 : -2])
    file = home / "site.toml"
    what = ["--mpi", str(Path(mpi.mpirun).resolve().parents[1]), "-n", str(mpi.ranks), arguments]
    first = [*what, "-o", str(file), "--budget", "20s", "--algorithms", "none"]
    resume = ["--resume", "-o", str(file), "--budget", "20s"]
    for words in (first, resume, resume, resume):  # a busy machine measures too little in one of them
        done = offbeat(mpi, home, "calibrate", *words)
        if done.returncode == 0:
            return file
        assert "to resume: offbeat calibrate --resume" in done.stderr, done.stderr
    raise AssertionError(done.stderr)


@pytest.mark.in_turn(1, "network")
@pytest.mark.parametrize("network", [SLOW, FAST], ids=str)
def test_two_hosts_are_calibrated_and_more_have_rules(
    hosts: Cluster, network: Network, tmp_path: Path
) -> None:
    two, eight = (on_hosts(HOST, hosts, [1] * count) for count in (2, 8))
    file = calibrated(two, tmp_path)
    expect_measured(file, network)

    nodes = ("--nodes", "4,8", "--bytes", ",".join(map(str, SIZES)))
    done = offbeat(two, tmp_path, "tune", "--simulate", str(file), *nodes, "--patterns", "balanced")
    assert done.returncode == 0, done.stderr
    (rules,) = (tmp_path / ".config" / "offbeat" / "rules").iterdir()
    assert f"Stored for {machine.read(str(file)).calibrated}: {rules}" in done.stdout

    rows = [explained(two, tmp_path, rules, size) for size in SIZES]
    assert "native" not in {row["expression"] for row in rows}, rules.read_text()
    program = compile_program(eight, PROGRAMS / "sum_once.c")
    job = run_job(eight, [program], environment={"OFFBEAT_RULES": str(rules)}).succeeded()
    assert job.report.served == job.calls == len(SIZES), str(job)
    for row in rows:
        assert f", ranks: 8: {row['expression']} ({row['reason']})\n" in job.stderr, str(job)


def expect_measured(file: Path, network: Network) -> None:
    """Nodes are told apart, and the file says what the network is like."""
    read = session.read(file.with_suffix(".json"))
    assert read.node_of_rank == [0, 1]
    known = machine.read(str(file))
    found = known.between_nodes[0].latency_us
    overheads = known.message_between_nodes
    found += overheads.send_overhead_us + overheads.receive_overhead_us
    assert network.delay_us * 0.9 < found < network.most * network.delay_us
    rate = network.mbit / 8e3
    assert rate / network.most < known.between_nodes[-1].bandwidth_gb_per_s < rate * 2
    assert 0 < known.eager_limit_bytes < 4 << 20
    assert "[within_node]  # not measured" in file.read_text()


def explained(mpi: ClusterMpi, home: Path, rules: Path, size: int) -> dict[str, Any]:
    """What `offbeat explain` says of an allreduce on eight nodes."""
    words = ["--nodes", "8", "--ppn", "1", "--mpi", HOST, "--rules", str(rules), "--json"]
    done = offbeat(mpi, home, "explain", "allreduce", str(size), *words)
    assert done.returncode == 0, done.stderr
    row: dict[str, Any]
    (row,) = json.loads(done.stdout)["rows"]
    assert "simulated: 0." in row["reason"], "the gain"
    return row
