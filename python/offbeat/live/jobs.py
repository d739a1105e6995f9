# SPDX-License-Identifier: BSD-3-Clause
"""Finds the ranks of this user's jobs on this node, and reads their counters."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offbeat import _core
from offbeat.live import layout

_LINK = "/memfd:offbeat-counters"


@dataclass
class Job:
    """Ranks that belong together."""

    name: str
    processes: list[layout.Process]

    @property
    def program(self) -> str:
        """What the ranks run."""
        return self.processes[0].program


@dataclass
class Snapshot:
    """The counters of all ranks at one moment."""

    at_ns: int
    processes: list[layout.Process] = field(default_factory=list)
    # By Process.key: the name by which ssh reaches the host of a rank; empty on this host.
    reached_by: dict[tuple[str, int], str] = field(default_factory=dict)


def counter_files() -> Iterator[tuple[int, str]]:
    """The number of each process of this user that has counters, and the path of the file."""
    user = os.geteuid()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        folder = f"/proc/{name}/fd"
        try:
            if os.stat(folder).st_uid != user:
                continue
            for number in os.listdir(folder):
                path = f"{folder}/{number}"
                if os.readlink(path).startswith(_LINK):
                    yield int(name), path
        except OSError:  # it has ended, or belongs to another user
            continue


def read(collectives: Sequence[str], files: Sequence[tuple[int, str]] | None = None) -> Snapshot:
    """The counters of all ranks of this user on this node, or those in these files."""
    seen: set[int] = set()
    snapshot = Snapshot(time.monotonic_ns())
    for pid, path in sorted(counter_files() if files is None else files):
        try:
            status = os.stat(path)
            if status.st_ino in seen:  # a child of fork() has its parent's file open, too
                continue
            seen.add(status.st_ino)
            data = _used_part(path)
            program = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        ticks, now_ns = _core.clock()
        process = layout.parse(data, list(collectives), ticks, now_ns, program.strip())
        if process is not None:
            process.pid = pid
            snapshot.processes.append(process)
    return snapshot


def is_any_traced() -> bool:
    """Whether a process of this user has offbeat's tracer."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == os.geteuid() and "/liboffbeat-trace-" in Path(
                    f"/proc/{name}/maps"
                ).read_text(errors="replace"):
                    return True
    return False


def _used_part(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        data = file.read(layout.BLOCK_BYTES)
        blocks = int.from_bytes(data[12:16], "little")
        return data + file.read(layout.BLOCK_BYTES * min(blocks, 512))


def jobs_of(processes: Sequence[layout.Process]) -> list[Job]:
    """The ranks by job. A rank of an unknown job is one of its own."""
    jobs: dict[str, list[layout.Process]] = {}
    for process in processes:
        name = f"{process.job:016x}"[:8] if process.job != 0 else f"p{process.pid}"
        jobs.setdefault(name, []).append(process)
    return [Job(name, sorted(ranks, key=lambda each: each.rank)) for name, ranks in jobs.items()]
