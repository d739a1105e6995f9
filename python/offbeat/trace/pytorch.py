# SPDX-License-Identifier: BSD-3-Clause
"""Recognise training with PyTorch in a trace: its steps, its gradient calls, and the rank it waits for.

During the backward pass DDP begins an allreduce for each bucket of gradients, and it waits for them after the
pass. FSDP reduces and scatters the gradients of each layer. Programs may also add up gradients by themselves.

Ranks compute independently of each other until one of these calls makes them wait. So a rank is slow before
the backward pass if it is late at the first gradient call of a step, or at a call between the last step and
that one, such as the broadcast of the buffers: after it, all ranks are late alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace import formulas, metrics, slow_ranks, steps
from offbeat.trace.layout import COLLECTIVES, Flag
from offbeat.trace.metrics import Calls
from offbeat.trace.reader import Communicator
from offbeat.trace.training import LATE_SHARE, LITTLE_TIME, Training, median
from offbeat.units import format_as_ms, format_rounded_size, format_share

PYTORCH_IN_MPI_NAME = "PyTorch"  # part of the name of the MPI in a trace

_ALLREDUCE = COLLECTIVES.index("allreduce")
_REDUCE_SCATTERS = [COLLECTIVES.index("reduce_scatter"), COLLECTIVES.index("reduce_scatter_block")]
_NOISE_NS = 50_000.0
_LEAST_EXPOSED_SHARE = 0.1  # of a step
_MAX_CALLS_PER_STEP_IF_FEW_BUCKETS = 1.5
_SMALL_MODEL_BYTES = 1 << 20


@dataclass(frozen=True)
class PyTorch(Training):
    """A training with PyTorch. A call takes from the last arrival until all ranks have the result."""

    communication_ns: float  # in all calls, in a step
    exposed_ns: float  # from the last gradient call of the last rank until all ranks have all gradients
    is_ddp: bool

    @property
    def communication_share(self) -> float:
        """The share of a step in calls, between 0 and 1."""
        return self.communication_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def exposed_share(self) -> float:
        """The share of a step after the backward pass, between 0 and 1."""
        return self.exposed_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "communication_s_per_step": self.communication_ns / 1e9,
            "after_backward_s_per_step": self.exposed_ns / 1e9 if self.is_ddp else None,
        }

    def _gradients(self) -> list[str]:
        after = f", {format_as_ms(self.exposed_ns)} of it after the backward pass" if self.is_ddp else ""
        return [
            f"Communication takes {format_as_ms(self.communication_ns)} of a step of "
            f"{format_as_ms(self.step_ns)} ({format_share(self.communication_share)}){after}. Gradients "
            f"travel at {format_rounded_size(self.bandwidth)}/s."
        ]

    def _advice_on_calls(self) -> list[str]:
        if self.communication_share < LITTLE_TIME:
            return ["The sizes of the calls hardly matter: communication takes too little."]
        if not self.is_ddp:
            return []
        if self.are_small:
            return [
                f"A step has {self.calls_per_step:.0f} gradient calls of "
                f"{format_rounded_size(self.mean_call)} on average: a larger bucket_cap_mb of "
                "DistributedDataParallel makes fewer of them."
            ]
        if self.exposed_share < _LEAST_EXPOSED_SHARE:
            return []
        if self.calls_per_step < _MAX_CALLS_PER_STEP_IF_FEW_BUCKETS and self.step_bytes > _SMALL_MODEL_BYTES:
            return [
                "All gradients travel in one call, after the backward pass. With a smaller bucket_cap_mb of "
                "DistributedDataParallel most of them travel during it."
            ]
        return [
            "Much of the communication comes after the backward pass. fp16_compress_hook halves the bytes, "
            "and no_sync() sums the gradients of several batches before they travel."
        ]


@dataclass(frozen=True)
class _Kind:
    """The gradient calls of one way to train on one communicator. Times are nanoseconds."""

    framework: str
    communicator: Communicator
    calls: NDArray[np.void]  # rows of Calls.table

    @property
    def gap(self) -> Floats:
        """The pause before each call."""
        gap = np.zeros(len(self.calls))
        gap[1:] = self.calls["last"][1:] - self.calls["end"][:-1]
        return gap


def pytorch_training_of_calls(calls: Calls) -> PyTorch | None:
    """Recognise PyTorch. None if it was not in the processes, or no steps are found."""
    if PYTORCH_IN_MPI_NAME not in calls.trace.mpi or calls.trace.every_call > 1:
        return None
    for kind in sorted(_kinds(calls), key=lambda kind: -int(kind.calls["bytes"].sum())):
        found = steps.find(kind.calls["bytes"], kind.gap)
        if found:
            return _of_kind(calls, kind, found)
    return None


def _kinds(calls: Calls) -> Iterator[_Kind]:
    table = calls.whole[calls.whole["bytes"] > 0]
    begun = (table["flags"] & Flag.NONBLOCKING) != 0
    allreduce = table["collective"] == _ALLREDUCE
    for framework, mine in (
        ("DDP", allreduce & begun),
        ("FSDP", np.isin(table["collective"], _REDUCE_SCATTERS)),
        (PYTORCH_IN_MPI_NAME, allreduce & ~begun),
    ):
        for index in np.unique(table["communicator"][mine]):
            part = table[mine & (table["communicator"] == index)]
            yield _Kind(framework, calls.trace.communicators[int(index)], part)


def _of_kind(calls: Calls, kind: _Kind, found: list[tuple[int, int]]) -> PyTorch:
    gradients = kind.calls
    first, last = (np.array(each, dtype=np.intp) for each in zip(*found, strict=True))
    peers = [each for each in calls.trace.communicators if each.members == kind.communicator.members]
    mine = calls.whole[np.isin(calls.whole["communicator"], [each.index for each in peers])]
    ends = gradients["last"][last]  # of the steps: the last arrival at the last gradient call
    communication = _sums(_busy(mine), np.searchsorted(ends, mine["last"]), len(found))
    in_gradients = _sums(_busy(gradients), np.searchsorted(ends, gradients["last"]), len(found))
    step_ns = median(np.diff(gradients["end"][last]))
    noise_ns = max(_NOISE_NS, LATE_SHARE * step_ns)
    ranks, first_late, last_late = _lateness(calls, peers, gradients["last"][first], ends)
    late, slow = slow_ranks.find(first_late, last_late, ranks, noise_ns)
    sums = [slice(begin, end + 1) for begin, end in found]
    return PyTorch(
        framework=kind.framework,
        gradient_calls=len(gradients),
        gradient_bytes=int(gradients["bytes"].sum()),
        steps=len(found),
        why_no_steps="",
        step_ns=step_ns,
        step_bytes=median([gradients["bytes"][each].sum() for each in sums]),
        calls_per_step=median([end + 1 - begin for begin, end in found]),
        gradient_ns=median(in_gradients),
        noise_ns=noise_ns,
        ranks=ranks,
        late_ns=late,
        slow=slow,
        communication_ns=median(communication),
        exposed_ns=median(gradients["end"][last] - ends),
        is_ddp=kind.framework == "DDP",
    )


def _busy(table: NDArray[np.void]) -> NDArray[np.int64]:
    """How long each call takes after the last rank has begun it and the calls before it are over."""
    order = np.argsort(table["last"], kind="stable")
    last, end = table["last"][order], np.maximum.accumulate(table["end"][order])
    begin = last.copy()
    begin[1:] = np.maximum(last[1:], end[:-1])
    found = np.empty(len(table), dtype=np.int64)
    found[order] = np.maximum(end - begin, 0)
    return found


def _sums(values: NDArray[np.int64], step: NDArray[np.intp], count: int) -> Floats:
    """The sum of the values of each step. What comes after the last step is left out."""
    inside = step < count
    found = np.zeros(count)
    np.add.at(found, step[inside], values[inside])
    return found


def _lateness(
    calls: Calls, peers: list[Communicator], first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """How late each rank has its first and its last gradient in each step.

    ``first`` and ``last`` are the last arrivals at these gradient calls.
    """
    ranks = np.array([each for each in peers[0].members if calls.trace.files[each].records_calls])
    shape = (len(last), len(ranks))
    before, at_last = np.zeros(shape), np.zeros(shape)
    indices = {each.index for each in peers}
    measured = calls.measured
    for block, rows in metrics.blocks_with_rows(calls):
        if block.communicator.index not in indices or not np.array_equal(block.ranks, ranks):
            continue
        whole = (rows >= 0) & measured[rows]
        arrival = block.arrival[whole]
        late = np.maximum(arrival - formulas.usual_arrival(arrival)[:, None], 0).astype(np.float64)
        at = calls.table["last"][rows[whole]]
        step = np.searchsorted(last, at)
        inside = step < len(last)
        late, at, step = late[inside], at[inside], step[inside]
        early = at <= first[step]
        np.maximum.at(before, step[early], late[early])
        ending = at == last[step]
        np.maximum.at(at_last, step[ending], late[ending])
    # Ranks that have waited for a slow one have their last gradient when it has.
    return ranks, before, np.maximum(before, at_last)
