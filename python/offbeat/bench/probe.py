# SPDX-License-Identifier: BSD-3-Clause
"""Start ranks that say what they find (src/mpi/bench/probe.cpp), for ``offbeat doctor``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offbeat import machine
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import launch, libraries
from offbeat.mpi.choice import Choice

_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class RankFacts:
    """What one rank has found."""

    rank: int
    host: str
    cpus: str  # those that it may use, as in 0-3,8
    loaded: bool  # liboffbeat is in the process
    intercepted: bool  # it sees the calls of the program
    board: bool  # the ranks of this host share memory
    right: bool  # the results of two allreduces
    shared_bytes: int  # the size of /dev/shm
    free_shared_bytes: int
    lockable_bytes: int  # -1: no limit


def probe(
    choice: Choice, ranks: int | None, arguments: Sequence[str], launcher: str | None
) -> list[RankFacts]:
    """Start the ranks under the preload, and return what each has found. Raises CommandError if they fail."""
    install = choice.install
    starter, bench = libraries.bench_files(install.family)
    shared = os.getcwd() if launcher is not None and os.access(os.getcwd(), os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".offbeat-doctor-", dir=shared) as folder:
        output = Path(folder) / "output"
        request = launch.Request(
            install=install,
            ranks=ranks,
            program=[str(starter), str(install.libmpi), str(bench), "--probe", "--output", str(output)],
            libraries=[libraries.preload_library(install.preload)],
            mpirun_arguments=arguments,
            variables=choice.variables,
            launcher=launcher,
        )
        base = dict(os.environ)
        slots = None if machine.in_batch_job(base) else machine.cores()
        job = launch.build(request, base, slots=slots, is_root=os.geteuid() == 0)
        try:
            done = subprocess.run(
                job.command, env=job.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except OSError as error:
            raise CommandError(f"cannot execute {job.command[0]}: {error.strerror}", FAILED) from None
        except subprocess.TimeoutExpired:
            raise CommandError(f"{job.command[0]} has not ended after {_TIMEOUT_S:g} s", FAILED) from None
        text = output.read_text(encoding="utf-8") if output.exists() else ""
    found = [
        _facts(record) for line in text.splitlines() if (record := json.loads(line))["record"] == "probe"
    ]
    if done.returncode != 0 or not found:
        words = (done.stderr or done.stdout).strip().splitlines()
        last_words = f": {words[0]}" if words else ""
        raise CommandError(f"{job.command[0]} ended with exit code {done.returncode}{last_words}", FAILED)
    return found


def _facts(record: dict[str, Any]) -> RankFacts:
    return RankFacts(**{name: record[name] for name in RankFacts.__dataclass_fields__})
