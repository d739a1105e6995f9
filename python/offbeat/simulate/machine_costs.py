# SPDX-License-Identifier: BSD-3-Clause
"""The costs that a machine file describes, each with its text for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from offbeat.units import format_size

_WINDOW_BYTES = 1 << 20  # the default length of a window of a board
_LINE_BYTES = 64


@dataclass(frozen=True)
class Protocol:
    """The latency and the bandwidth of messages of at least ``from_bytes``."""

    from_bytes: int
    latency_us: float
    bandwidth_gb_per_s: float
    send_ns_per_byte: float = 0.0  # that the sender's core copies
    receive_ns_per_byte: float = 0.0  # that the receiver's core copies
    line_share: float = 1.0  # of its lines that come from another core's cache

    def __str__(self) -> str:
        beginning = f"from {format_size(self.from_bytes)} " if self.from_bytes else ""
        copies = ""
        if self.send_ns_per_byte or self.receive_ns_per_byte:
            copies = f", cores copying {self.send_ns_per_byte:g} and {self.receive_ns_per_byte:g} ns a byte"
        if self.line_share != 1:
            copies += f", {self.line_share:g} of the lines of a level"
        return f"{beginning}{self.latency_us:g} µs and {self.bandwidth_gb_per_s:g} GB/s{copies}"


@dataclass(frozen=True)
class Message:
    """What each message costs besides latency and bytes."""

    send_overhead_us: float  # of the sender's core
    receive_overhead_us: float
    send_gap_us: float  # after a message, until the next one leaves the rank
    receive_gap_us: float
    handshake_us: float  # above the eager limit: of the request, and again of the answer

    def in_seconds(self) -> tuple[float, float, float, float, float]:
        """Return the arguments that the simulator takes."""
        return (
            self.send_overhead_us * 1e-6,
            self.receive_overhead_us * 1e-6,
            self.send_gap_us * 1e-6,
            self.receive_gap_us * 1e-6,
            self.handshake_us * 1e-6,
        )

    def __str__(self) -> str:
        """Name what is not zero."""
        parts = (
            (self.send_overhead_us, "to send"),
            (self.receive_overhead_us, "to receive"),
            (self.send_gap_us, "between sends"),
            (self.receive_gap_us, "between receives"),
            (self.handshake_us, "each way of a handshake"),
        )
        return ", ".join(f"{microseconds:g} µs {what}" for microseconds, what in parts if microseconds)


@dataclass(frozen=True)
class Board:
    """The costs of the memory that the ranks of a node share."""

    line_ns: float
    far_line_ns: float
    line_gap_ns: float
    put_line_ns: float
    ranks_per_cache: int

    def in_seconds(self, copy_ns_per_byte: float) -> tuple[float, float, float, int]:
        """Return the arguments that the simulator takes, with times in seconds."""
        put_line_ns = _with_copy(self.put_line_ns, copy_ns_per_byte)
        return self.line_ns * 1e-9, self.line_gap_ns * 1e-9, put_line_ns * 1e-9, _WINDOW_BYTES

    def levels(self, copy_ns_per_byte: float) -> tuple[Level, ...]:
        """The levels of a machine that names none: the ranks of a cache, and the others."""
        if self.far_line_ns == 0:
            return ()
        line_ns = _with_copy(self.line_gap_ns, copy_ns_per_byte)
        core_gb_per_s = _LINE_BYTES / line_ns if line_ns else math.inf
        near = Level(self.ranks_per_cache, self.line_ns, core_gb_per_s)
        return (near, Level(0, self.far_line_ns, core_gb_per_s)) if self.ranks_per_cache else (near,)

    def __str__(self) -> str:
        """Name what is not zero."""
        parts = (
            (self.line_ns, "a line"),
            (self.far_line_ns, "a far line"),
            (self.line_gap_ns, "each further line"),
            (self.put_line_ns, "each line that is written"),
        )
        return ", ".join(f"{ns:g} ns {what}" for ns, what in parts if ns)


@dataclass(frozen=True)
class Level:
    """What the cores share that take lines from each other, such as a cache, a socket or the node."""

    cores: int  # 0: all of the node
    line_ns: float
    core_gb_per_s: float = math.inf  # of further lines, for one core
    link_gb_per_s: float = math.inf  # into a group of these cores, and out of it
    memory_gb_per_s: float = math.inf  # of a group, beyond the last cache

    def in_seconds(self) -> tuple[int, float, float, float, float]:
        """Return the arguments that the simulator takes, with times in seconds."""
        rates = self.link_gb_per_s * 1e9, self.memory_gb_per_s * 1e9
        return self.cores, self.line_ns * 1e-9, 1e-9 / self.core_gb_per_s, *rates

    def __str__(self) -> str:
        words = f"{self.line_ns:g} ns a line among {self.cores or 'all'}"
        rates = (
            (self.core_gb_per_s, "a core"),
            (self.link_gb_per_s, "in and out"),
            (self.memory_gb_per_s, "of memory"),
        )
        return words + "".join(f", {rate:g} GB/s {what}" for rate, what in rates if math.isfinite(rate))


@dataclass(frozen=True)
class Beyond:
    """The costs of cores if the data of a call exceed a cache."""

    cache_bytes: int
    ranks_per_cache: int  # 0: all ranks of the node
    combine_ns_per_byte: float
    copy_ns_per_byte: float
    node_memory_bandwidth_gb_per_s: float

    def in_seconds(self) -> tuple[int, int, float, float, float]:
        """Return the arguments that the simulator takes, with times in seconds."""
        return (
            self.cache_bytes,
            self.ranks_per_cache,
            self.combine_ns_per_byte * 1e-9,
            self.copy_ns_per_byte * 1e-9,
            self.node_memory_bandwidth_gb_per_s * 1e9,
        )

    def __str__(self) -> str:
        return f"beyond {format_size(self.cache_bytes)} " + core_in_words(
            self.combine_ns_per_byte, self.copy_ns_per_byte, self.node_memory_bandwidth_gb_per_s
        )


def core_in_words(combine_ns: float, copy_ns: float, memory_gb_per_s: float) -> str:
    words = f"{combine_ns:g} and {copy_ns:g} ns a byte"
    if math.isfinite(memory_gb_per_s):
        words += f", {memory_gb_per_s:g} GB/s of memory a node"
    return words


@dataclass(frozen=True)
class FittedAlgorithm:
    """Hockney's parameters of one algorithm of an allreduce. Simulations do not use them."""

    expression: str
    mpi: str  # of native(NAME), as rules name it
    level: str  # within_node or between_nodes
    latency_us: float
    bandwidth_gb_per_s: float


def _with_copy(line_ns: float, copy_ns_per_byte: float) -> float:
    """The time to copy a line, of which the file has what it takes more than in the core's own cache."""
    return line_ns + _LINE_BYTES * copy_ns_per_byte if line_ns else 0.0
