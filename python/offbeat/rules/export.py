# SPDX-License-Identifier: BSD-3-Clause
"""What the exports of all hosts have in common.

An export is a set of files that make a host choose its own algorithms as a benchmark found best, without
offbeat.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offbeat.units import format_count

SETTINGS = "settings.sh"
_HEAD = """\
# Written by offbeat rules export for {what}.
# Run this before mpirun:
#
#     . {path}
#
"""


@dataclass(frozen=True)
class Export:
    """The files for one host."""

    texts: Mapping[str, str]  # the text of each file by its name, without those that set variables
    # The variables for each number of ranks, by the name of the file that sets them. {folder} stands for the
    # folder of the files.
    settings: Mapping[str, Mapping[str, str]]
    # The cells in which the files name an algorithm: number of ranks, collective, size, name.
    named: Sequence[tuple[int, str, int, str]]
    notes: Sequence[str] = field(default_factory=list)  # what could not be exported, and why

    def variables(self, name: str, folder: Path) -> dict[str, str]:
        """The variables of one file, if all files are in ``folder``."""
        return {key: value.replace("{folder}", str(folder)) for key, value in self.settings[name].items()}

    def files(self, folder: Path, what: str) -> dict[str, str]:
        """All files by name, for a folder whose final place is known."""
        found = dict(self.texts)
        for name in self.settings:
            lines = [
                f"export {key}={shlex.quote(value)}\n" for key, value in self.variables(name, folder).items()
            ]
            head = _HEAD.format(what=what, path=shlex.quote(str(folder / name)))
            found[name] = head + "".join(lines)
        return found


def cannot_choose_by_size(host: str, collective: str, ranks: int) -> str:
    """The note about a collective for which a host takes one algorithm for all sizes."""
    return (
        f"{collective}, {format_count(ranks, 'rank')}: {host} decides by itself, because it cannot be told "
        "to choose by size here, and the best choice depends on the size"
    )
