# SPDX-License-Identifier: BSD-3-Clause
"""What calls cost by the models: cost formulas, and the grids of grid(auto)."""

from __future__ import annotations

import ctypes

from offbeat._core.library import as_int, as_size, as_text, ask


def cost(
    collective: str,
    expression: str,
    ranks: int,
    size_bytes: int,
    *,
    a: float,
    b: float,
    c: float,
    o: float = 0,
    v: float = 0,
    nodes: int = 0,
    a_within: float = 0,
    b_within: float = 0,
    eager_bytes: int = 8192,
) -> float | None:
    """Evaluate the cost formula of an expression (docs/explanation/models.md).

    This is the time in seconds if all ranks arrive together, or None if the cost of a part is only words.
    """
    seconds: float | None = ask(
        "cost", as_text(collective), as_text(expression), as_int(ranks), as_size(size_bytes),
        *map(ctypes.c_double, (a, b, c, o, v)), as_int(nodes),
        *map(ctypes.c_double, (a_within, b_within)), as_size(eager_bytes),
    )  # fmt: skip
    return seconds


def machine_name(path: str) -> str:
    """Read a machine file as grid(auto) does, and return its name. Raises UsageError with one line."""
    name: str = ask("machine_name", as_text(path))
    return name


def cheapest_grid(
    ranks: int, size_bytes: int, *, ranks_per_node: int = 1, machine: str = "", mpi: str = ""
) -> tuple[str, float]:
    """Return the grid that an allreduce by grid(auto) has, as an expression, and its time in seconds.

    It is one algorithm if splitting the ranks does not pay (docs/explanation/models.md). ``machine`` is the
    path of a machine file; empty: the built-in one. With ``mpi`` it may be a grid of that host's own
    algorithms, if the file has parameters for its native(NAME).
    """
    expression, seconds = ask(
        "cheapest_grid", as_int(ranks), as_size(size_bytes), as_int(ranks_per_node), as_text(machine),
        as_text(mpi),
    )  # fmt: skip
    return expression, seconds
