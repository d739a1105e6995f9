# SPDX-License-Identifier: BSD-3-Clause
"""Horovod, if it is there: all its allreduces are served, and the report names the slow rank."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import BUILD, MPIS, ROOT, Result, library, run

TRAIN = ROOT / "examples" / "horovod" / "train.py"
PYTHON = Path(os.environ.get("OFFBEAT_TEST_HOROVOD", BUILD / "horovod" / "bin" / "python"))
STEPS, SLOW_FROM, SLOW_MS = 60, 12, 20.0


def trained(folder: Path, *options: str) -> Result:
    """Train on two ranks under the tracer and offbeat, with Debian's Open MPI."""
    if not PYTHON.exists():
        pytest.skip(f"no Horovod: examples/horovod/README.md says how to build it in {PYTHON.parents[1]}")
    plain = library("openmpi")
    tracer = plain.with_name(plain.name.replace("liboffbeat-", "liboffbeat-trace-"))
    environment = {"LD_PRELOAD": f"{tracer}:{plain}", "OFFBEAT_TRACE": str(folder), "OFFBEAT_REPORT": "1"}
    command = [PYTHON, TRAIN, "--steps", str(STEPS), *options]
    return run(
        MPIS["debian-openmpi"], 2, command, preload=False, environment=environment, timeout=300
    ).succeeded()


@pytest.mark.parametrize("how", [(), ("--busy",)], ids=["sleeps", "computes"])
def test_the_slow_rank_is_named(how: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "run.trace"
    result = trained(folder, "--slow", "1", "--by", str(SLOW_MS), "--from-step", str(SLOW_FROM), *how)
    weights = re.findall(r"weights (\w+)$", result.stdout, re.M)
    assert len(weights) == 2, str(result)
    assert weights[0] == weights[1]
    found = re.search(r"offbeat: allreduce: (\d+) calls intercepted, (\d+) served", result.stderr)
    assert found is not None, str(result)
    assert found[1] == found[2]

    report = [sys.executable, "-m", "offbeat", "report", str(folder), "--json"]
    done = subprocess.run(report, capture_output=True, text=True, timeout=120, check=True)
    training = json.loads(done.stdout)["traces"][0]["training"]
    assert (training["framework"], training["steps"]) == ("Horovod", STEPS)
    latest = max(training["slow"], key=lambda slow: slow["late_s"] * slow["late_steps"])
    assert latest["ranks"] == [1], training["sentences"]
    # On a machine with other work one rank may have been slow before, too.
    assert latest["last_step"] == STEPS
    assert 1e3 * latest["late_s"] == pytest.approx(SLOW_MS, rel=0.5)
