# SPDX-License-Identifier: BSD-3-Clause
"""One rank of the check of an export: runs collectives on the host MPI alone. It imports nothing of offbeat.

export_probe.py LIBMPI FAMILY OUTPUT SECONDS PATIENCE COLLECTIVE:BYTES:0|1...

For each cell rank 0 writes whether all results were exact, how long a call takes (if SECONDS is above 0), and
a signature of the algorithm (if the last field of the cell is 1): a hash of

- the bits of results whose operands come out differently in each order of additions, and
- what each rank has already received, and whether it has left, while one rank is still missing. PATIENCE is
  how long that rank stays away, in seconds. A collective that combines may have partial results in its
  output, which change until the end, so only leaving counts.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import random
import statistics
import sys
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

_FLOAT_BYTES = 4
_RECORD_BYTES = 128
_EXACT_PERIOD = 101  # of the integers that give exact sums
_ROUGH_PERIOD = 1009
_SAMPLES = 64
_WARM_UP = 10  # MPICH chooses otherwise in the first calls of a communicator
_FEWEST, _MOST = 5, 2000  # calls that are timed
_ROOT = ctypes.c_int(0)
_REDUCTIONS = {"allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"}
_ONE_BLOCK_FROM_EACH = {"allgather", "allgatherv", "gather"}  # each rank gives one block
_ONE_BLOCK_TO_EACH = {
    "alltoall",
    "alltoallv",
    "scatter",
    "reduce_scatter_block",
}  # a rank gives a block for each rank


class Host:
    """The functions and constants of an MPI library."""

    def __init__(self, libmpi: str, family: str) -> None:
        self.library = ctypes.CDLL(libmpi, mode=ctypes.RTLD_GLOBAL)
        if family == "openmpi":
            names = ("comm_world", "float", "byte", "int", "op_sum")
            handles = [
                ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, f"ompi_mpi_{name}")))
                for name in names
            ]
        elif family == "mpiabi":
            handles = [ctypes.c_void_p(value) for value in (0x101, 0x210, 0x247, 0x209, 0x21)]
        else:
            values = (0x44000000, 0x4C00040A, 0x4C00010D, 0x4C000405, 0x58000003)
            handles = [ctypes.c_int(value) for value in values]  # type: ignore[misc]
        self.world, self.float, self.byte, self.int, self.sum = handles
        self.call("MPI_Init", None, None)
        rank, size = ctypes.c_int(), ctypes.c_int()
        self.call("MPI_Comm_rank", self.world, ctypes.byref(rank))
        self.call("MPI_Comm_size", self.world, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the MPI. Raises RuntimeError if it fails."""
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(f"{name} failed")

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.call("MPI_Barrier", self.world)

    def gathered(self, record: Any) -> list[Any]:
        """The records of all ranks, on rank 0."""
        text = json.dumps(record).encode()
        assert len(text) <= _RECORD_BYTES
        mine = ctypes.create_string_buffer(text, _RECORD_BYTES)
        everyones = ctypes.create_string_buffer(_RECORD_BYTES * self.size)
        count = ctypes.c_int(_RECORD_BYTES)
        self.call("MPI_Gather", mine, count, self.byte, everyones, count, self.byte, _ROOT, self.world)
        records = [everyones.raw[k * _RECORD_BYTES : (k + 1) * _RECORD_BYTES] for k in range(self.size)]
        return [json.loads(each.rstrip(b"\0")) for each in records] if self.rank == 0 else []

    def from_rank_0(self, value: int) -> int:
        """The value that rank 0 gives, on all ranks."""
        number = ctypes.c_int(value)
        self.call("MPI_Bcast", ctypes.byref(number), ctypes.c_int(1), self.int, _ROOT, self.world)
        return number.value


class Vectors:
    """The vector that each rank gives: a short period, repeated."""

    def __init__(self, periods: list[list[float]]) -> None:
        self.periods = periods

    def part(self, rank: int, begin: int, count: int) -> bytes:
        """``count`` elements of the vector of a rank, from number ``begin`` on, as bytes."""
        return _repeated(self.periods[rank], begin, count)

    def sums(self, ranks: int, begin: int, count: int) -> bytes:
        """The exact sums over the first ``ranks`` ranks."""
        return _repeated([sum(each) for each in zip(*self.periods[:ranks], strict=True)], begin, count)


