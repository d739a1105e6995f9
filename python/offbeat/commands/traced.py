# SPDX-License-Identifier: BSD-3-Clause
"""How much a trace contains, read from the headers of its files without NumPy."""

from __future__ import annotations

import shlex
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offbeat.units import format_count

_PARTIAL = 4  # a flag of the file; see docs/reference/trace-format.md
_HEADER_BYTES, _SLOT_BYTES = 4096, 64


@dataclass(frozen=True)
class TraceSummary:
    """How much a trace contains, read from the headers of its files."""

    folder: Path
    ranks: int  # whose files can be read
    of_ranks: int  # of the program
    calls: int
    partial: bool  # filters or MPI_Pcontrol left calls out
    lost: int  # calls that were not recorded because there was no room
    cut: int  # files that somebody has cut
    spawned: int  # jobs that the program spawned

    @staticmethod
    def of(folder: Path, *, is_traced: bool = True) -> TraceSummary:
        """Read the headers in a folder. If the run is not traced, what is there belongs to another one."""
        calls, lost, ranks, of_ranks, cut, partial = 0, 0, 0, 0, 0, False
        for path in folder.glob("rank-*.trace") if is_traced else ():
            header, size = _begin_of(path)
            if len(header) == 64 and header.startswith(b"OFFBEAT\n"):
                slots, made, missing = struct.unpack_from("<QQQ", header, 32)
                calls, lost, ranks = calls + made, lost + missing, ranks + 1
                flags, _, world = struct.unpack_from("<III", header, 20)
                of_ranks, partial = max(of_ranks, world), partial or bool(flags & _PARTIAL)
                cut += size < _HEADER_BYTES + slots * _SLOT_BYTES
            else:
                cut += 1
        spawned = sum(1 for _ in folder.glob("spawned-*")) if is_traced else 0
        return TraceSummary(folder, ranks, of_ranks, calls, partial, lost, cut, spawned)

    def __str__(self) -> str:
        """One line that says what the trace contains and how to read it."""
        cut = f"{format_count(self.cut, 'file')} cut while the program ran" if self.cut else ""
        if self.ranks == 0:
            why = cut or "the program did not start MPI, or a line above says why it was not traced"
            return f"there is no trace in {self.folder}: {why}"
        not_recorded = f", {self.lost} of them not recorded" if self.lost else ""
        of_all = f"{self.ranks} of " if self.ranks < self.of_ranks else ""
        traced = "a part of them traced" if self.partial else "traced"
        jobs = (
            f" (and {format_count(self.spawned, 'spawned job')}: {self.folder}/spawned-*)"
            if self.spawned
            else ""
        )
        return (
            f"{format_count(self.calls, 'collective call')} on {of_all}{format_count(self.of_ranks, 'rank')}"
            f"{not_recorded}, {traced} in {self.folder}{jobs}{', with ' + cut if cut else ''}; "
            f"next: offbeat report {shlex.quote(str(self.folder))}"
        )

    def to_json(self) -> dict[str, Any]:
        """What ``offbeat trace --json`` prints, without the exit code."""
        return {**asdict(self), "folder": str(self.folder)}


def _begin_of(path: Path) -> tuple[bytes, int]:
    """The begin of a file and its size; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64), path.stat().st_size
    except OSError:
        return b"", 0
