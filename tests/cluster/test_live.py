# SPDX-License-Identifier: BSD-3-Clause
"""A job on several hosts is looked at from one of them, by ssh."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import PROGRAMS, VENV, clean_environment, compile_program, end, library
from hosts import Cluster
from launch import on_hosts

SSH = Path(__file__).with_name("ssh")


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with Cluster(2) as made:
        yield made


@pytest.fixture
def path_with_ssh(tmp_path: Path) -> str:
    """A PATH on which the stand-in for ssh comes first."""
    (tmp_path / "ssh").symlink_to(SSH)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_a_late_rank_on_another_host(two: Cluster, name: str, path_with_ssh: str) -> None:
    mpi = on_hosts(name, two, [2, 2])
    program = compile_program(mpi, PROGRAMS / "live.c")
    environment = clean_environment(mpi) | mpi.environment
    words = [f"LD_PRELOAD={library(mpi.preload)}", "OFFBEAT_STALL_S=1"]
    job = subprocess.Popen(
        [*mpi.launch(4), "env", *words, str(program), "hang", "60"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def top(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*two.enter(), "env", f"PATH={path_with_ssh}", str(VENV / "bin" / "offbeat"), "top", *arguments],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    try:
        assert two.wait_for("n1", str(program))
        for _ in range(20):
            looked = top("--hosts", "n0,n1", "--json", "--seconds", "1s")
            found = json.loads(looked.stdout) if looked.returncode == 0 else {}
            if found.get("recent", {}).get("stuck"):
                break
        assert found, looked
        (stuck,) = found["recent"]["stuck"]
        assert (stuck["collective"], stuck["missing"]) == ("allreduce", [1]), found
        assert set(found["recent"]["waiting_share_of_rank"]) == {"0", "1", "2", "3"}, found
        where = top("--hosts", "n1,n0", "--where", "1")
        assert re.search(r"^  (now|solve)\(\) at live\.c:\d+$", where.stdout, re.M), where
        gone = top("--hosts", "n0,nowhere", "--json", "--seconds", "1s")
        assert gone.returncode == 3, gone
        assert "--hosts: no answer from nowhere" in gone.stderr, gone
    finally:
        two.empty()
        end(job)
