# SPDX-License-Identifier: BSD-3-Clause
"""The view of ``offbeat top``: a table of the collectives, and a bar for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group
from rich.text import Text

from offbeat.live.activity import Activity, Row, Stuck
from offbeat.reports.sheet import Cell, RankBars, Sheet, Tone, plain_cells, to_terminal
from offbeat.units import format_count, format_rounded_size, format_share, format_us

_COLUMNS = (
    "communicator",
    "collective",
    "calls/s",
    "bytes",
    "waiting",
    "commun.",
    "mostly for",
    "wait p50",
    "p95",
    "served by",
)
_LEFT = (0, 1, 6, 9)
# Columns that a narrow terminal does not show, the first to go first.
_DISPENSABLE = (7, 8, 3, 0, 9, 5, 2)
_BAR = 40
_NARROWEST_BAR = 10
_WIDEST_ALGORITHM = 24
_MOST_ROWS = 12
_MOST_ROWS_OF_PAGE = 100
_MOST_BARS_OF_PAGE = 256
_ALL_COLUMNS = 1 << 20
_NOTE = (
    "Shares of the time of all ranks in which a call blocked them. Waiting: until the last rank of the node "
    "came. Commun.: the rest, and waiting for other nodes."
)


def sheet(activity: Activity, caption: str, width: int = 140, most_rows: int = _MOST_ROWS) -> Sheet:
    """The table of the collectives, with the columns for which there is room."""
    shown = [row for row in activity.rows if row.is_active]
    rows = [_cells(row, activity.seconds) for row in shown[:most_rows]]
    left_out = len(shown) - most_rows
    note = _NOTE if left_out <= 0 else f"{format_count(left_out, 'more row')}: --json. {_NOTE}"
    kept = _fitting(rows, width)
    return Sheet(
        caption,
        [_COLUMNS[number] for number in kept],
        [[row[number] for number in kept] for row in rows],
        note,
        frozenset(place for place, number in enumerate(kept) if number in _LEFT),
    )


def _fitting(rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """The columns that are not too wide together, each with a space on both sides and one between them."""
    kept = list(range(len(_COLUMNS)))
    widths = [
        max([len(name), *(len(row[number].marked) for row in rows)]) for number, name in enumerate(_COLUMNS)
    ]
    for number in _DISPENSABLE:
        if sum(widths[each] + 3 for each in kept) <= width:
            break
        kept.remove(number)
    return kept


def _cells(row: Row, seconds: float) -> list[Cell]:
    waiting = row.waiting_ns / max(1, row.elapsed_ns)
    rest = max(0, row.inside_ns - row.waiting_ns) / max(1, row.elapsed_ns)
    latest = row.latest()
    late = "-"
    if latest is not None and row.waiting_ns > 0:
        late = f"rank {latest[0]} ({format_share(min(1.0, latest[1].ns / row.waiting_ns))})"
    size = format_rounded_size(row.bytes / row.calls_of_all) if row.bytes else "-"
    server = row.algorithm or "offbeat"
    if row.server == "MPI":
        server = f"MPI {row.algorithm}".strip()
    if len(server) > _WIDEST_ALGORITHM:
        server = server[: _WIDEST_ALGORITHM - 3] + "..."
    return [
        *plain_cells(row.communicator, row.collective, _rate(row.calls / max(1e-9, seconds)), size),
        Cell(format_share(waiting), Tone.BAD if waiting >= 0.05 else Tone.PLAIN),
        *plain_cells(format_share(rest), late, _time(row.wait_ns(0.5)), _time(row.wait_ns(0.95)), server),
    ]


def _rate(calls: float) -> str:
    return f"{calls:,.0f}" if calls >= 10 else f"{calls:.1f}"


def _time(nanoseconds: float | None) -> str:
    return "-" if nanoseconds is None else f"<{format_us(nanoseconds / 1e3)}"


def bars(activity: Activity, width: int = 140, most_ranks: int = 1 << 20) -> Text:
    """A bar for each rank: how much of its time it waits, and communicates. Those that wait least stay."""
    room = max(_NARROWEST_BAR, min(_BAR, width - len("rank 1234  100.0%")))
    text = Text("time of each rank: # waiting, - communicating\n", style="bold")
    shown = _shares(activity, most_ranks)
    for rank, (waiting, rest) in shown:
        full, more = round(room * waiting), round(room * rest)
        text.append(f"rank {rank:>4} ")
        text.append("#" * full, style="dark_orange")
        text.append("-" * more, style="blue")
        text.append(" " * max(0, room - full - more) + f" {format_share(waiting):>5}\n")
    if left_out := _left_out(activity, len(shown)):
        text.append(f"{left_out}\n", style="dim")
    return text


def _shares(activity: Activity, most_ranks: int) -> list[tuple[int, tuple[float, float]]]:
    """Ranks, and the shares of their time in which they wait and communicate."""
    ranks = sorted(activity.waiting_share)
    if len(ranks) > most_ranks:
        ranks = sorted(sorted(ranks, key=lambda rank: activity.waiting_share[rank])[:most_ranks])
    found = []
    for rank in ranks:
        waiting = min(1.0, activity.waiting_share[rank])
        found.append((rank, (waiting, max(0.0, min(1.0, activity.inside_share[rank]) - waiting))))
    return found


def _left_out(activity: Activity, shown: int) -> str:
    count = len(activity.waiting_share) - shown
    return f"{count} ranks that wait longer: --json" if count > 0 else ""


def stuck_line(stuck: Stuck) -> str:
    """The call for which ranks wait, in words."""
    where = f"{stuck.collective} {stuck.number} of {stuck.communicator}"
    if not stuck.missing:
        return f"{_ranks(stuck.waiting)} in {where} for {stuck.seconds:.0f} s; all ranks here have come"
    verb = "has" if len(stuck.missing) == 1 else "have"
    return f"{_ranks(stuck.missing)} {verb} not come to {where}; others wait for {stuck.seconds:.0f} s"


def _ranks(numbers: list[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:8])) + (" ..." if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def render(
    title: str, recent: Activity | None, total: Activity, width: int = 140, height: int = 1 << 20
) -> Group:
    """Everything that one look shows, as far as there is room. What matters less is left out."""
    parts: list[Text | Group] = [Text(title[:width], style="bold")]
    now = recent if recent is not None else total
    stuck = [Text(stuck_line(each), style="bold dark_orange") for each in now.stuck[:4]]
    parts += stuck
    used = 1 + sum(-(-len(line.plain) // width) for line in stuck)
    count = sum(row.is_active for row in now.rows)
    # A table has a caption, a heading with lines around it, and an empty line; the bars have a heading.
    frame, notes = 5, -(-len(_NOTE) // width)
    ranks = len(now.waiting_share)
    free = height - used - frame - 3  # and what is around the bars
    rows = min(_MOST_ROWS, count, max(1, free - min(ranks, 4)))
    most_ranks = max(1, min(ranks, free - rows))
    free -= rows + most_ranks
    shown = sheet(now, _caption(now, is_recent=recent is not None), width, rows)
    parts.append(to_terminal(shown if free >= notes else replace(shown, note="")))
    free -= notes
    if recent is not None and free >= frame + 1:
        of_total = sheet(total, _caption(total, is_recent=False), width, min(_MOST_ROWS, free - frame))
        parts.append(to_terminal(replace(of_total, note="")))
    parts.append(bars(now, width, most_ranks))
    return Group(*parts)


def of_page(recent: Activity | None, total: Activity) -> tuple[list[Sheet], RankBars]:
    """What a page shows: the tables with all columns, and the bars."""
    shown = [(total, _caption(total, is_recent=False))]
    if recent is not None:
        shown.insert(0, (recent, _caption(recent, is_recent=True)))
    sheets = [sheet(each, caption, _ALL_COLUMNS, _MOST_ROWS_OF_PAGE) for each, caption in shown]
    now, caption = shown[0]
    rows = _shares(now, _MOST_BARS_OF_PAGE)
    bars = RankBars(
        f"time of each rank, {caption}", ("waiting", "communicating"), rows, _left_out(now, len(rows))
    )
    return [*(replace(each, note="") for each in sheets[:-1]), sheets[-1]], bars


def _caption(activity: Activity, *, is_recent: bool) -> str:
    return f"the last {activity.seconds:.0f} s" if is_recent else f"since the start, {activity.seconds:.0f} s"
