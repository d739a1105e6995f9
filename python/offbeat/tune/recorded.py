# SPDX-License-Identifier: BSD-3-Clause
"""The objective ``trace:FOLDER``: the cells of a recorded program, with the arrivals that it had.

A cell stands for the blocking calls of one collective on communicators of one size whose lengths lie within
the same power of two. Its size is the length that took most time. Its arrival pattern is a file with the
arrivals of up to 64 of these calls, evenly over the run, without the 5% of the calls in which ranks were most
late: those are start-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offbeat.bench import arrival_patterns
from offbeat.bench.plan import COLLECTIVES, FLOAT_BYTES, MOST_ELEMENTS, Cell
from offbeat.errors import FAILED, CommandError
from offbeat.units import Skew, format_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ROUNDS = 64
_LEFT_OUT = 0.05
_LEAST_SKEW_US = 0.1  # clocks do not show less
# For these a benchmark counts the bytes of one block, and a trace those of all blocks of a rank.
_ALL_BLOCKS = ("alltoall", "alltoallv", "reduce_scatter_block")


@dataclass(frozen=True)
class RecordedCell:
    """Calls that one cell stands for."""

    ranks: int
    collective: str
    size_bytes: int
    calls: int
    seconds: float  # in these calls, over all ranks
    arrivals_us: list[list[float]]  # of up to 64 calls, rank by rank, after the first arrival


def cells_of(folder: Path) -> list[RecordedCell]:
    """The cells of a trace, those first that took most time."""
    # Only this objective needs NumPy, so it is imported here.
    from offbeat import trace
    from offbeat.trace import COLLECTIVES as NAMES
    from offbeat.trace import Flag

    recorded = trace.read(folder)
    groups: dict[tuple[int, int, int], list[_Calls]] = {}
    for communicator in recorded.communicators:
        if communicator.alone or communicator.inter:
            continue
        for block in recorded.blocks(communicator):
            blocking = block.call["flags"] & (Flag.NONBLOCKING | Flag.PERSISTENT) == 0
            usable = block.same & blocking & block.present.all(axis=1) & ~block.pending.any(axis=1)
            for key, calls in _grouped(block, usable, communicator.size):
                if NAMES[key[0]] in COLLECTIVES and len(block.ranks) == communicator.size:
                    groups.setdefault((communicator.size, *key), []).append(calls)
    found = [_cell(ranks, NAMES[collective], calls) for (ranks, collective, _), calls in groups.items()]
    if not found:
        raise CommandError(f"{folder} has no blocking call of a collective that offbeat serves, on all ranks")
    return sorted(found, key=lambda cell: -cell.seconds)


@dataclass(frozen=True)
class _Calls:
    """Calls of a block: lengths, times over all ranks and arrivals after the first one."""

    bytes: NDArray[Any]
    seconds: NDArray[Any]
    arrivals_us: NDArray[Any]


def _grouped(block: Any, usable: NDArray[Any], ranks: int) -> Iterator[tuple[tuple[int, int], _Calls]]:
    """The usable calls of a block by collective and power of two."""
    import numpy as np

    collective = block.call["collective"]
    length = block.bytes.astype(np.int64)
    power = np.ceil(np.log2(np.maximum(length, 1))).astype(np.int64)
    for each, of in sorted(
        {(int(c), int(p)) for c, p in zip(collective[usable], power[usable], strict=True)}
    ):
        here = usable & (collective == each) & (power == of)
        arrival = block.arrival[here]
        late = (arrival - arrival.min(axis=1, keepdims=True)) / 1e3
        seconds = (block.end[here] - arrival).sum(axis=1) / 1e9
        yield (each, of), _Calls(length[here], seconds, late)


def _cell(ranks: int, collective: str, parts: list[_Calls]) -> RecordedCell:
    import numpy as np

    length = np.concatenate([part.bytes for part in parts])
    seconds = np.concatenate([part.seconds for part in parts])
    arrivals = np.concatenate([part.arrivals_us for part in parts])
    lengths, places = np.unique(length, return_inverse=True)
    heaviest = int(lengths[np.argmax(np.bincount(places, weights=seconds))])
    kept = len(arrivals) - int(_LEFT_OUT * len(arrivals))
    usual = arrivals[np.sort(np.argsort(arrivals.max(axis=1), kind="stable")[:kept])]
    some = np.linspace(0, kept - 1, min(_MOST_ROUNDS, kept)).astype(int)
    return RecordedCell(
        ranks,
        collective,
        _measured_size(collective, heaviest, ranks),
        len(length),
        float(seconds.sum()),
        [[float(late) for late in usual[k]] for k in some],
    )


def _measured_size(collective: str, length: int, ranks: int) -> int:
    """The size at which the benchmark measures calls of a length: a whole number of floats."""
    if collective == "barrier":
        return 0
    of_bench = length // ranks if collective in _ALL_BLOCKS else length
    floats = max(1, round(of_bench / FLOAT_BYTES))
    return min(floats, MOST_ELEMENTS) * FLOAT_BYTES


def with_patterns(cells: Sequence[RecordedCell], folder: Path) -> Mapping[int, list[Cell]]:
    """Write the arrivals as pattern files into a folder. Returns the cells by number of ranks."""
    if any(character.isspace() for character in str(folder.absolute())):
        raise CommandError(f"the path of a pattern must have no spaces: '{folder.absolute()}'; see -o")
    found: dict[int, dict[tuple[str, int], Cell]] = {}
    for cell in cells:
        of = found.setdefault(cell.ranks, {})
        if (cell.collective, cell.size_bytes) in of:
            continue  # another length has become the same number of floats
        latest = max(max(late) for late in cell.arrivals_us)
        pattern, skew = "balanced", "0us"
        if latest >= _LEAST_SKEW_US:
            path = folder.absolute() / f"{cell.collective}-{cell.size_bytes}-n{cell.ranks}.txt"
            title = f"arrivals of {format_count(cell.calls, 'call')} of {cell.collective}"
            try:
                folder.mkdir(exist_ok=True)
                path.write_text(arrival_patterns.rounds_text(cell.arrivals_us, title), encoding="utf-8")
            except OSError as error:
                raise CommandError(f"cannot write {path}: {error.strerror}", FAILED) from None
            pattern, skew = str(path), Skew(microseconds=round(latest, 3)).label
        of[cell.collective, cell.size_bytes] = Cell(cell.collective, cell.size_bytes, pattern, skew)
    return {
        ranks: sorted(of.values(), key=lambda c: (c.collective, c.size_bytes)) for ranks, of in found.items()
    }
