# SPDX-License-Identifier: BSD-3-Clause
"""Whether ranks had to wait for cores. Then a late rank is no fault of the program."""

from __future__ import annotations

from dataclasses import dataclass

from offbeat.trace.reader import Trace, ranges
from offbeat.units import format_count, format_share

# The share of the run that a rank waits for its core before that counts. Kernel threads alone cause less.
_LEAST_SHARE = 0.03


@dataclass(frozen=True)
class Contention:
    """The ranks that waited for cores, the longest wait first."""

    ranks: tuple[int, ...]
    share: float  # of the run that the first of them waited
    preemptions: int  # how often the first of them lost its core

    @property
    def sentence(self) -> str:
        """Which ranks had to wait for a core, how long, and what the user should do about it."""
        first, *others = self.ranks
        was = "so was rank" if len(others) == 1 else "so were ranks"
        also = f"; {was} {ranges(sorted(others))}" if others else ""
        return (
            f"Cores were overloaded: rank {first} was without one for {format_share(self.share)} of the run "
            f"and preempted {format_count(self.preemptions, 'time')}{also}. Give each rank a core of its own "
            "before you look for a reason in the program."
        )


def contention(trace: Trace) -> Contention | None:
    """The ranks that waited for cores. None: no rank did, or the files do not say."""
    begin_ns, end_ns = trace.span_ns
    run_s = max(end_ns - begin_ns, 1) / 1e9
    known = [(rank, *found) for rank, file in trace.files.items() if (found := file.contention) is not None]
    crowded = sorted((each for each in known if each[1] >= _LEAST_SHARE * run_s), key=lambda each: -each[1])
    if not crowded:
        return None
    _, waited_s, preemptions = crowded[0]
    return Contention(tuple(each[0] for each in crowded), min(waited_s / run_s, 1.0), preemptions)
