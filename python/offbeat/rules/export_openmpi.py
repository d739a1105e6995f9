# SPDX-License-Identifier: BSD-3-Clause
"""Export to Open MPI: a file of rules of the tuned component, in the first version of its classic format.

Every version of Open MPI reads this format. 4.1.7 and older ignore the second version without a word, and 5.0
ignores the JSON of 6.0. The file names numbers of algorithms; 0 leaves the decision to Open MPI.
"""

from __future__ import annotations

from collections.abc import Sequence

from offbeat.mpi import host_algorithms
from offbeat.rules.export import SETTINGS, Export, cannot_choose_by_size
from offbeat.rules.export_choices import Choice, Table, bands, best_at_all_sizes

RULES = "openmpi.rules"
_VENDOR = "Open MPI"
# The positions in COLLTYPE of ompi/mca/coll/base/coll_base_functions.h.
_ALGORITHM_NUMBERS = {
    "allgather": 0, "allgatherv": 1, "allreduce": 2, "alltoall": 3, "alltoallv": 4, "barrier": 6, "bcast": 7,
    "exscan": 8, "gather": 9, "reduce": 11, "reduce_scatter": 12, "reduce_scatter_block": 13, "scan": 14,
    "scatter": 15,
}  # fmt: skip
# The length that tuned looks up (coll_tuned_decision_dynamic.c) is that of `offbeat bench`, or for these
# collectives of all blocks together.
_SIZE_IS_ALL_BLOCKS = {"allgather", "alltoall", "reduce_scatter_block"}
# These get one rule for all sizes. For barrier and alltoallv tuned looks up no length. For scan and exscan
# the length does not depend on the element count. For gather and scatter it depends on arguments that may
# differ between ranks, so ranks could choose differently.
_ONE_FOR_ALL_SIZES = {"barrier", "alltoallv", "scan", "exscan", "gather", "scatter"}
# The fan-out of `chain` is a column of the file. This is the default of the variable that sets it otherwise
# (coll_tuned_init_chain_fanout), with which `chain` was measured.
_CHAIN_FANOUT = 4
_HOST_DECIDES = (0, 0)  # from 0 bytes, algorithm 0: Open MPI decides


def export(tables: Sequence[Table]) -> Export:
    """The export of tables with different numbers of ranks."""
    notes: list[str] = []
    named: list[tuple[int, str, int, str]] = []
    sections: dict[str, dict[int, list[str]]] = {}
    for table in sorted(tables, key=lambda table: table.ranks):
        for collective, choices in table.choices.items():
            rows = _rows(collective, choices, table.ranks)
            if rows is None:
                notes.append(cannot_choose_by_size(_VENDOR, collective, table.ranks))
            elif rows:
                sections.setdefault(collective, {})[table.ranks] = [
                    _line(collective, least, name) for least, name in rows
                ]
                named += [
                    (table.ranks, collective, choice.size_bytes, choice.name)
                    for choice in choices
                    if choice.name is not None
                ]
    variables = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": f"{{folder}}/{RULES}",
    }
    if any(table.hosts > 1 for table in tables):
        # On several nodes the component han comes before tuned, and would hide its rules.
        variables["OMPI_MCA_coll_tuned_priority"] = "100"
    return Export({RULES: _text(sections)}, {SETTINGS: variables}, named, notes)


def _rows(collective: str, choices: Sequence[Choice], ranks: int) -> list[tuple[int, str | None]] | None:
    """The least length and the algorithm of each rule; empty if Open MPI decides everywhere.

    None if the choice depends on the size, but rules cannot.
    """
    if all(choice.name is None for choice in choices):
        return []
    if collective in _ONE_FOR_ALL_SIZES:
        name = best_at_all_sizes(choices)
        return [(0, name)] if name is not None else None
    factor = ranks if collective in _SIZE_IS_ALL_BLOCKS else 1
    rows: list[tuple[int, str | None]] = [(0, None)]
    found = bands(choices)
    for band in found:
        rows.append((band.least * factor, band.name))
    rows.append(((found[-1].most + 1) * factor, None))
    merged: list[tuple[int, str | None]] = []
    for least, name in rows:
        if merged and merged[-1][0] == least:
            merged.pop()
        if not merged or merged[-1][1] != name:
            merged.append((least, name))
    return merged


def _line(collective: str, least: int, name: str | None) -> str:
    if name is None:
        return f"{least} 0 0 0"
    variables = host_algorithms.variables(_VENDOR, collective, name)
    number = variables[f"OMPI_MCA_coll_tuned_{collective}_algorithm"]
    fanout = _CHAIN_FANOUT if name == "chain" else 0
    return f"{least} {number} {fanout} 0  # {name}"


def _text(sections: dict[str, dict[int, list[str]]]) -> str:
    lines = [
        "# Written by offbeat rules export. The columns of a rule: least length in bytes, algorithm (0: the",
        "# default decision), fan-out, segment size.",
        f"{len(sections)}  # collectives",
    ]
    for collective in sorted(sections, key=_ALGORITHM_NUMBERS.__getitem__):
        # A communicator takes the last size that is not above its own, or the first one, whatever it is. So a
        # rule for 4 ranks stands between one from 0 ranks and one from 5.
        sizes: dict[int, list[str]] = {0: [_line(collective, 0, None)]}
        for ranks, rows in sections[collective].items():
            sizes[ranks] = rows
            if ranks + 1 not in sections[collective]:
                sizes[ranks + 1] = [_line(collective, 0, None)]
        lines += [f"{_ALGORITHM_NUMBERS[collective]}  # {collective}", f"{len(sizes)}  # numbers of ranks"]
        for ranks in sorted(sizes):
            lines += [f"{ranks}  # ranks and more", f"{len(sizes[ranks])}  # rules", *sizes[ranks]]
    return "\n".join(lines) + "\n"
