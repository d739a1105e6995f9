# SPDX-License-Identifier: BSD-3-Clause
"""Show rules, plans and their differences as tables and lines."""

from __future__ import annotations

from collections.abc import Sequence

from offbeat import _core
from offbeat.reports.sheet import Sheet, plain_cells
from offbeat.rules import spelling
from offbeat.rules.difference import Difference
from offbeat.rules.export_check import SeenEffect
from offbeat.rules.spelling import bytes_text, counts_text
from offbeat.units import formatted_alike, spell_size


def plan_sheet(caption: str, rows: Sequence[_core.PlanRow]) -> Sheet:
    """A table of the rows of a plan."""
    return Sheet(
        caption=caption,
        columns=("bytes", "expression", "form", "needs", "why", "from"),
        rows=[
            plain_cells(
                bytes_text(row["least_bytes"], row["most_bytes"]),
                " | ".join(row["alternatives"]),
                row["form"],
                row["needs"],
                row["reason"].removeprefix(f"{row['origin']}: "),
                row["origin"] or "-",
            )
            for row in rows
        ],
        left=frozenset(range(6)),
    )


def difference_sheet(caption: str, names: tuple[str, str], found: Sequence[Difference]) -> Sheet:
    """A table with one row for each set of calls for which two files of rules choose differently."""
    every = len(_core.hosts())
    return Sheet(
        caption=caption,
        columns=("collective", "host", "nodes", "ppn", "bytes", *names),
        rows=[
            plain_cells(
                each.calls,
                "*" if len(each.hosts) == every else ", ".join(each.hosts),
                counts_text(each.nodes.least, each.nodes.most),
                counts_text(each.ppn.least, each.ppn.most),
                bytes_text(each.choice.bytes.least, each.choice.bytes.most),
                each.choice.first,
                each.choice.second,
            )
            for each in found
        ],
        left=frozenset(range(7)),
    )


def rule_lines(rules: Sequence[_core.Rule]) -> list[str]:
    """The rules as the lines of a file of rules, aligned in columns."""
    rows = [rule["text"].split(" ", len(spelling.FIELDS) - 1) for rule in rules]
    return spelling.rule_lines(rows, [rule["reason"] for rule in rules])


def seen_sheet(vendor: str, seen: Sequence[SeenEffect]) -> Sheet:
    """A table of the cells in which an export names an algorithm."""
    return Sheet(
        caption=f"{vendor} alone, without and with the export",
        columns=("collective", "ranks", "bytes", "algorithm", "default", "exported", "seen by"),
        rows=[
            plain_cells(
                each.collective,
                f"{each.ranks}",
                spell_size(each.size_bytes),
                each.name,
                *formatted_alike([each.default_us, each.exported_us]),
                each.by,
            )
            for each in seen
        ],
        left=frozenset({0, 3, 6}),
    )
