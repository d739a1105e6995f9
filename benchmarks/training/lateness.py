# SPDX-License-Identifier: BSD-3-Clause
"""Make a rank late on purpose."""

from __future__ import annotations

import argparse
import random
import time


class Lateness:
    """A rank that is late before each step: the last one, or another one each time."""

    def __init__(self, arguments: argparse.Namespace, rank: int, ranks: int) -> None:
        self._seconds = arguments.late_ms / 1e3
        self._is_busy = arguments.late_by == "busy"
        self._is_random = arguments.late_rank == "random"
        self._rank, self._ranks = rank, ranks
        self._draw = random.Random(0)  # the same on all ranks

    def step(self) -> None:
        """Return at once, or when the delay is over. Until then this thread sleeps or computes."""
        late = self._draw.randrange(self._ranks) if self._is_random else self._ranks - 1
        if self._rank != late or self._seconds == 0:
            return
        end = time.perf_counter() + self._seconds
        if not self._is_busy:
            time.sleep(self._seconds)
        while time.perf_counter() < end:
            pass


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--late-ms", type=float, default=0.0)
    parser.add_argument("--late-by", choices=["sleep", "busy"], default="sleep")
    parser.add_argument("--late-rank", choices=["last", "random"], default="last")
