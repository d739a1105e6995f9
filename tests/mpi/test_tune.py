# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune on a real MPI: a short one, a kill in the middle, and a program that runs the rules."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import PROGRAMS, Mpi, clean_environment, compile_program, execute, on_mpis
from offbeat.rules import rule_files

BUDGET_S = 40
OFFBEAT = [sys.executable, "-m", "offbeat"]
TUNE = [
    *OFFBEAT, "tune", "allreduce", "-n", "2", "--bytes", "64,16KiB", "--budget", f"{BUDGET_S}s",
    "--patterns", "balanced,random", "--algorithms", "recursive_doubling,ring,native(recursive_doubling)",
]  # fmt: skip


@on_mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
@pytest.mark.kinds(1)
def test_a_short_tuning(mpi: Mpi, tmp_path: Path) -> None:
    environment = clean_environment(mpi) | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    began = time.monotonic()
    done = execute(
        [*TUNE, "--mpi", str(mpi.prefix), "--rules", "my.rules"], environment, 3 * BUDGET_S, tmp_path
    ).succeeded()
    assert time.monotonic() - began < BUDGET_S + 5, "the budget is kept, but for the start of Python"
    assert "Objective: robust (balanced, random)" in done.stdout
    assert re.search(r"cost in all: \d+ core-seconds", done.stdout), done
    assert re.search(r"^offbeat: 0:\d\d of 0:40: ", done.stderr, re.MULTILINE), done

    document = json.loads((tmp_path / "offbeat-tune.json").read_text())
    assert document["format"] == "offbeat bench"
    measured = {cell["algorithm"] for cell in document["cells"] if cell["status"] == "measured"}
    assert {"native", "recursive_doubling", "ring", "arrival_tree"} <= measured
    assert all(cell["wrong"] is None for cell in document["cells"])

    rules = rule_files.without_errors(str(tmp_path / "my.rules")).rules
    assert {(rule["collective"], rule["nodes"], rule["ppn"]) for rule in rules} == {
        ("allreduce", (1, 1), (2, 2))
    }
    assert all(rule["reason"].startswith("tuned 20") for rule in rules)

    # A rule that no tuning would write shows that the stored ones run.
    (stored,) = (tmp_path / "config" / "offbeat" / "rules").glob("*.rules")
    head = "".join(line for line in stored.read_text().splitlines(keepends=True) if line.startswith("#"))
    stored.write_text(f"{head}allreduce * * * * linear  # by hand\n")
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    command = [*OFFBEAT, "run", "-v", "-n", "2", "--mpi", str(mpi.prefix), "--", str(program)]
    chosen = re.compile(r"allreduce of any length, .*: linear \(.*by hand")
    assert chosen.search(execute(command, environment, 60).succeeded().stderr)
    own = environment | {"OFFBEAT_RULES": ""}
    assert "linear" not in execute(command, own, 60).succeeded().stderr


@on_mpis(lambda mpi: mpi.name == "openmpi")
def test_killed_and_resumed(mpi: Mpi, tmp_path: Path) -> None:
    """SIGKILL while ranks measure: what they had measured counts when the tuning goes on."""
    environment = clean_environment(mpi) | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    command = [*TUNE, "--mpi", str(mpi.prefix)]
    part = tmp_path / "offbeat-tune.json.part"
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.read_bytes().count(b'"result"') >= 2):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    measured = part.read_bytes().count(b'"result"')
    resume = [*OFFBEAT, "tune", "--resume", "--budget", f"{BUDGET_S}s"]
    deadline = time.monotonic() + 30
    done = execute(resume, environment, 120, tmp_path)
    while "ranks of an earlier run still write" in done.stderr and time.monotonic() < deadline:
        time.sleep(0.5)
        done = execute(resume, environment, 120, tmp_path)
    done.succeeded()
    found = re.search(
        r"^A tuning that was killed left (\d+) results?, which count too", done.stdout, re.MULTILINE
    )
    assert found is not None, done
    assert int(found[1]) >= measured
    assert not part.exists()
    assert "allreduce on 2 ranks" in done.stdout
