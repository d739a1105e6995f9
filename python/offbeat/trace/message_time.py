# SPDX-License-Identifier: BSD-3-Clause
"""alpha(size), the time of one message, measured or estimated. Imbalance divided by it is a factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.errors import CommandError
from offbeat.trace.metrics import Calls


@dataclass(frozen=True)
class MessageTime:
    """alpha(size): the time to communicate one message of the collective's size (paper 0, section 2.2)."""

    bytes: Floats
    microseconds: Floats
    source: str

    def __call__(self, size: Any) -> Floats:
        """The time in nanoseconds: linear between two measured sizes, in proportion above the largest."""
        times = np.interp(size, self.bytes, self.microseconds)
        above = np.asarray(size, dtype=np.float64) / max(float(self.bytes[-1]), 1.0)
        return np.asarray(1e3 * times * np.maximum(above, 1.0))

    @classmethod
    def read(cls, path: Path) -> MessageTime:
        """Read a file with lines of bytes and microseconds, as benchmarks/message_time.py prints them."""
        pairs = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CommandError(f"cannot read the message times {path}: {why}") from None
        for number, line in enumerate(lines, start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                size, time = int(words[0]), float(words[1])
            except (ValueError, IndexError):
                size, time = -1, 0.0
            if size < 0 or not 0 < time < float("inf"):
                raise CommandError(f"{path}, line {number}: write bytes and microseconds, such as 1024 1.7")
            pairs[size] = time
        if not pairs:
            raise CommandError(f"{path}: no line with bytes and microseconds")
        return cls.from_pairs(pairs, f"measured ({path.name})")

    @classmethod
    def from_pairs(cls, pairs: Mapping[int, float], source: str) -> MessageTime:
        """Make it from measured microseconds by size."""
        sizes = sorted(pairs)
        return cls(np.array(sizes, dtype=np.float64), np.array([pairs[size] for size in sizes]), source)


def estimate_message_time(calls: Calls) -> MessageTime | None:
    """Estimate alpha(size) from a trace, as the 10th percentile of the last delays of each size.

    A collective needs at least one message, so this is an upper bound, and factors made with it are
    lower bounds.
    """
    table = calls.whole[calls.whole["bytes"] > 0]
    delays = (table["end"] - table["last"]).astype(np.float64) / 1e3
    pairs = {}
    for size in _most_frequent(table["bytes"]):
        fastest = float(np.percentile(delays[table["bytes"] == size], 10))
        if fastest > 0:
            pairs[int(size)] = fastest
    return MessageTime.from_pairs(pairs, "estimated from this trace") if pairs else None


def _most_frequent(sizes: NDArray[np.int64], most: int = 256) -> Sequence[int]:
    distinct, count = np.unique(sizes, return_counts=True)
    return [int(size) for size in distinct[np.argsort(-count, kind="stable")[:most]]]
