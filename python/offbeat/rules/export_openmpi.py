# SPDX-License-Identifier: BSD-3-Clause
"""Export to Open MPI: a file of rules of the tuned component.

Up to 5.0 it is in the first version of the classic format. 4.1.7 and older ignore the second version without
a word, and 5.0 ignores the JSON of 6.0. Open MPI 6.0 also reads the classic format, but for other
communicators: a rule for N ranks then holds for fewer than N. The file names numbers of algorithms; 0 leaves
the decision to Open MPI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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
# The fan-out is a column of the file. This is the default of the variables that set it otherwise
# (coll_tuned_init_chain_fanout and coll_tuned_init_tree_fanout), with which these algorithms were measured.
# For allgather and reduce it is the radix in Open MPI 6, where an allgather
# of radix 0 never ends.
_FANOUT = 4
_HAS_FANOUT = {("bcast", "chain"), ("reduce", "chain"), ("allgather", "bruck"), ("reduce", "knomial")}
_FIRST_WITH_JSON = 6

# From which length which algorithm; None: Open MPI decides.
Rows = Sequence[tuple[int, str | None]]
Sections = Mapping[str, Mapping[int, Rows]]


def export(tables: Sequence[Table], version: str) -> Export:
    """The export of tables with different numbers of ranks."""
    notes: list[str] = []
    named: list[tuple[int, str, int, str]] = []
    sections: dict[str, dict[int, Rows]] = {}
    for table in sorted(tables, key=lambda table: table.ranks):
        for collective, choices in table.choices.items():
            rows = _rows(collective, choices, table.ranks)
            if rows is None:
                notes.append(cannot_choose_by_size(_VENDOR, collective, table.ranks))
            elif rows:
                sections.setdefault(collective, {})[table.ranks] = rows
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
    reads_json = int(version.partition(".")[0]) >= _FIRST_WITH_JSON
    text = _json(sections) if reads_json else _classic(sections)
    return Export({RULES: text}, {SETTINGS: variables}, named, notes)


def _rows(collective: str, choices: Sequence[Choice], ranks: int) -> Rows | None:
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


def _number_and_fanout(collective: str, name: str) -> tuple[int, int]:
    variables = host_algorithms.variables(_VENDOR, collective, name)
    number = int(variables[f"OMPI_MCA_coll_tuned_{collective}_algorithm"])
    return number, _FANOUT if (collective, name) in _HAS_FANOUT else 0


def _json(sections: Sections) -> str:
    """The file for Open MPI 6, which decides by itself where there is no rule."""
    collectives = {
        collective: [
            {"comm_size_min": ranks, "comm_size_max": ranks, "rules": _json_rules(collective, rows)}
            for ranks, rows in sizes.items()
        ]
        for collective, sizes in sections.items()
    }
    return (
        json.dumps({"rule_file_version": 3, "module": "tuned", "collectives": collectives}, indent=1) + "\n"
    )


def _json_rules(collective: str, rows: Rows) -> list[dict[str, int | str]]:
    rules: list[dict[str, int | str]] = []
    ends: list[int | str] = [least - 1 for least, _ in rows[1:]]
    for (least, name), most in zip(rows, [*ends, "inf"], strict=True):
        if name is not None:
            number, fanout = _number_and_fanout(collective, name)
            rules.append({"msg_size_min": least, "msg_size_max": most, "alg": number, "faninout": fanout})
    return rules


def _line(collective: str, least: int, name: str | None) -> str:
    if name is None:
        return f"{least} 0 0 0"
    number, fanout = _number_and_fanout(collective, name)
    return f"{least} {number} {fanout} 0  # {name}"


def _classic(sections: Sections) -> str:
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
            sizes[ranks] = [_line(collective, least, name) for least, name in rows]
            if ranks + 1 not in sections[collective]:
                sizes[ranks + 1] = [_line(collective, 0, None)]
        lines += [f"{_ALGORITHM_NUMBERS[collective]}  # {collective}", f"{len(sizes)}  # numbers of ranks"]
        for ranks in sorted(sizes):
            lines += [f"{ranks}  # ranks and more", f"{len(sizes[ranks])}  # rules", *sizes[ranks]]
    return "\n".join(lines) + "\n"
