# SPDX-License-Identifier: BSD-3-Clause
"""A table as data. The terminal and the page show the same ``Sheet``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text


class Tone(Enum):
    """The meaning of a cell. Each meaning also has a mark, so that nothing depends on colour."""

    PLAIN = ""
    GOOD = "good"
    BAD = "bad"
    DIM = "dim"


MARKS = {Tone.PLAIN: "", Tone.GOOD: "▼ ", Tone.BAD: "▲ ", Tone.DIM: ""}
_STYLES = {Tone.PLAIN: "", Tone.GOOD: "blue", Tone.BAD: "dark_orange", Tone.DIM: "dim"}


@dataclass(frozen=True)
class Cell:
    """A text and its meaning."""

    text: str
    tone: Tone = Tone.PLAIN

    @property
    def marked(self) -> str:
        """The text with the mark of its meaning."""
        return MARKS[self.tone] + self.text


@dataclass(frozen=True)
class Sheet:
    """A table. Its first column names the rows."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    left: frozenset[int] = frozenset({0})  # columns of words; the others are numbers


@dataclass(frozen=True)
class RankBars:
    """A bar for each rank: two shares of its time, which lie side by side."""

    caption: str
    parts: tuple[str, str]  # the names of the shares
    rows: Sequence[tuple[int, tuple[float, float]]]  # rank and shares, which are at most 1 together
    note: str = ""


def plain_cells(*texts: str) -> list[Cell]:
    """Plain cells with these texts."""
    return [Cell(text) for text in texts]


def to_terminal(sheet: Sheet) -> Group:
    """The table as Rich prints it, with its caption and its note."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(sheet.columns):
        words = number in sheet.left
        table.add_column(
            Text(column), justify="left" if words else "right", no_wrap=number == 0, overflow="fold"
        )
    for row in sheet.rows:
        table.add_row(*(Text(cell.marked, style=_STYLES[cell.tone]) for cell in row))
    parts: list[Text | Table] = [Text(sheet.caption, style="bold"), table]
    return Group(*parts, *([Text(sheet.note, style="dim")] if sheet.note else []))
