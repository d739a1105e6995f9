# SPDX-License-Identifier: BSD-3-Clause
"""Spell the fields of rules, and lay rules out as the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence

from offbeat.units import spell_size

FIELDS = ("collective", "host", "nodes", "ppn", "bytes", "algorithm")


def bytes_text(least: int, most: int | None) -> str:
    """A range as rules spell it: ``A..B``, or ``A..<B`` if B is then a whole number of KiB."""
    if most is None:
        return "*" if least == 0 else f"{spell_size(least)}.."
    if least == most:
        return spell_size(least)
    is_round = (most + 1) % 1024 == 0
    end = "<" + spell_size(most + 1) if is_round else spell_size(most)
    return ("" if least == 0 else spell_size(least)) + ".." + end


def counts_text(least: int, most: int | None) -> str:
    """Numbers of nodes or ranks as rules spell them: ``4``, ``9..15``, ``16..``, and ``*`` for any."""
    if most is None:
        return "*" if least == 1 else f"{least}.."
    return str(least) if least == most else f"{least}..{most}"


def file_text(title: str, rows: Sequence[Sequence[str]], reasons: Sequence[str]) -> str:
    """The text of a file of rules. ``title`` becomes its first line, a comment."""
    return "\n".join([f"# {title}", *rule_lines(rows, reasons)]) + "\n"


def rule_lines(rows: Sequence[Sequence[str]], reasons: Sequence[str]) -> list[str]:
    """Rules as the lines of a file, aligned in columns. Each row has the six fields."""
    header = ["# " + FIELDS[0], *FIELDS[1:]]
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(FIELDS))]
    found = []
    for row, reason in zip([header, *rows], ["reason", *reasons], strict=True):
        text = "  ".join(f"{field:<{width}}" for field, width in zip(row, widths, strict=True))
        found.append(f"{text}  # {reason}" if reason else text.rstrip())
    return found
