# SPDX-License-Identifier: BSD-3-Clause
"""Export to Intel MPI: variables I_MPI_ADJUST_*, one set for each number of ranks.

Intel MPI 2021.18 follows this one of the documented forms: ``7:0-1023;8:1024-2147483647``. The ranges are
of sizes, begin at 0, ascend and have no gaps; the last one holds for larger sizes, too. Ranges of ranks
beside ranges of sizes make Intel MPI ignore the sizes, so each number of ranks has a set of its own. No
number stands for the default: 0 is an algorithm like others. Where the default is best, the export therefore
names an algorithm that is as good, or leaves the whole collective to Intel MPI if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from offbeat.mpi import host_algorithms
from offbeat.rules.export import SETTINGS, Export, cannot_choose_by_size
from offbeat.rules.export_choices import Choice, Table, bands, best_at_all_sizes
from offbeat.units import format_count

_VENDOR = "Intel MPI"
_LARGEST_LENGTH = 2**31 - 1
# The collectives whose ranges were seen to count the bytes that `offbeat bench` counts.
_CHOSEN_BY_SIZE = {"allreduce", "bcast", "reduce", "allgather", "alltoall", "gather"}


def export(tables: Sequence[Table]) -> Export:
    """The export of tables with different numbers of ranks."""
    notes: list[str] = []
    named: list[tuple[int, str, int, str]] = []
    settings: dict[str, dict[str, str]] = {}
    for table in sorted(tables, key=lambda table: table.ranks):
        variables: dict[str, str] = {}
        for collective, choices in table.choices.items():
            if all(choice.name is None for choice in choices):
                continue
            chosen = _with_names(choices)
            if chosen is None:
                notes.append(
                    f"{collective}, {format_count(table.ranks, 'rank')}: Intel MPI decides by itself, "
                    "because its default is best at some sizes, and no algorithm that was measured is as "
                    "good there"
                )
            elif collective not in _CHOSEN_BY_SIZE and best_at_all_sizes(chosen) is None:
                notes.append(cannot_choose_by_size(_VENDOR, collective, table.ranks))
            else:
                variables[f"I_MPI_ADJUST_{collective.upper()}"] = _variable_value(collective, chosen)
                named += [
                    (table.ranks, collective, choice.size_bytes, choice.name)
                    for choice in choices
                    if choice.name is not None
                ]
        if variables:
            name = SETTINGS if len(tables) == 1 else f"settings-{table.ranks}.sh"
            settings[name] = variables
    return Export({}, settings, named, notes)


def _with_names(choices: Sequence[Choice]) -> list[Choice] | None:
    """The choices in which no cell is left to the default; None if one has no algorithm as good."""
    found = []
    for choice in choices:
        name = choice.name or choice.near
        if name is None:
            return None
        found.append(Choice(choice.size_bytes, name))
    return found


def _variable_value(collective: str, choices: Sequence[Choice]) -> str:
    found = bands(choices)
    if len(found) == 1:
        return _algorithm_number(collective, found[0].name)
    parts = []
    for band in found:
        least = 0 if band is found[0] else band.least
        most = _LARGEST_LENGTH if band is found[-1] else band.most
        parts.append(f"{_algorithm_number(collective, band.name)}:{least}-{most}")
    return ";".join(parts)


def _algorithm_number(collective: str, name: str | None) -> str:
    assert name is not None
    return host_algorithms.variables(_VENDOR, collective, name)[f"I_MPI_ADJUST_{collective.upper()}"]
