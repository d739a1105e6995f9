# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench as users see it, on the embedded Open MPI: killed and resumed, and watched on a terminal."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import Offbeat
from offbeat.bench import plan, results, runner
from offbeat.bench.records import Records

ARGUMENTS = [
    "bench", "-n", "2", "--mpi", "embedded", "--sizes", "4,1KiB,4KiB", "--algorithms",
    "native,ring,native(ring)", "--patterns", "balanced,random", "--skew", "20us",
]  # fmt: skip
pytestmark = pytest.mark.with_ranks
WANTED = 3 * 2 * 3  # sizes, patterns, algorithms


def started(path: Path, environment: dict[str, str], **more: Any) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "offbeat", *ARGUMENTS, "--budget", "60", "--json", str(path)]
    return subprocess.Popen(command, env=environment, cwd=path.parent, **more)


def started_by(pid: int) -> list[int]:
    """The processes below one."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def structure(path: Path) -> tuple[set[str], set[tuple[str, ...]]]:
    """What a file has, without what was measured."""
    document = json.loads(path.read_text())
    assert document["complete"]
    assert len(document["binding"]["cpus"]) == 2
    keys = ("collective", "size_bytes", "pattern", "skew", "algorithm", "status")
    cells = [(*(str(cell[key]) for key in keys), *sorted(cell)) for cell in document["cells"]]
    assert len(cells) == len(set(cells)), "nothing is there twice"
    return set(document), set(cells)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "whole.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    with started(path, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    lines = [line for line in said.splitlines() if not line.endswith(b", so times may be wrong")]
    assert lines == [], "no progress is shown where there is no terminal"
    return path


@pytest.mark.parametrize("victim", ["front end", "rank"])
def test_killed_and_resumed(
    offbeat: Offbeat, tmp_path: Path, clean_environment: dict[str, str], uninterrupted: Path, victim: str
) -> None:
    """kill -9 leaves no process, and all that was finished; the rest is measured, and nothing twice."""
    path = tmp_path / "b.json"
    part = runner.path_of_partial_records(path)
    with started(path, clean_environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.read_bytes().count(b'"result"') >= 2):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        below = started_by(process.pid)
        ranks = [pid for pid in below if "offbeat-launch" in os.readlink(f"/proc/{pid}/exe")]
        assert len(ranks) == 2
        os.kill(process.pid if victim == "front end" else ranks[1], signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    while any(map(is_running, below)):
        assert time.monotonic() < deadline + 20, "processes are left"
        time.sleep(0.05)
    if victim == "front end":
        assert process.returncode == -signal.SIGKILL
        records = Records()
        for line in part.read_text().split("\n")[:-1]:  # the last one may be cut
            records.add(line)
        before = records.results
        left = f" ({len(before)} of them left by a run that was killed)"
    else:
        assert process.returncode == 3
        doing = rb"(?:calibrating|measuring)"
        assert re.search(
            rb"^offbeat: the benchmark job ended with exit code \d+ while " + doing, said, re.MULTILINE
        ), said
        assert not part.exists()
        before, left = results.read(path).results, ""
    kept = len(before)
    assert 2 <= kept < WANTED

    resumed = offbeat("bench", "--resume", path)
    assert resumed.returncode == 0, resumed.stderr
    line = f"continues {path}, which has {kept} of {WANTED} results{left}"
    assert [line in said for said in resumed.stdout.splitlines()].count(True) == 1, resumed.stdout
    assert not part.exists()
    assert structure(path) == structure(uninterrupted)
    assert results.read(path).results[:kept] == before, "what was there has not been measured again"
    again = offbeat("bench", "--resume", path)
    assert f"has {WANTED} of {WANTED} results\n" in again.stdout


def test_progress_on_a_terminal(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    """What is being done, how far it is, and how long it can take; a few times a second at most."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    environment = clean_environment | {"TERM": "xterm"}
    began = time.monotonic()
    shown = b""
    with started(tmp_path / "b.json", environment, stdout=subprocess.DEVNULL, stderr=its) as process:
        os.close(its)
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            assert time.monotonic() < began + 120
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
    seconds = time.monotonic() - began
    os.close(ours)
    assert process.wait(60) == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
    left = [int(number) for number in re.findall(r"at most (\d+) s left", text)]
    assert left == sorted(left, reverse=True)
    assert len(left) >= 2
    assert 50 < left[0] <= 60
    # A cell can be over before it is drawn.
    assert re.search(r"measuring (4 B|1 KiB|4 KiB), (balanced|random) arrival", text)
    assert re.search(r" \d+/12\b", text), "cells done of all, those of native(ring) counted by themselves"
    # One for each second and each thing that is begun, of which a line may be drawn twice.
    begun = 2 * (3 * (2 + 1 + 2) + 3 * (1 + 2))
    assert len(left) <= 2 * seconds + begun


def test_every_collective_with_other_data_for_real(offbeat: Offbeat) -> None:
    """Types, operations, a root other than 0, and calls in place: all results are right."""
    done = offbeat(
        "bench", "-n", "2", "--mpi", "embedded", "--collectives", ",".join(plan.COLLECTIVES),
        "--sizes", "64", "-d", "int16,double", "-o", "bxor", "--root", "1", "--in-place", "both",
        "--patterns", "balanced", "--algorithms", "default", "--iterations", "2", "--budget", "100",
        "--format", "csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["status"] for row in rows} == {"measured"}, done.stdout
    assert {row["collective"] for row in rows} == set(plan.COLLECTIVES)
    allreduces = {
        (row["type"], row["operation"], row["in_place"]) for row in rows if row["collective"] == "allreduce"
    }
    assert allreduces == {("int16", "bxor", "0"), ("int16", "bxor", "1")}, "doubles have no bxor"
    assert {row["root"] for row in rows if row["collective"] == "scatter"} == {"1"}
    for row in rows:
        assert int(row["iterations"]) <= 2
        assert float(row["t_min_us"]) <= float(row["t_avg_us"]) <= float(row["t_max_us"])
