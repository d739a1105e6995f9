# SPDX-License-Identifier: BSD-3-Clause
"""Make a rank late on purpose."""

from __future__ import annotations

import time


def be_late(seconds: float, *, busy: bool) -> None:
    """Return after ``seconds``. Until then this thread sleeps or computes."""
    end = time.perf_counter() + seconds
    if not busy:
        time.sleep(seconds)
    while time.perf_counter() < end:
        pass
