# SPDX-License-Identifier: BSD-3-Clause
"""What the core knows: algorithms, collectives, settings, and how expressions are spelled."""

from __future__ import annotations

from typing import TypedDict

from offbeat._core.library import as_text, ask


class Algorithm(TypedDict):
    """An algorithm of the registry."""

    name: str
    collective: str
    parameters: str
    summary: str
    cost: str
    needs: str
    source: str
    every_run: bool  # every run gives the same bits


class Collective(TypedDict):
    """A collective, and what its calls have."""

    name: str
    function: str
    moves: str
    has_root: bool
    has_operation: bool
    served: bool  # offbeat has algorithms for it, and offbeat bench measures it


class Setting(TypedDict):
    """An environment variable that the core reads."""

    name: str
    default: str
    values: str
    meaning: str
    equal_on_all_ranks: bool


def version() -> str:
    """Return the version as text."""
    text: str = ask("version")
    return text


def algorithms() -> list[Algorithm]:
    """Return all algorithms of all collectives."""
    found: list[Algorithm] = ask("algorithms")
    return found


def collectives() -> list[Collective]:
    """Return all collectives of MPI, in the order of the numbers in trace files, which begin at 1."""
    found: list[Collective] = ask("collectives")
    return found


def served_collectives() -> tuple[str, ...]:
    """Return the names of the collectives that offbeat has algorithms for."""
    return tuple(each["name"] for each in collectives() if each["served"])


def settings() -> list[Setting]:
    """Return all environment variables."""
    found: list[Setting] = ask("settings")
    return found


def clock() -> tuple[int, int]:
    """Return this moment by the clock of a job's counters, and in nanoseconds of CLOCK_MONOTONIC."""
    ticks, now_ns = ask("clock")
    return ticks, now_ns


def where(pid: int) -> str:
    """Ask a rank on this node where it is, such as ``solve() at solver.c:212``; "" without an answer."""
    text: str = ask("where", pid)
    return text


def stack(pid: int) -> list[str]:
    """Ask a rank on this node for the frames of its program, the innermost first; none without an answer."""
    lines: list[str] = ask("stack", pid)
    return lines


def check_expression(collective: str, expression: str) -> str:
    """Return the canonical spelling of an expression."""
    text: str = ask("check_expression", as_text(collective), as_text(expression))
    return text
