# SPDX-License-Identifier: BSD-3-Clause
"""Where a rank mostly is while other ranks wait for it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from offbeat.live.activity import key_of
from offbeat.live.layout import Process

_PAUSE_S = 0.02
_MOST_FRAMES = 4
_OFFBEAT = "liboffbeat-"
_OUTERMOST = ("main()", "MAIN__()", "<module>()")


@dataclass
class Places:
    """What looks at a rank have found."""

    looks: int = 0
    awaited: int = 0  # looks in which others waited for the rank, and it answered
    texts: Counter[str] = field(default_factory=Counter)  # where it was then
    has_ended: bool = False  # the rank, before the time was over


def is_awaited(rank: Process, others: Sequence[Process]) -> bool:
    """Whether another rank is in a call, or waits for one, to which this one has not come."""
    mine = {key_of(each): each.calls for each in rank.communicators if each.identity != 0}
    for other in others:
        for each in other.communicators if other.key != rank.key else ():
            known = mine.get(key_of(each), math.inf)
            is_inside = any(counts.is_inside for counts in each.collectives.values())
            number = each.awaited_number or (each.calls if is_inside else 0)
            if number > known:
                return True
    return False


def place(frames: Sequence[str]) -> str:
    """The innermost frames of a stack in one line, as far as the function that begins the program.

    Internal functions of the C library, such as __nanosleep(), are left out; Python's __init__() is not.
    """
    kept: list[str] = []
    for frame in frames:
        name = frame.partition("(")[0]
        if name.startswith("__") and not name.endswith("__"):
            continue
        kept.append(frame)
        if frame.startswith(_OUTERMOST) or len(kept) == _MOST_FRAMES:
            break
    return ", called from ".join(kept)


def watch(
    pid: int,
    seconds: float,
    look: Callable[[], Sequence[Process]],
    stack: Callable[[int], Sequence[str]],
) -> Places:
    """Look at a rank again and again, and ask it where it is when others wait for it."""
    found = Places()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        processes = look()
        rank = next((each for each in processes if each.pid == pid), None)
        if rank is None:
            found.has_ended = True
            break
        found.looks += 1
        frames = stack(pid) if is_awaited(rank, processes) else []
        if frames and not any(_OFFBEAT in frame for frame in frames):  # it may have come meanwhile
            found.awaited += 1
            found.texts[place(frames)] += 1
        time.sleep(_PAUSE_S)
    return found
