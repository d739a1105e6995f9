# SPDX-License-Identifier: BSD-3-Clause
"""offbeat calibrate as users see it, on the embedded Open MPI: each stage once, killed and resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import Offbeat
from offbeat.bench import runner
from offbeat.calibrate import session
from offbeat.simulate import machine

pytestmark = pytest.mark.with_ranks
# Progress, and a warning while other programs keep the machine busy.
ASIDES = ("offbeat: 0:", "offbeat: the load of this host")
BASE = ["calibrate", "-n", "2", "--mpi", "embedded"]


def wait_for_probes(part: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not (part.exists() and part.read_bytes().count(b'"probe"') > count):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_was_measured_survives_a_kill_and_becomes_a_machine_file(
    offbeat: Offbeat, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    file = tmp_path / "m.toml"
    path = file.with_suffix(".json")
    command = [*BASE, "-o", str(file), "--algorithms", "ring,native(ring)", "--name", "here"]
    job = subprocess.Popen(
        [sys.executable, "-m", "offbeat", *command, "--budget", "90s"], env=clean_environment, cwd=tmp_path
    )
    part = runner.path_of_partial_records(path)
    wait_for_probes(part, 20)
    job.send_signal(signal.SIGKILL)
    job.wait()
    for _ in range(50):  # until the ranks of the killed command have ended
        done = offbeat("calibrate", "--resume", "-o", str(file), "--budget", "25s")
        if "still write" not in done.stderr:
            break
        time.sleep(0.2)
    assert done.returncode == 0, done.stderr
    assert "left by a run that was killed" in done.stdout
    assert not part.exists()
    rounds = {result.round for result in session.read(path).results}
    assert rounds == set(range(max(rounds) + 1)), "the second run went on where the first one was killed"
    assert "cost in all: " in done.stdout
    assert "offbeat: 0:" in done.stderr, "progress, although this is no terminal"
    read = machine.read(str(file))
    assert read.name == "here"
    assert read.within_node[0].latency_us > 0
    assert read.combine_ns_per_byte > 0
    document = json.loads(file.with_suffix(".json").read_text())
    assert {probe["kind"] for probe in document["probes"]} >= {
        "round_trip", "late", "eager", "combine", "copy"
    }  # fmt: skip
    assert document["core_seconds"] > 0
    assert document["parameters"]["core"]["combine_ns_per_byte"]["low"] > 0
    for name in ("ring", "native(ring)"):
        lines = [
            line
            for line in done.stdout.splitlines()
            if f" {name} " in line or (line.startswith("Left out: ") and name in line)
        ]
        assert lines or name in file.read_text(), "an algorithm has parameters, or one line says why not"
    assert done.stdout.splitlines()[-1] == (
        "All ranks were on one node: [between_nodes] is a copy of [within_node]. Measure on two nodes, or "
        "edit it, before you simulate several."
    )
    # The simulator takes the file.
    done = offbeat("simulate", "--machine", str(file), "--nodes", "1", "--ppn", "4", "--sizes", "8")
    assert done.returncode == 0, done.stderr


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    file = tmp_path / "m.toml"
    command = [sys.executable, "-m", "offbeat", *BASE, "-o", str(file), "--algorithms", "none"]
    job = subprocess.Popen(
        [*command, "--budget", "90s"], env=clean_environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    wait_for_probes(runner.path_of_partial_records(file.with_suffix(".json")), 5)
    job.send_signal(signal.SIGTERM)  # a background job of a shell ignores SIGINT
    _, said = job.communicate(timeout=60)
    assert job.returncode == 130
    last = said.splitlines()[-1]
    assert last == (
        f"offbeat: interrupted; all measurements are kept. To resume: offbeat calibrate --resume -o {file}"
    )
    assert session.read(file.with_suffix(".json")).goal.ranks == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-n", "1"], "-n 1: messages need at least 2 ranks"),
        (["-o", "/proc/m.toml"], "cannot write /proc/m.json: "),
        (["-o", "/nowhere/m.toml"], "/nowhere/m.toml: there is no folder /nowhere"),
        (["-o", "m.json"], "m.json: the machine file needs another name than the measurements"),
        (["--algorithms", "arrival_tree"], "--algorithms arrival_tree: it has no cost formula"),
        (["--algorithm-ranks", "3"], "--algorithm-ranks 3: write whole numbers from 2 to 2, separated by"),
        (["--resume"], "cannot read machine.json: No such file or directory"),
        (["--budget", "0.1s", "--algorithms", "none"], "intervals need 6; to resume: offbeat calibrate --re"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], why: str, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    first = ["calibrate"] if "--resume" in arguments else [*BASE]
    done = subprocess.run(
        [sys.executable, "-m", "offbeat", *first, *arguments],
        env=clean_environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (2, 3)
    lines = [line for line in done.stderr.splitlines() if not line.startswith(ASIDES)]
    assert len(lines) == 1, done.stderr
    assert why in lines[0]
