# SPDX-License-Identifier: BSD-3-Clause
"""What a trace says about arrival: imbalance, waiting against communicating, who is late.

Times are nanoseconds unless a name says otherwise. a_i is the arrival of rank i at a call, e_i its exit
(of a non-blocking call its completion). Paper 0 is Alizadeh et al., EuroMPI 2022; paper 4 is Salimi Beni,
Cosenza, Hunold, Cluster 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offbeat.errors import CommandError
from offbeat.trace import Block, Communicator, Flag, Trace

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SMALL_BYTES = 1 << 10  # paper 0, section 6.1.1: to here MVAPICH uses shared memory
MEDIUM_BYTES = 64 << 10  # and to here the arrival-aware algorithm for small messages is compared
SIZE_CLASSES = ("small", "medium", "large")
SIZE_CLASS_MEANING = "small: to 1 KiB, medium: to 64 KiB, large: above"

_MOST_SIZES = 32  # of one collective on one communicator, before sizes are put together by powers of two


# -- of one call, or of many: the last axis is ranks, `present` says which arrived


def worst_imbalance(arrival: Any, present: Any = True) -> Floats:
    """Omega = max a_i - min a_i, in the unit of the arrivals (paper 0, section 2.2, equation 2.1)."""
    return np.asarray(_last(arrival, present) - _first(arrival, present))


def average_imbalance(arrival: Any, present: Any = True) -> Floats:
    """Delta-bar = mean of |a_i - mean a|, in the unit of the arrivals (paper 0, equations 2.2 and 2.3)."""
    present = np.broadcast_to(present, np.shape(arrival))
    count = np.maximum(np.count_nonzero(present, axis=-1), 1)
    # From the first arrival on: differences of nanoseconds since the start of a long run need all digits.
    since_first = np.where(present, arrival - _first(arrival, present)[..., None], 0.0)
    mean = since_first.sum(axis=-1) / count
    distance = np.where(present, np.abs(since_first - mean[..., None]), 0.0)
    return np.asarray(distance.sum(axis=-1) / count, dtype=np.float64)


def node_wide(metric: Any, arrival: Any, nodes: NDArray[np.intp], present: Any = True) -> Floats:
    """A metric within each node, averaged over the nodes (paper 0, section 4.3.2).

    ``nodes`` numbers the node of each rank from 0. Nodes with fewer than two ranks there do not count.
    """
    present = np.broadcast_to(present, np.shape(arrival))
    total = np.zeros(np.shape(arrival)[:-1])
    counted = np.zeros(np.shape(arrival)[:-1])
    for node in range(int(nodes.max()) + 1 if len(nodes) else 0):
        here = nodes == node
        enough = np.count_nonzero(present[..., here], axis=-1) >= 2
        if enough.any():
            total += np.where(enough, metric(arrival[..., here], present[..., here]), 0.0)
            counted += enough
    return np.asarray(total / np.maximum(counted, 1), dtype=np.float64)


def total_delay(arrival: Any, end: Any, present: Any = True) -> Floats:
    """d* = max e_i - min a_i (paper 4, section II.A, equation 1)."""
    return np.asarray(_last(end, present) - _first(arrival, present))


def last_delay(arrival: Any, end: Any, present: Any = True) -> Floats:
    """d-hat = max e_i - max a_i (paper 4, section II.A, equation 2)."""
    return np.asarray(_last(end, present) - _last(arrival, present))


def waiting(arrival: Any, end: Any, present: Any = True) -> Floats:
    """Of each rank: its time in the call before the last rank arrived. The rest of it is communicating."""
    present = np.broadcast_to(present, np.shape(arrival))
    until = np.minimum(end, _last(arrival, present)[..., None])
    return np.asarray(np.where(present, np.maximum(until - arrival, 0), 0), dtype=np.float64)


def skew(arrival: Any, present: Any = True) -> Floats:
    """Of each rank: a_i - min a (paper 4, section V.A)."""
    present = np.broadcast_to(present, np.shape(arrival))
    since_first = arrival - _first(arrival, present)[..., None]
    return np.asarray(np.where(present, since_first, 0), dtype=np.float64)


def usual_arrival(arrival: Any, present: Any = True) -> NDArray[Any]:
    """The lower median of the arrivals, when half of the ranks are there: late is what comes long after."""
    present = np.broadcast_to(present, np.shape(arrival))
    ordered = np.sort(np.where(present, arrival, _after_all(arrival)), axis=-1)
    middle = (np.maximum(np.count_nonzero(present, axis=-1), 1) - 1) // 2
    return np.take_along_axis(ordered, middle[..., None], axis=-1)[..., 0]


def _first(arrival: Any, present: Any) -> NDArray[Any]:
    return np.asarray(np.min(arrival, axis=-1, where=present, initial=_after_all(arrival)))


def _last(times: Any, present: Any) -> NDArray[Any]:
    return np.asarray(np.max(times, axis=-1, where=present, initial=_before_all(times)))


def _after_all(times: Any) -> Any:
    kind = np.asarray(times).dtype
    return np.iinfo(kind).max if kind.kind == "i" else np.inf


def _before_all(times: Any) -> Any:
    kind = np.asarray(times).dtype
    return np.iinfo(kind).min if kind.kind == "i" else -np.inf


# -- the time of one message


@dataclass(frozen=True)
class MessageTime:
    """alpha(size): the time to communicate one message of the collective's size (paper 0, section 2.2)."""

    bytes: Floats
    microseconds: Floats
    source: str

    def __call__(self, size: Any) -> Floats:
        """Nanoseconds; between two measured sizes linear, above the largest in proportion."""
        times = np.interp(size, self.bytes, self.microseconds)
        above = np.asarray(size, dtype=np.float64) / max(float(self.bytes[-1]), 1.0)
        return np.asarray(1e3 * times * np.maximum(above, 1.0))

    @classmethod
    def read(cls, path: Path) -> MessageTime:
        """From a file with lines of bytes and microseconds, as benchmarks/message_time.py prints them."""
        pairs = {}
        try:
            lines = path.read_text().splitlines()
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
        """From measured microseconds by size."""
        sizes = sorted(pairs)
        return cls(np.array(sizes, dtype=np.float64), np.array([pairs[size] for size in sizes]), source)


