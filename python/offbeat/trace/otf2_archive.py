# SPDX-License-Identifier: BSD-3-Clause
"""Write a trace as an OTF2 archive, for Vampir, Scalasca and other tools. Needs the package otf2.

Each rank is a location. A call is a region with a collective event in it. OTF2 knows no neighbourhood
collectives, so their calls are regions only. The algorithm is an attribute of the region.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import otf2
from otf2.enums import CollectiveOp, GroupType, LocationType, Paradigm, RegionRole, Type

from offbeat.errors import FAILED, CommandError
from offbeat.trace.layout import COLLECTIVES, Flag, Naming
from offbeat.trace.reader import Communicator, Trace

_TICKS_PER_SECOND = 1_000_000_000  # the unit of all times
_NO_ROOT = 0xFFFFFFFF


def write(trace: Trace, folder: Path, begin_s: float, end_s: float) -> int:
    """Write the archive, and return the number of calls in it."""
    try:
        with otf2.writer.open(str(folder), timer_resolution=_TICKS_PER_SECOND) as archive:
            definitions = _Definitions(archive.definitions, trace)
            return sum(
                _write_rank(archive, definitions, trace, rank, begin_s, end_s) for rank in trace.recording
            )
    except (OSError, otf2.error.TraceWriterError) as error:
        raise CommandError(f"cannot write {folder}: {error}", FAILED) from None


class _Definitions:
    """What the events refer to."""

    def __init__(self, registry: Any, trace: Trace) -> None:
        self._registry = registry
        self._host = cache(self._new_host)
        self.region = cache(self._new_region)
        self._machine = registry.system_tree_node("machine", class_name="machine")
        self.locations = {rank: self._location(rank, host) for rank, host in trace.hosts.items()}
        self._group("ranks", GroupType.COMM_LOCATIONS, list(trace.hosts))
        self.communicators = {
            each.index: registry.comm(
                str(each), group=self._group(str(each), GroupType.COMM_GROUP, _in_order(each))
            )
            for each in trace.communicators
        }
        self.algorithm = registry.attribute("algorithm", "the algorithm that ran", Type.STRING)

    def _new_host(self, name: str) -> Any:
        return self._registry.system_tree_node(name, class_name="node", parent=self._machine)

    def _new_region(self, name: str) -> Any:
        role = RegionRole.BARRIER if name.endswith("arrier") else RegionRole.COLL_OTHER
        return self._registry.region(name, region_role=role, paradigm=Paradigm.MPI)

    def _location(self, rank: int, host: str) -> Any:
        group = self._registry.location_group(f"rank {rank}", system_tree_parent=self._host(host))
        return self._registry.location(f"rank {rank}", type=LocationType.CPU_THREAD, group=group)

    def _group(self, name: str, kind: Any, ranks: list[int]) -> Any:
        members = [self.locations[rank] for rank in ranks]
        return self._registry.group(name, group_type=kind, paradigm=Paradigm.MPI, members=members)


def _in_order(communicator: Communicator) -> list[int]:
    """The traced ranks of a communicator, in its order."""
    return sorted(communicator.members, key=lambda rank: communicator.places[rank])


class _Event(NamedTuple):
    time: int
    method: str  # of the writer
    arguments: tuple[Any, ...] = ()


def _write_rank(
    archive: Any, definitions: _Definitions, trace: Trace, rank: int, begin_s: float, end_s: float
) -> int:
    calls = trace.calls(rank)
    last = np.maximum(calls["completion_ns"], calls["exit_ns"])
    calls = calls[(last >= 1e9 * begin_s) & (calls["arrival_ns"] <= 1e9 * end_s)]
    names = trace.names(rank, Naming.ALGORITHM)
    events = [
        event
        for number, call in enumerate(calls)
        for event in _events(call, number, definitions, names.get(int(call["algorithm"]), ""))
    ]
    writer = archive.event_writer_from_location(definitions.locations[rank])
    # OTF2 wants the events of a location in the order of time.
    for event in sorted(events, key=lambda each: each.time):
        getattr(writer, event.method)(event.time, *event.arguments)
    return len(calls)


def _events(call: Any, number: int, definitions: _Definitions, algorithm: str) -> list[_Event]:
    name = COLLECTIVES[int(call["collective"])]
    arrival = int(call["arrival_ns"])
    leave = max(int(call["exit_ns"]), arrival)  # a rank that has not left the call has no exit
    complete = int(call["completion_ns"])
    operation = getattr(CollectiveOp, name.upper(), None)
    communicator = definitions.communicators[int(call["communicator"])]
    root = int(call["root"]) if call["root"] >= 0 else _NO_ROOT
    # The trace has what a rank contributes, not what it gets.
    what = (operation, communicator, root, int(call["bytes"]), 0)
    attributes = {definitions.algorithm: algorithm}
    blocking = not call["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)
    started = "MPI_Start" if call["flags"] & Flag.PERSISTENT else f"MPI_I{name}"
    region = definitions.region(f"MPI_{name.capitalize()}" if blocking else started)
    found = [_Event(arrival, "enter", (region, attributes))]
    if operation is not None and blocking:
        found.append(_Event(arrival, "mpi_collective_begin"))
        found.append(_Event(leave, "mpi_collective_end", what))
    elif operation is not None:
        found.append(_Event(arrival, "non_blocking_collective_request", (number,)))
    found.append(_Event(leave, "leave", (region,)))
    if operation is not None and not blocking and complete >= leave:
        found.append(_Event(complete, "non_blocking_collective_complete", (*what, number)))
    return found
