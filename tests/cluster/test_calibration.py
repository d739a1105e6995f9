# SPDX-License-Identifier: BSD-3-Clause
"""offbeat calibrate between hosts: it tells nodes apart, and finds what their network is like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness import clean_environment
from hosts import Cluster
from launch import on_hosts, patient
from offbeat.calibrate import session
from offbeat.simulate import machine

# So slow that other work on the machine does not hide them. It still makes messages several times slower.
MBIT, DELAY_US = 100.0, 2000.0


def test_two_hosts_become_a_machine_file(three: Cluster, tmp_path: Path) -> None:
    three.shape(MBIT, DELAY_US)
    mpi = on_hosts("mpich", three, [1, 1])
    command = mpi.launch(mpi.ranks)
    at = command.index(mpi.mpirun)
    prefix = Path(mpi.mpirun).resolve().parents[1]
    arguments = "--mpirun-args=" + " ".join(command[at + 1 : -2])
    file = tmp_path / "m.toml"
    calibrate = [sys.executable, "-m", "offbeat", "calibrate", "-n", "2", "--mpi", str(prefix), arguments]
    environment = clean_environment(mpi) | patient(mpi)
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    first = [*calibrate, "-o", str(file), "--budget", "20s", "--algorithms", "none"]
    resume = [*calibrate[:4], "--resume", "-o", str(file), "--budget", "20s"]
    try:
        for words in (first, resume, resume, resume):  # a busy machine measures too little in one of them
            done = subprocess.run(
                [*command[:at], *words], env=environment, capture_output=True, text=True, timeout=200
            )
            if done.returncode == 0:
                break
            assert "to resume: offbeat calibrate --resume" in done.stderr, done.stderr
    finally:
        three.shape(0, 0)
    assert done.returncode == 0, done.stderr
    read = session.read(file.with_suffix(".json"))
    assert read.node_of_rank == [0, 1]
    known = machine.read(str(file))
    found = known.between_nodes[0].latency_us
    overheads = known.message_between_nodes
    found += overheads.send_overhead_us + overheads.receive_overhead_us
    assert DELAY_US * 0.9 < found < 6 * DELAY_US
    assert MBIT / 8e3 / 4 < known.between_nodes[-1].bandwidth_gb_per_s < MBIT / 8e3 * 2
    assert 0 < known.eager_limit_bytes < 4 << 20
    assert "[within_node]  # not measured" in file.read_text()
