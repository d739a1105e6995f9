# SPDX-License-Identifier: BSD-3-Clause
"""Random MPI programs, natively and under the preload: the results must be the same.

    build/venv/bin/python tests/mpi/soak.py --mpi openmpi,mpich,impi,mpich-abi --minutes 60

prints a line for each seed, what went wrong beneath it with the command that repeats it, and totals.
The exit status is 1 when anything differed. The program is `programs/soak.cpp`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness import (
    CORES,
    MPIS,
    PROGRAMS,
    ROOT,
    Mpi,
    Result,
    compile_program,
    library,
    remove_abandoned,
    run,
    running,
)

LAST_LINE = re.compile(r"^ok: rank (\d+) digest ([0-9a-f]{16}) calls (\d+)$", re.M)
FAULT = re.compile(r"^(?:WRONG|HANG|SIGNAL) .*", re.M)

# Half of the seeds use offbeat as it comes.
SETTINGS: tuple[dict[str, str], ...] = (
    *({},) * 7,
    {"OFFBEAT_CHECK": "1"},
    {"OFFBEAT_WAIT": "yield"},
    {"OFFBEAT_WAIT": "sleep"},
    {"OFFBEAT_NODE_RANKS": "2"},
    {"OFFBEAT_NODE_RANKS": "2", "OFFBEAT_ALLREDUCE": "hierarchy(arrival_tree, ring)"},
    {"OFFBEAT_ALLREDUCE": "recursive_doubling"},
    {"OFFBEAT_ALLREDUCE": "pipeline(2, ring)"},
)
# How Open MPI moves messages, natively and under the preload: with and without copies by the kernel.
TRANSPORTS: tuple[dict[str, str], ...] = ({}, {}, {"OMPI_MCA_smsc": "^cma"}, {"OMPI_MCA_btl": "self,tcp"})


@dataclass(frozen=True)
class Job:
    """All that follows from a seed, an MPI and a number of ranks."""

    mpi: Mpi
    seed: int
    ranks: int
    steps: int
    spawn: int
    settings: dict[str, str]
    limit_s: int
    without: str

    @property
    def is_slow(self) -> bool:
        return self.mpi.slow_when_oversubscribed and self.ranks > CORES

    def arguments(self, trace: Path) -> list[str]:
        options = {
            "--seed": self.seed,
            "--steps": self.steps,
            "--limit": self.limit_s,
            "--slow": int(self.is_slow),
            "--spawn": self.spawn,
            "--trace": trace,
            **({"--without": self.without} if self.without else {}),
        }
        return [str(word) for option in options.items() for word in option]

    def run(self, trace: Path, preload: Path | bool) -> tuple[Result | None, str, float]:
        """The result, none at the time limit; what the program said of its faults; and the seconds."""
        started = time.monotonic()
        command = [program(self.mpi.name), *self.arguments(trace)]
        environment = self.settings if preload else None
        try:
            result = run(
                self.mpi,
                self.ranks,
                command,
                preload=preload,
                environment=environment,
                timeout=self.limit_s + 20,
            )
            text = str(result)
        except AssertionError as timeout:
            result, text = None, str(timeout)
        return result, text, time.monotonic() - started


@dataclass(frozen=True)
class Outcome:
    job: Job
    verdict: str  # "ok", or one word in capitals
    details: tuple[str, ...]
    native_s: float
    offbeat_s: float

    def __str__(self) -> str:
        job = self.job
        settings = " ".join(f"{name}={value}" for name, value in job.settings.items())
        line = (
            f"{job.mpi.name} seed {job.seed} ranks {job.ranks} steps {job.steps}"
            f" native {self.native_s:.1f} s offbeat {self.offbeat_s:.1f} s {self.verdict} {settings}"
        )
        return "\n    ".join([line.rstrip(), *self.details])


@functools.cache
def program(mpi_name: str) -> Path:
    """Compiled once, so a change of the source does not change a soak that runs."""
    mpi = MPIS[mpi_name]
    flags = [f"-I{ROOT / 'include'}", "-DOMPI_SKIP_MPICXX"]  # old Open MPIs bring C++ bindings with mpi.h
    if mpi.family == "mpiabi":
        flags.append("-DOFFBEAT_TEST_STANDARD_ABI")
    return compile_program(mpi, PROGRAMS / "soak.cpp", *flags, libraries=("-lpthread", "-ldl"))


def plan(
    mpi: Mpi, seed: int, ranks: int, *, steps: int | None = None, limit_s: int = 45, without: str = ""
) -> Job:
    draw = random.Random(seed)
    settings, transport, spawn = (
        draw.choice(SETTINGS),
        draw.choice(TRANSPORTS),
        draw.choice((0, 0, 0, 0, 1, 1, 2)),
    )
    environment = dict(mpi.environment)
    # Intel MPI 2021.18 crashes in MPI_Comm_spawn here, and Debian's MPICH returns an error.
    if mpi.name in ("impi", "debian-mpich"):
        spawn = 0
    if mpi.kind == "openmpi":
        # Others may use the machine, too. Shared memory does not connect jobs.
        environment |= {"OMPI_MCA_mpi_yield_when_idle": "1"} | transport
        if spawn > 0 and "tcp" not in environment["OMPI_MCA_btl"]:
            environment["OMPI_MCA_btl"] += ",tcp"
        # Where threads make communicators, Open MPI has each wait for those with a parent of a lower number
        # (ompi/communicator/comm_cid.c). The one that offbeat makes for messages can close a circle.
        if {"OFFBEAT_ALLREDUCE", "OFFBEAT_NODE_RANKS"} & settings.keys():
            without = ",".join(filter(None, (without, "threads")))
    changed = dataclasses.replace(mpi, environment=environment)
    job = Job(changed, seed, ranks, steps or 150, spawn, settings, limit_s, without)
    return dataclasses.replace(job, steps=50) if steps is None and job.is_slow else job


def digests(result: Result | None) -> dict[int, str]:
    return {int(rank): digest for rank, digest, _ in LAST_LINE.findall(result.stdout)} if result else {}


def first_difference(folder: Path, ranks: int) -> list[str]:
    """The first step of each rank after which the traces differ."""
    found = []
    for rank in range(ranks):
        texts = []
        for name in ("native", "offbeat"):
            path = folder / f"{name}.{rank}"
            texts.append(path.read_text().splitlines() if path.exists() else [])
        step = ""
        for native, offbeat in itertools.zip_longest(*texts, fillvalue="(end)"):
            if native != offbeat:
                found.append(
                    f"rank {rank} step {step}: native '{native.strip()}', offbeat '{offbeat.strip()}'"
                )
                break
            step = native if not native.startswith(" ") else step
    return found


def complaints(job: Job, native: Result | None, offbeat: Result | None, text: str) -> tuple[str, list[str]]:
    """What is wrong with the run under the preload: a verdict and lines that say more."""
    faults = FAULT.findall(text)
    if offbeat is None or any(fault.startswith("HANG") for fault in faults):
        return "HANG", faults
    if any(fault.startswith("SIGNAL") for fault in faults):
        return "CRASH", faults
    if faults:
        return "WRONG", faults
    if offbeat.returncode != 0 or len(digests(offbeat)) != job.ranks:
        return "FAILED", [f"exit status {offbeat.returncode}", *text.splitlines()[-20:]]
    if digests(offbeat) != digests(native):
        return "DIFFERENT", []
    of_report = (
        " intercepted, ",
        "offbeat: cores are overloaded",
        "offbeat: what these calls cost",
        "offbeat: time in collectives: ",
        "offbeat: most of the waiting is for rank ",
    )
    said = [
        line
        for line in offbeat.stderr.splitlines()
        if "offbeat:" in line and not any(words in line for words in of_report)
    ]
    if said and job.spawn < 2:  # a rank without offbeat may be named
        return "SAID", said
    reports = offbeat.reports
    if not reports or not any(each.intercepted > 0 and each.served > 0 for each in reports):
        return "UNSERVED", [str(each) for each in reports]
    return "ok", []


def left_behind(marker: str, before: set[str]) -> list[str]:
    """Processes, and files in /dev/shm that stay; another job's may be there for a moment."""
    found = [f"process {pid}" for pid in running(marker, patience=5)]
    for patience_s in (0, 1, 5):
        time.sleep(patience_s)
        new = {name for name in os.listdir("/dev/shm") if "offbeat" in name} - before
        if not new:
            break
    return found + sorted(new)