# -- of a whole trace

CALL = np.dtype(
    [
        ("communicator", "<u4"),
        ("number", "<u8"),
        ("collective", "u1"),
        ("flags", "u1"),
        ("algorithm", "<u2"),  # index into Calls.algorithms
        ("bytes", "<i8"),  # the largest that a rank contributes
        ("root", "<i4"),
        ("ranks", "<u4"),  # that are there
        ("complete", "?"),  # all ranks that record are there, and have left it
        ("first", "<i8"),  # arrival, since the first call of the trace
        ("last", "<i8"),
        ("end", "<i8"),  # the last exit
        ("last_rank", "<i4"),  # of MPI_COMM_WORLD
        ("omega", "<f8"),
        ("delta", "<f8"),
        ("node_omega", "<f8"),
        ("node_delta", "<f8"),
        ("in_call", "<f8"),  # over all ranks, from the call to its return
        ("waiting", "<f8"),  # over all ranks; of non-blocking calls 0: the program goes on meanwhile
        ("lateness", "<f8"),  # of the last rank, against the usual arrival
        ("early_spread", "<f8"),  # the usual arrival against the first
    ]
)


@dataclass
class Calls:
    """Every call of a trace, in the order of the communicators and their numbers."""

    trace: Trace
    table: NDArray[Any]
    algorithms: list[str]
    mean_skew: Floats  # of each recording rank, over complete calls
    skew_ranks: NDArray[np.int64]
    mismatched: int  # calls that are not the same collective on all ranks: left out

    @cached_property
    def whole(self) -> NDArray[Any]:
        """Those that all recording ranks made and left: what averages are over."""
        complete = self.table["complete"]
        return self.table if complete.all() else self.table[complete]

    def mean_skew_us(self) -> list[float]:
        """The average of a_i - min a over all calls, one for each rank of MPI_COMM_WORLD, in microseconds.

        This is what paper 4 (section V.A) calls the scenario of a program. Ranks that were not recorded
        get 0.
        """
        skews = [0.0] * self.trace.ranks
        for rank, mean in zip(self.skew_ranks, self.mean_skew, strict=True):
            skews[int(rank)] = float(mean) / 1e3
        return skews


def collect(trace: Trace) -> Calls:
    """Bring the ranks' records together and measure each call."""
    parts, names = [], _Numbered()
    skew_sum = dict.fromkeys(trace.recording, 0.0)
    skew_calls = dict.fromkeys(trace.recording, 0)
    mismatched = 0
    nodes = {host: number for number, host in enumerate(dict.fromkeys(trace.hosts.values()))}
    for communicator in trace.communicators:
        if communicator.alone:
            continue  # nobody to wait for
        for block in trace.blocks(communicator):
            table, same = _measure(trace, block, names, nodes)
            mismatched += int(len(same) - np.count_nonzero(same))
            parts.append(table[same])
            whole = table["complete"] & same
            sums = skew(block.arrival[whole], block.present[whole]).sum(axis=0)
            for rank, total in zip(block.ranks, sums, strict=True):
                skew_sum[int(rank)] += float(total)
                skew_calls[int(rank)] += int(np.count_nonzero(whole))
    ranks = np.array(trace.recording, dtype=np.int64)
    mean = np.array([skew_sum[rank] / max(skew_calls[rank], 1) for rank in trace.recording])
    table = np.concatenate(parts) if parts else np.empty(0, dtype=CALL)
    return Calls(trace, table, names.texts, mean, ranks, mismatched)


