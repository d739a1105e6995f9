# SPDX-License-Identifier: BSD-3-Clause
"""The algorithms that compete: those of the registry that can run at a place, and the host's own."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from offbeat import _core
from offbeat.expressions import serves
from offbeat.mpi import host_algorithms
from offbeat.mpi.install import rule_host
from offbeat.units import spell_size

_BOARD_ONLY = "all ranks on one node"
_NOT_A_PART = "cannot be a part"
_RADIXES = (4, 8)
_SEGMENT_BYTES = (16 << 10, 64 << 10)
_SEGMENTS = 4


@dataclass(frozen=True)
class Place:
    """Where a collective runs: under which MPI, and how its ranks are spread over nodes."""

    vendor: str
    ranks: int
    nodes: int

    @property
    def ppn(self) -> int:
        """Ranks per node, as rules count them."""
        return math.ceil(self.ranks / self.nodes)

    @property
    def host(self) -> str:
        """The MPI as rules name it."""
        return rule_host(self.vendor)


def rule_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """The length that a rule sees in a call that the benchmark describes by ``size_bytes``."""
    return size_bytes * ranks if collective == "allgatherv" else size_bytes


def has_lengths(collective: str) -> bool:
    """Whether rules tell calls of different lengths apart. They do not if ranks may differ in length."""
    return collective not in ("barrier", "alltoallv", "gatherv", "scatterv")


def in_force(collective: str, size_bytes: int, place: Place, rules: _core.Rules | None) -> list[str]:
    """The algorithms of the rule in force; several if it measures them in the job.

    A grid with several of the host's algorithms is left out, because no job can measure it.
    """
    length = rule_bytes(collective, size_bytes, place.ranks) if has_lengths(collective) else 0
    plan = _core.plan(collective, place.host, place.nodes, place.ppn, True, rules, "", "")
    row = next(row for row in plan if row["most_bytes"] is None or length <= row["most_bytes"])
    return [name for name in row["alternatives"] if not host_algorithms.has_several_names(name)]


def can_run(collective: str, expression: str, place: Place) -> bool:
    """Whether a rule with the expression would run it here."""
    if not serves(expression, collective):
        return False
    try:
        rows = _core.plan(collective, place.host, place.nodes, place.ppn, True, None, expression, "tune")
    except ValueError:
        return False
    return all(row["expression"] == expression for row in rows)


def may_run(collective: str, expression: str, place: Place) -> bool:
    """Whether a job can measure the expression here, which may name one of the host's own algorithms."""
    name = host_algorithms.name_in(expression)
    if name is None:
        return can_run(collective, expression, place)
    is_known = name in host_algorithms.known_names(place.vendor, collective)
    return is_known and serves(host_algorithms.without_host_name(expression), collective)


def in_rules(vendor: str, collective: str, algorithm: str) -> bool:
    """Whether a rule may have the algorithm.

    Open MPI and MPICH can change to ``native(NAME)`` within a program, Intel MPI only for a whole run. The
    core refuses the names that it cannot serve.
    """
    if host_algorithms.name_in(algorithm) is None:
        return True
    return vendor in ("Open MPI", "MPICH") and serves(algorithm, collective)


def of_host(vendor: str, collective: str) -> list[str]:
    """The host's own algorithms, as ``native(NAME)``."""
    return [f"native({name})" for name in host_algorithms.known_names(vendor, collective)]


def plain(collective: str, place: Place, size_bytes: int, radixes: Sequence[int] | None = None) -> list[str]:
    """The algorithms that are not made of others. With these the race begins.

    It leaves out algorithms whose bits differ from run to run, and those for one late rank that the user has
    to know. ``radixes`` replaces the usual ones.
    """
    if radixes is None:
        radixes = sorted({*_RADIXES, min(place.ranks, 16)} - {1, 2})
    found = []
    for algorithm in _registered(collective):
        name, parameters = algorithm["name"], algorithm["parameters"]
        if parameters == "":
            found.append(name)
        elif parameters == "K":
            found += [f"{name}({radix})" for radix in radixes if radix <= place.ranks]
        elif parameters == "BYTES":
            found += [f"{name}({spell_size(size)})" for size in _SEGMENT_BYTES if size_bytes > size]
    return [expression for expression in found if can_run(collective, expression, place)]


def compound(
    collective: str, place: Place, best: Sequence[str], size_bytes: int, of_host: Sequence[str] = ()
) -> list[str]:
    """The algorithms that are made of the ``best`` plain ones, and of the host's. They enter the race later.

    Between nodes a grid can have the host's own algorithms (paper 2).
    """
    registered = {each["name"]: each for each in _registered(collective)}
    parts = [name for name in best if _NOT_A_PART not in _needs(registered, name)]
    found: list[str] = []
    if "pipeline" in registered:
        cuts = [spell_size(size) for size in _SEGMENT_BYTES if size_bytes >= 2 * size]
        cuts += [str(_SEGMENTS)] if size_bytes >= _SEGMENTS * _SEGMENT_BYTES[0] else []
        cut_parts = [name for name in best if name == "native" or name in parts]
        found += [f"pipeline({cut}, {part})" for cut in cuts for part in cut_parts]
    if "grid" in registered and (rows := _rows(place.ranks)) > 1:
        of_grid = [*parts, *of_host] if place.nodes > 1 else parts
        found += [f"grid({rows}x{place.ranks // rows}, {part})" for part in of_grid]
    if "grid" in registered and place.ranks > 1:
        found += [grid for grid in [_cheapest_grid(place, size_bytes)] if grid.startswith("grid(")]
    if place.nodes > 1 and place.ppn > 1:
        on_node = [name for name, each in registered.items() if _BOARD_ONLY in each["needs"]]
        among_leaders = [
            *parts,
            *(each for each in found if each.startswith("pipeline") and "native" not in each),
        ]
        for name in ("hierarchy", "lanes"):
            if name in registered:
                found += [f"{name}({node}, {part})" for node in on_node[:1] for part in among_leaders]
    return [expression for expression in dict.fromkeys(found) if can_run(collective, expression, place)]


def may_be_a_part(collective: str, expression: str) -> bool:
    """Whether other algorithms can be made of this one."""
    return _NOT_A_PART not in _needs({each["name"]: each for each in _registered(collective)}, expression)


def _registered(collective: str) -> list[_core.Algorithm]:
    return [
        each
        for each in _core.algorithms()
        if each["collective"] == collective and each["name"] != "native" and each["every_run"]
    ]


def _needs(registered: dict[str, _core.Algorithm], expression: str) -> str:
    name = expression.partition("(")[0]
    return registered[name]["needs"] if name in registered else _NOT_A_PART


def _cheapest_grid(place: Place, size_bytes: int) -> str:
    """What ``grid(auto)`` would be here, on the machine that the job would read."""
    per_node = place.ppn if place.ppn * place.nodes == place.ranks else 1
    machine = os.environ.get("OFFBEAT_MACHINE", "")
    return _core.cheapest_grid(place.ranks, size_bytes, ranks_per_node=per_node, machine=machine)[0]


def _rows(ranks: int) -> int:
    """The rows of the grid that is nearest to a square: 1 if there is none."""
    return max((d for d in range(1, math.isqrt(ranks) + 1) if ranks % d == 0), default=1)