def soak(job: Job, preload: Path | bool) -> Outcome:
    """Run one seed natively and under the preload, or natively again when `preload` is False."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        before = set(os.listdir("/dev/shm"))
        native, native_text, native_s = job.run(folder / "native", False)
        if native is None or native.returncode != 0 or len(digests(native)) != job.ranks:
            return Outcome(job, "NATIVELY", tuple(native_text.splitlines()[-20:]), native_s, 0)
        offbeat, text, offbeat_s = job.run(folder / "offbeat", preload)
        verdict, details = complaints(job, native, offbeat, text)
        if not preload and verdict == "UNSERVED":
            verdict = "ok"
        if verdict == "DIFFERENT":
            details = first_difference(folder, job.ranks)
        left = left_behind(name, before)
        if verdict == "ok" and left:
            verdict = "LEFT"
        if verdict != "ok":
            remove_abandoned(
                set(os.listdir("/dev/shm")) - before
            )  # what an MPI leaves when its ranks are killed
        return Outcome(job, verdict, (*details, *left), native_s, offbeat_s)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi,mpich", help=f"of: {', '.join(MPIS)}")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--runs", type=int, help="stop after this many runs")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000 * 100, help="the first one")
    parser.add_argument("--ranks", default="2,3,4")
    parser.add_argument(
        "--steps", type=int, help="of one program (default: 150, 50 where ranks wait in each other's way)"
    )
    parser.add_argument("--without", default="", metavar="KIND,KIND", help="leave out these kinds of step")
    parser.add_argument(
        "--limit", type=int, default=45, metavar="SECONDS", help="after which a program hangs"
    )
    parser.add_argument("--libraries", type=Path, metavar="FOLDER", help="with liboffbeat-*.so to try")
    parser.add_argument(
        "--native", action="store_true", help="run each seed natively twice: a test of this test"
    )
    return parser.parse_args()


def main() -> int:
    options = parse()
    ranks = [int(each) for each in options.ranks.split(",")]
    mpis = [MPIS[name] for name in options.mpi.split(",")]
    for mpi in mpis:
        program(mpi.name)
    verdicts: Counter[tuple[str, str]] = Counter()
    end = time.monotonic() + 60 * options.minutes
    for number, mpi in enumerate(itertools.cycle(mpis)):
        if time.monotonic() > end or number == options.runs:
            break
        seed = options.seed + number
        job = plan(
            mpi,
            seed,
            ranks[seed % len(ranks)],
            steps=options.steps,
            limit_s=options.limit,
            without=options.without,
        )
        preload: Path | bool = True
        if options.native:
            preload = False
        elif options.libraries:
            preload = options.libraries.resolve() / library(mpi.preload).name
        outcome = soak(job, preload)
        print(outcome, flush=True)
        if outcome.verdict != "ok":
            again = f"--mpi {mpi.name} --seed {seed} --ranks {job.ranks} --runs 1"
            again += f" --steps {options.steps}" if options.steps else ""
            again += f" --without {options.without}" if options.without else ""
            again += f" --libraries {options.libraries}" if options.libraries else ""
            print(f"    again: {sys.executable} {Path(__file__)} {again}", flush=True)
        verdicts[mpi.name, outcome.verdict] += 1
    for (name, verdict), count in sorted(verdicts.items()):
        print(f"{name}: {count} {verdict}")
    return 0 if all(verdict == "ok" for _, verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
