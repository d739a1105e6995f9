# SPDX-License-Identifier: BSD-3-Clause
"""Results of ``offbeat bench`` with known truth (docs/reference/bench-format.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Median last delays in us: size, pattern, algorithm.
DELAYS: Mapping[tuple[int, str], Mapping[str, float]] = {
    (8, "balanced"): {"native": 10.0, "ring": 20.0, "tree": 10.4},
    (8, "last_delayed"): {"native": 20.0, "ring": 10.0, "tree": 8.0},
    (8, "random"): {"native": 10.0, "ring": 22.0, "tree": 12.0},
    (1024, "balanced"): {"native": 30.0, "ring": 15.0},
    (1024, "random"): {"native": 30.0, "ring": 18.0},
}


def samples(median: float) -> list[float]:
    return [0.9 * median, median, median, median, 1.2 * median]


def cell(size: int, pattern: str, algorithm: str, median: float, **values: Any) -> dict[str, Any]:
    return {
        "collective": "allreduce", "size_bytes": size, "pattern": pattern,
        "skew": "0us" if pattern == "balanced" else "1x",
        "algorithm": algorithm, "status": "measured", "skew_us": 10.0, "native_us": 10.0,
        "stopped": "precision", "on_time": True, "iterations": 5, "wrong": None,
        "last_delays_us": samples(median), "total_delays_us": samples(2 * median), **values,
    }  # fmt: skip


def document(**values: Any) -> dict[str, Any]:
    cells = [
        cell(size, pattern, algorithm, median)
        for (size, pattern), medians in DELAYS.items()
        for algorithm, median in medians.items()
    ]
    return {
        "format": "offbeat bench", "version": 1, "offbeat": {"version": "0.1.0"}, "complete": True,
        "started": "2026-11-21T23:50:00+00:00",
        "machine": {"host": "n1", "processor": "AMD EPYC", "cpus": 2, "cores": 2, "system": "6.1.0"},
        "mpi": {"vendor": "Open MPI", "version": "5.0.11"},
        "seconds": 1.0,
        "plan": {
            "ranks": 8, "skews": ["1x"], "seed": 1, "sizes_bytes": [8, 1024],
            "algorithms": ["native", "ring"], "patterns": ["balanced", "random"],
        },
        "cells": cells, **values,
    }  # fmt: skip


def write(path: Path, **values: Any) -> Path:
    path.write_text(json.dumps(document(**values)))
    return path