def _repeated(period: list[float], begin: int, count: int) -> bytes:
    first = begin % len(period)
    text = array("f", period).tobytes() * ((first + count) // len(period) + 1)
    return text[first * _FLOAT_BYTES : (first + count) * _FLOAT_BYTES]


def _exact_numbers(ranks: int) -> Vectors:
    return Vectors(
        [[float((i * 7 + rank * 13) % 101) for i in range(_EXACT_PERIOD)] for rank in range(ranks)]
    )


def _order_dependent_numbers(ranks: int) -> Vectors:
    """Numbers whose sum has other bits in each order of additions."""
    randoms = [random.Random(rank) for rank in range(ranks)]
    return Vectors([[r.random() * 10.0 ** r.randint(-3, 3) for _ in range(_ROUGH_PERIOD)] for r in randoms])


class Cell:
    """A collective of one size."""

    def __init__(self, host: Host, collective: str, size_bytes: int) -> None:
        self.host, self.collective = host, collective
        self.count = size_bytes // _FLOAT_BYTES
        self.all = self.count * host.size
        # The first ranks have one element more, as in src/mpi/bench/collectives.cpp.
        each, more = divmod(self.count, host.size)
        self.parts = [each + (rank < more) for rank in range(host.size)]
        self.given = self.all if collective in _ONE_BLOCK_TO_EACH else self.count
        self.taken = (
            self.all if collective in _ONE_BLOCK_FROM_EACH | {"alltoall", "alltoallv"} else self.count
        )
        self.send = (ctypes.c_char * max(self.given * _FLOAT_BYTES, 1))()
        self.receive = (ctypes.c_char * max(self.taken * _FLOAT_BYTES, 1))()
        self.run = self._prepared_call()

    def _prepared_call(self) -> Callable[[], None]:
        """The call, with all of its arguments made before."""
        host, count = self.host, ctypes.c_int(self.count)
        send, receive, float_, sum_ = self.send, self.receive, host.float, host.sum
        ints = ctypes.c_int * host.size
        counts, begins = ints(*[self.count] * host.size), ints(*[self.count * r for r in range(host.size)])
        buffer = send if host.rank == 0 else receive
        # Hydra's and Open MPI's C names are MPI_ and the collective with a capital letter.
        by_name: dict[str, tuple[Any, ...]] = {
            "barrier": (),
            "bcast": (buffer, count, float_, _ROOT),
            "reduce": (send, receive, count, float_, sum_, _ROOT),
            "allreduce": (send, receive, count, float_, sum_),
            "scan": (send, receive, count, float_, sum_),
            "exscan": (send, receive, count, float_, sum_),
            "reduce_scatter": (send, receive, ints(*self.parts), float_, sum_),
            "reduce_scatter_block": (send, receive, count, float_, sum_),
            "allgather": (send, count, float_, receive, count, float_),
            "allgatherv": (send, count, float_, receive, counts, begins, float_),
            "gather": (send, count, float_, receive, count, float_, _ROOT),
            "scatter": (send, count, float_, receive, count, float_, _ROOT),
            "alltoall": (send, count, float_, receive, count, float_),
            "alltoallv": (send, counts, begins, float_, receive, counts, begins, float_),
        }
        function = getattr(host.library, f"MPI_{self.collective.capitalize()}")
        arguments = (*by_name[self.collective], host.world)

        def run() -> None:
            if function(*arguments) != 0:
                raise RuntimeError(f"MPI_{self.collective.capitalize()} failed")

        return run

    def fill(self, vectors: Vectors) -> None:
        """Fill the send buffer with the vector of this rank, and the receive buffer with ones."""
        text = vectors.part(self.host.rank, 0, self.given)
        ctypes.memmove(self.send, text, len(text))
        ctypes.memset(self.receive, 0xFF, ctypes.sizeof(self.receive))

    def expected(self, vectors: Vectors) -> bytes:
        """The exact result on this rank; empty if it has none."""
        rank, size, count = self.host.rank, self.host.size, self.count
        name = self.collective
        if name in ("reduce", "gather") and rank != 0:
            return b""
        if name in ("allreduce", "reduce"):
            return vectors.sums(size, 0, count)
        if name == "scan":
            return vectors.sums(rank + 1, 0, count)
        if name == "exscan":
            return vectors.sums(rank, 0, count) if rank > 0 else b""
        if name == "reduce_scatter":
            return vectors.sums(size, sum(self.parts[:rank]), self.parts[rank])
        if name == "reduce_scatter_block":
            return vectors.sums(size, rank * count, count)
        if name == "bcast":
            return vectors.part(0, 0, count) if rank > 0 else b""
        if name == "scatter":
            return vectors.part(0, rank * count, count)
        begin = rank * count if name in ("alltoall", "alltoallv") else 0
        return (
            b"".join(vectors.part(r, begin, count) for r in range(size))
            if name in _ONE_BLOCK_FROM_EACH | _ONE_BLOCK_TO_EACH
            else b""
        )

    def is_right(self, vectors: Vectors) -> bool:
        """Whether a call gives the exact result on this rank."""
        self.fill(vectors)
        self.run()
        expected = self.expected(vectors)
        return self.receive.raw[: len(expected)] == expected

    def sample(self) -> bytes:
        """Some bytes from all over the result."""
        last = max(self.taken - 1, 0)
        places = sorted({last * k // (_SAMPLES - 1) for k in range(_SAMPLES)})
        text = self.receive.raw
        return b"".join(text[p * _FLOAT_BYTES : (p + 1) * _FLOAT_BYTES] for p in places)

    def without(self, late: int, vectors: Vectors, patience: float) -> bytes:
        """What this rank has, and whether it has left, before the rank ``late`` enters."""
        self.fill(vectors)
        seen = [b""]
        left = [0]

        def look() -> None:
            time.sleep(0.6 * patience)
            seen[0] = bytes(left) + (b"" if self.collective in _REDUCTIONS else self.sample())

        self.host.barrier()
        watcher = threading.Thread(target=look)
        if self.host.rank == late:
            time.sleep(patience)
        else:
            watcher.start()
        self.run()
        left[0] = 1
        if self.host.rank != late:
            watcher.join()
        return seen[0]

    def signature(self, patience: float) -> str:
        """The hash on this rank."""
        vectors = _order_dependent_numbers(self.host.size)
        text = b""
        if self.collective in _REDUCTIONS:
            self.fill(vectors)
            self.run()
            text += hashlib.sha256(self.receive.raw).digest()
        for late in sorted({1 % self.host.size, self.host.size - 1, 0}):
            text += self.without(late, vectors, patience)
        return hashlib.sha256(text).hexdigest()[:16]

    def time_us(self, seconds: float) -> float:
        """The median time of a call on this rank, in microseconds."""
        times: list[float] = []
        calls = _FEWEST
        while len(times) < calls:
            self.host.barrier()
            begin = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - begin)
            if len(times) == _FEWEST:
                calls = int(min(max(seconds / statistics.median(times), _FEWEST), _MOST))
                calls = self.host.from_rank_0(calls)
        return 1e6 * statistics.median(times)


def main(arguments: list[str]) -> None:
    """Measure each cell, and let rank 0 write what was seen."""
    libmpi, family, output, seconds, patience, *cells = arguments
    host = Host(libmpi, family)
    exact = _exact_numbers(host.size)
    lines = []
    for text in cells:
        collective, size, is_looked_at = text.split(":")
        cell = Cell(host, collective, int(size))
        wrong = sum(not cell.is_right(exact) for _ in range(_WARM_UP))
        signature = cell.signature(float(patience)) if is_looked_at == "1" else ""
        time_us = cell.time_us(float(seconds)) if float(seconds) > 0 else 0.0
        records = host.gathered([wrong == 0, signature, round(time_us, 3)])
        if host.rank == 0:
            lines.append(
                {
                    "collective": collective,
                    "size_bytes": int(size),
                    "right": all(record[0] for record in records),
                    "signature": " ".join(record[1] for record in records),
                    "time_us": max(record[2] for record in records),
                }
            )
    if host.rank == 0:
        with open(output, "w") as file:
            json.dump(lines, file)
    host.call("MPI_Finalize")


if __name__ == "__main__":
    main(sys.argv[1:])