def mean_skew_us(trace: Trace) -> list[float]:
    """A trace as a pattern to replay: see ``Calls.mean_skew_us``."""
    return collect(trace).mean_skew_us()


class _Numbered:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def _measure(
    trace: Trace, block: Block, names: _Numbered, nodes: Mapping[str, int]
) -> tuple[NDArray[Any], Mask]:
    table = np.zeros(len(block.number), dtype=CALL)
    arrival, present = block.arrival, block.present
    table["communicator"] = block.communicator.index
    table["number"] = block.number
    for name in ("collective", "flags", "root"):
        table[name] = block.call[name]
    table["algorithm"] = _algorithms(trace, block, names)
    table["bytes"] = block.bytes
    table["ranks"] = np.count_nonzero(present, axis=1)
    table["complete"] = present.all(axis=1) & ~block.pending.any(axis=1) & (table["ranks"] >= 2)
    table["first"] = _first(arrival, present)
    table["last"] = _last(arrival, present)
    table["end"] = _last(block.end, present)
    latest = np.argmax(np.where(present, arrival, np.iinfo(np.int64).min), axis=1)
    table["last_rank"] = block.ranks[latest]
    table["omega"] = worst_imbalance(arrival, present)
    table["delta"] = average_imbalance(arrival, present)
    node_of_rank = np.array([nodes[trace.hosts[int(rank)]] for rank in block.ranks], dtype=np.intp)
    table["node_omega"] = node_wide(worst_imbalance, arrival, node_of_rank, present)
    table["node_delta"] = node_wide(average_imbalance, arrival, node_of_rank, present)
    table["in_call"] = np.where(present, block.exit - arrival, 0).sum(axis=1)
    blocking = (table["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT)) == 0
    table["waiting"] = np.where(blocking, waiting(arrival, block.end, present).sum(axis=1), 0.0)
    usual = usual_arrival(arrival, present)
    table["lateness"] = table["last"] - usual
    table["early_spread"] = usual - table["first"]
    return table, block.same


def _algorithms(trace: Trace, block: Block, names: _Numbered) -> NDArray[np.uint16]:
    from offbeat.trace.layout import Naming

    found = np.zeros(len(block.number), dtype=np.uint16)
    for source in np.unique(block.source):
        mine = block.source == source
        known = trace.names(int(source), Naming.ALGORITHM)
        for number in np.unique(block.call["algorithm"][mine]):
            text = known.get(int(number), "unknown")
            found[mine & (block.call["algorithm"] == number)] = names[text]
    return found


def blocks_with_rows(calls: Calls) -> Iterator[tuple[Block, NDArray[np.intp]]]:
    """The trace once more, with the row of ``Calls.table`` of each call of a block; -1 where it has none."""
    begin = 0
    for communicator in calls.trace.communicators:
        if communicator.alone:
            continue
        for block in calls.trace.blocks(communicator):
            rows = np.where(block.same, begin + np.cumsum(block.same) - 1, -1)
            begin += int(np.count_nonzero(block.same))
            if begin > len(calls.table):
                return  # the program is running, and its trace has grown since
            yield block, rows


# -- groups of calls


@dataclass(frozen=True)
class Group:
    """The calls of one collective on one communicator with one size, or sizes of one power of two."""

    communicator: Communicator
    collective: int
    least_bytes: int
    most_bytes: int
    calls: NDArray[np.intp]  # rows of Calls.table

    @property
    def single_size(self) -> bool:
        return self.least_bytes == self.most_bytes


def groups(calls: Calls) -> Iterator[Group]:
    """All complete calls, in groups."""
    table = calls.table
    whole = np.flatnonzero(table["complete"])
    kinds = table["communicator"].astype(np.int64) * 256 + table["collective"]
    for kind in np.unique(kinds[whole]):
        rows = whole[kinds[whole] == kind]
        sizes = table["bytes"][rows]
        distinct = np.unique(sizes)
        keys = sizes if len(distinct) <= _MOST_SIZES else np.frexp(sizes.astype(np.float64))[1]
        for key in np.unique(keys):
            chosen = rows[keys == key]
            found = table["bytes"][chosen]
            communicator = calls.trace.communicators[int(kind) // 256]
            yield Group(communicator, int(kind) % 256, int(found.min()), int(found.max()), chosen)


def size_class(size: Any) -> NDArray[np.intp]:
    """Index into SIZE_CLASSES."""
    return np.asarray(np.digitize(size, [SMALL_BYTES + 1, MEDIUM_BYTES + 1]))


@dataclass(frozen=True)
class Share:
    """How much of all collective calls, and of the time in them, one kind is (paper 0, section 4.2)."""

    collective: int
    size_class: str
    calls: int
    call_share: float  # 0 .. 1
    time_ns: float  # over all ranks
    time_share: float
    waiting_ns: float
    communicating_ns: float


def shares(calls: Calls) -> list[Share]:
    """By collective and class of size, the most time first."""
    table = calls.whole
    total_time = max(float(table["in_call"].sum()), 1e-9)
    classes = size_class(table["bytes"])
    found = []
    for collective in np.unique(table["collective"]):
        for number, name in enumerate(SIZE_CLASSES):
            rows = table[(table["collective"] == collective) & (classes == number)]
            if not len(rows):
                continue
            time, wait = float(rows["in_call"].sum()), float(rows["waiting"].sum())
            found.append(
                Share(
                    int(collective),
                    name,
                    len(rows),
                    len(rows) / len(table),
                    time,
                    time / total_time,
                    wait,
                    max(time - wait, 0.0),
                )
            )
    return sorted(found, key=lambda share: -share.time_ns)


@dataclass(frozen=True)
class RankLateness:
    """How often a rank is the last to arrive, and by how much."""

    rank: int
    calls_last: int
    share_last: float  # of the complete calls
    lateness_us: float  # median over the calls in which it is the last, against the usual arrival
    lateness_p90_us: float
    waited_s: float  # by all others in these calls
    mean_skew_us: float  # over all calls (paper 4, section V.A)


def lateness(calls: Calls) -> list[RankLateness]:
    """Of each recording rank, in the order of the ranks."""
    table = calls.whole
    order = np.argsort(table["last_rank"], kind="stable")
    by_rank = table[order]
    bounds = np.searchsorted(by_rank["last_rank"], calls.skew_ranks, side="left")
    ends = np.searchsorted(by_rank["last_rank"], calls.skew_ranks, side="right")
    found = []
    for rank, begin, end, skew_ns in zip(calls.skew_ranks, bounds, ends, calls.mean_skew, strict=True):
        rows = by_rank[begin:end]
        late = np.percentile(rows["lateness"], (50, 90)) / 1e3 if len(rows) else (0.0, 0.0)
        found.append(
            RankLateness(
                int(rank),
                len(rows),
                len(rows) / max(len(table), 1),
                float(late[0]),
                float(late[1]),
                float(rows["waiting"].sum()) / 1e9,
                float(skew_ns) / 1e3,
            )
        )
    return found


class Measure(NamedTuple):
    """A time, and as a factor of alpha where that is known."""

    us: float
    factor: float | None


@dataclass(frozen=True)
class Imbalance:
    """Averages over calls (paper 0, tables 1 and 2): microseconds, and factors of alpha where it is known."""

    size_class: str
    calls: int
    worst: Measure
    average: Measure
    node_worst: Measure
    node_average: Measure


def imbalance(calls: Calls, alpha: MessageTime | None) -> list[Imbalance]:
    """Of all sizes, then of each class. The factors of the calls are averaged, as in the paper."""
    table = calls.whole
    classes = size_class(table["bytes"])
    chosen = [("all", np.ones(len(table), dtype=bool))]
    chosen += [(name, classes == number) for number, name in enumerate(SIZE_CLASSES)]
    found = []
    for name, mask in chosen:
        rows = table[mask]
        if not len(rows):
            continue
        fields = ("omega", "delta", "node_omega", "node_delta")
        times = [float(rows[field].mean()) / 1e3 for field in fields]
        factors: list[float | None] = [None] * 4
        if alpha is not None:
            message = np.maximum(alpha(rows["bytes"]), 1e-3)
            factors = [float((rows[field] / message).mean()) for field in fields]
        values = [Measure(time, factor) for time, factor in zip(times, factors, strict=True)]
        found.append(Imbalance(name, len(rows), *values))
    return found


def estimated_message_time(calls: Calls) -> MessageTime | None:
    """alpha(size) where none was measured: the fastest tenth of the last delays of each size.

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
