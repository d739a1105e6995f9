# SPDX-License-Identifier: BSD-3-Clause
"""Spell the fields of rules, and lay rules out as the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
FIELDS = ("collective", "host", "nodes", "ppn", "bytes", "algorithm")


def size_text(size_bytes: int) -> str:
    """A size as rules spell it: ``16KiB``, ``513``."""
    for unit, factor in _UNITS:
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def bytes_text(least: int, most: int | None) -> str:
    """A range as rules spell it: ``A..B``, or ``A..<B`` if B is then a whole number of KiB."""
    if most is None:
        return "*" if least == 0 else f"{size_text(least)}.."
    if least == most:
        return size_text(least)
    is_round = (most + 1) % 1024 == 0
    end = "<" + size_text(most + 1) if is_round else size_text(most)
    return ("" if least == 0 else size_text(least)) + ".." + end


def rule_lines(rows: Sequence[Sequence[str]], reasons: Sequence[str]) -> list[str]:
    """Rules as the lines of a file, aligned in columns. Each row has the six fields."""
    header = ["# " + FIELDS[0], *FIELDS[1:]]
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(FIELDS))]
    found = []
    for row, reason in zip([header, *rows], ["reason", *reasons], strict=True):
        text = "  ".join(f"{field:<{width}}" for field, width in zip(row, widths, strict=True))
        found.append(f"{text}  # {reason}" if reason else text.rstrip())
    return found
