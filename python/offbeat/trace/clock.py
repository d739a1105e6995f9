# SPDX-License-Identifier: BSD-3-Clause
"""Convert times of a rank's own clock to times of the clock of rank 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.trace.layout import Sync

Times = NDArray[np.int64]

# A time is damaged if it differs by more than this from the start of the rank, as its file has it.
SANE_NS = 1 << 55  # about 14 months


class Clock:
    """The clock of one rank, as its file describes it."""

    def __init__(self, header: Any, wall_offset_ns: int = 0) -> None:
        """``wall_offset_ns`` is the offset by CLOCK_REALTIME, which serves a rank that never synchronised."""
        self._syncs = [sync for sync in (header["start"], header["end"]) if sync["kind"] != Sync.NONE]
        self._wall_offset_ns = wall_offset_ns

    @property
    def synchronised(self) -> bool:
        """Whether the rank compared its clock with that of rank 0."""
        return bool(self._syncs)

    @property
    def error_ns(self) -> float:
        """The largest measured residual error; nan if none was measured."""
        errors = [float(sync["error"]) for sync in self._syncs]
        return max(errors) if errors and all(np.isfinite(errors)) else float("nan")

    @property
    def bound_ns(self) -> float:
        """The largest possible error, even if messages take longer in one direction; 0: not known."""
        return max((float(sync["bound"]) for sync in self._syncs), default=0.0)

    def to_global(self, local: Times) -> Times:
        """Convert own times to times of rank 0. Between two synchronisations this interpolates."""
        if not self._syncs:
            return np.asarray(local + np.int64(self._wall_offset_ns))
        first = _correction(self._syncs[0], local)
        if len(self._syncs) == 1:
            return np.asarray(local + first)
        begin, end = (int(sync["at"]) for sync in self._syncs)
        weight = np.clip((local - begin) / max(end - begin, 1), 0.0, 1.0)
        difference = _correction(self._syncs[1], local) - first
        return np.asarray(local + first + np.rint(weight * difference).astype(np.int64))


def _correction(sync: Any, local: Times) -> Times:
    # The offset between two hosts has more digits than a double, so only the drift is computed in doubles.
    drift = np.rint(float(sync["slope"]) * (local - np.int64(sync["at"])))
    return np.asarray(np.int64(sync["offset"]) + drift.astype(np.int64))


def is_sane(sync: Any, own_time: int) -> bool:
    """Whether a tracer can have written this clock."""
    if sync["kind"] not in list(Sync):
        return False
    if sync["kind"] == Sync.NONE:
        return True
    return (
        abs(int(sync["at"]) - own_time) < SANE_NS
        and abs(int(sync["offset"])) < 1 << 62
        and abs(float(sync["slope"])) < 0.01  # false for nan
    )
