# SPDX-License-Identifier: BSD-3-Clause
"""The algorithms that compete in a tuning by simulation, and their times by the models.

The models prune these candidates (docs/explanation/models.md), and ``by_simulation`` simulates the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from offbeat import _core
from offbeat.simulate.machine import Machine
from offbeat.simulate.machine_costs import Message, Protocol
from offbeat.simulate.simulation import Shape
from offbeat.tune import candidates
from offbeat.units import spell_size

# They send little between nodes, as hierarchies do, but are not made of other algorithms.
NODE_AWARE = ("nap", "smp")
_RADIXES = (4, 7, 8)
_SEGMENT_BYTES = (16 << 10, 64 << 10)
# Each rank sends to every other one, so the memory of a simulation grows with the square of the ranks.
_ALL_TO_ALL = ("arrival_owners", "linear")
_MOST_FOR_ALL_TO_ALL = 256


def _on_leaders(collective: str, nodes: int, size_bytes: int) -> list[str]:
    """The expressions for one rank on each node."""
    place = candidates.Place("", nodes, nodes)
    found = candidates.plain(collective, place, size_bytes, radixes=_RADIXES)
    cuts = [cut for cut in _SEGMENT_BYTES if size_bytes >= 2 * cut]
    parts = [name for name in ("chain", "binomial", "ring") if name in found]
    found += [f"pipeline({spell_size(cut)}, {part})" for cut in cuts for part in parts]
    return [each for each in dict.fromkeys(found) if candidates.can_run(collective, each, place)]


def _node_algorithm(collective: str) -> str | None:
    return next(
        (
            each["name"]
            for each in _core.algorithms()
            if each["collective"] == collective and each["every_run"] and "one node" in each["needs"]
        ),
        None,
    )


class Modelled(NamedTuple):
    """An expression on a number of ranks and nodes, for which a model may know the time."""

    expression: str
    ranks: int
    nodes: int
    size_bytes: int


def simulated(collective: str, shape: Shape, size_bytes: int) -> dict[str, Modelled]:
    """The expressions that can run on a shape, each with the part of it that has a model.

    For a hierarchy this is what the leaders run. Expressions whose simulation needs too much memory are left
    out.
    """
    nodes, ppn = shape.nodes, shape.ranks_per_node
    place = candidates.Place("", nodes * ppn, nodes)
    leaders = _on_leaders(collective, nodes, size_bytes)
    flat = leaders if ppn == 1 else candidates.plain(collective, place, size_bytes)
    found = {name: Modelled(name, place.ranks, nodes, size_bytes) for name in flat}
    if ppn > 1 and (node := _node_algorithm(collective)) is not None:
        per_node = size_bytes * ppn if collective == "allgather" else size_bytes
        for name in leaders:
            found[f"hierarchy({node}, {name})"] = Modelled(name, nodes, nodes, per_node)
            found[f"lanes({node}, {name})"] = Modelled(name, nodes, nodes, math.ceil(per_node / ppn))
    return {
        name: of
        for name, of in found.items()
        if (of.ranks <= _MOST_FOR_ALL_TO_ALL or of.expression not in _ALL_TO_ALL)
        and candidates.can_run(collective, name, place)
    }


def model_us(machine: Machine, collective: str, known: Modelled) -> float | None:
    """The time by the cost formula in microseconds, if there is one.

    It serves as a lower bound, so it is too low rather than too high.
    """
    between = machine.message_between_nodes
    a, b, o = _hockney(machine.between_nodes, between, known.size_bytes)
    a_within, b_within, _ = _hockney(machine.within_node, machine.message_within_node, known.size_bytes)
    if known.ranks > known.nodes and known.expression not in NODE_AWARE:
        a, b = min(a, a_within), min(b, b_within)  # some of the messages stay on the node
    seconds = _core.cost(
        collective,
        known.expression,
        known.ranks,
        known.size_bytes,
        a=a,
        b=b,
        c=1e-9 * machine.combine_ns_per_byte,
        o=o,
        v=1e-6 * (between.send_overhead_us + between.receive_overhead_us),
        nodes=known.nodes,
        a_within=a_within,
        b_within=b_within,
        eager_bytes=machine.eager_limit_bytes,
    )
    return 1e6 * seconds if seconds is not None else None


def _hockney(protocols: Sequence[Protocol], message: Message, size_bytes: int) -> tuple[float, float, float]:
    """Latency with both overheads, time of a byte, and of a further message: a, b and o in seconds."""
    protocol = _protocol(protocols, size_bytes)
    overhead = message.send_overhead_us + message.receive_overhead_us
    return (
        1e-6 * (protocol.latency_us + overhead),
        1e-9 / protocol.bandwidth_gb_per_s,
        1e-6 * _busy_us(message),
    )


def _busy_us(message: Message) -> float:
    return max(
        message.send_overhead_us + message.send_gap_us, message.receive_overhead_us + message.receive_gap_us
    )


def _protocol(protocols: Sequence[Protocol], size_bytes: int) -> Protocol:
    return [each for each in protocols if each.from_bytes <= size_bytes][-1]
