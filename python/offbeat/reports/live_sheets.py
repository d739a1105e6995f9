# SPDX-License-Identifier: BSD-3-Clause
"""The view of ``offbeat top``: a table of the collectives, and a bar for each rank."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from offbeat.live.activity import Activity, Row, Stuck
from offbeat.reports.sheet import Cell, Sheet, Tone, plain_cells, to_terminal
from offbeat.units import format_rounded_size, format_share, format_us

_COLUMNS = (
    "communicator",
    "collective",
    "calls/s",
    "bytes",
    "waiting",
    "communicating",
    "mostly for",
    "wait p50",
    "p95",
    "served by",
)
_BAR = 40
_WIDEST_ALGORITHM = 24
_MOST_ROWS = 12
_NOTE = (
    "Shares of the time of all ranks, in blocking calls. Waiting: until the last rank of the node came. "
    "Communicating: the rest, and waiting for other nodes."
)


def sheet(activity: Activity, caption: str) -> Sheet:
    """The table of the collectives."""
    shown = [row for row in activity.rows if row.calls > 0 or row.inside_ns > 0]
    rows = [_cells(row, activity.seconds) for row in shown[:_MOST_ROWS]]
    note = _NOTE if len(shown) <= _MOST_ROWS else f"{len(shown) - _MOST_ROWS} more rows: --json. {_NOTE}"
    return Sheet(caption, _COLUMNS, rows, note, frozenset({0, 1, 6, 9}))


def _cells(row: Row, seconds: float) -> list[Cell]:
    waiting = row.waiting_ns / max(1, row.elapsed_ns)
    rest = max(0, row.inside_ns - row.waiting_ns) / max(1, row.elapsed_ns)
    latest = row.latest()
    late = "-"
    if latest is not None and row.waiting_ns > 0:
        late = f"rank {latest[0]} ({format_share(min(1.0, latest[1].ns / row.waiting_ns))})"
    size = format_rounded_size(row.bytes / row.calls_of_all) if row.bytes else "-"
    server = row.algorithm if row.served else f"MPI {row.algorithm}".strip()
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


def bars(activity: Activity) -> Text:
    """A bar for each rank: how much of its time it waits, and communicates."""
    text = Text("time of each rank: # waiting, - communicating\n", style="bold")
    for rank in sorted(activity.waiting_share):
        waiting = min(1.0, activity.waiting_share[rank])
        inside = min(1.0, activity.inside_share[rank])
        full, more = round(_BAR * waiting), round(_BAR * max(0.0, inside - waiting))
        text.append(f"rank {rank:>4} ")
        text.append("#" * full, style="dark_orange")
        text.append("-" * more, style="blue")
        text.append(" " * max(0, _BAR - full - more) + f" {format_share(waiting):>5}\n")
    return text


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


def render(title: str, recent: Activity | None, total: Activity) -> Group:
    """Everything that one look shows."""
    parts: list[Text | Group] = [Text(title, style="bold")]
    parts += [Text(stuck_line(each), style="bold dark_orange") for each in (recent or total).stuck]
    if recent is not None:
        parts.append(to_terminal(sheet(recent, f"the last {recent.seconds:.0f} s")))
    parts.append(to_terminal(sheet(total, f"since the start, {total.seconds:.0f} s")))
    parts.append(bars(recent if recent is not None else total))
    return Group(*parts)
