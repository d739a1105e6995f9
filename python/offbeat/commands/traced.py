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


@dataclass(frozen=True)
class TraceSummary:
    """How much a trace contains, read from the headers of its files."""

    folder: Path
    ranks: int
    calls: int
    partial: bool  # filters or MPI_Pcontrol left calls out
    lost: int  # calls that were not recorded because there was no room
    spawned: int  # jobs that the program spawned

    @staticmethod
    def of(folder: Path) -> TraceSummary:
        """Read the headers in a folder. Files that are no traces do not count."""
        calls, lost, ranks, partial = 0, 0, 0, False
        for path in folder.glob("rank-*.trace"):
            with path.open("rb") as file:
                header = file.read(64)
            if len(header) == 64 and header.startswith(b"OFFBEAT\n"):
                made, missing = struct.unpack_from("<QQ", header, 40)
                calls, lost, ranks = calls + made, lost + missing, ranks + 1
                partial = partial or bool(struct.unpack_from("<I", header, 20)[0] & _PARTIAL)
        return TraceSummary(folder, ranks, calls, partial, lost, sum(1 for _ in folder.glob("spawned-*")))

    def __str__(self) -> str:
        """One line that says what the trace contains and how to read it."""
        if self.ranks == 0:
            return "there is no trace, because the program did not start MPI"
        not_recorded = f", {self.lost} of them not recorded because there was no room" if self.lost else ""
        traced = "a part of them traced" if self.partial else "traced"
        jobs = (
            f" (and {format_count(self.spawned, 'spawned job')}: {self.folder}/spawned-*)"
            if self.spawned
            else ""
        )
        return (
            f"{format_count(self.calls, 'collective call')} on {format_count(self.ranks, 'rank')}"
            f"{not_recorded}, {traced} in {self.folder}{jobs}; "
            f"next: offbeat report {shlex.quote(str(self.folder))}"
        )

    def to_json(self) -> dict[str, Any]:
        """What ``offbeat trace --json`` prints, without the exit code."""
        return {**asdict(self), "folder": str(self.folder)}
