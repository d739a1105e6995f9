# SPDX-License-Identifier: BSD-3-Clause
"""Measure alpha(size), the time of one message: half of a round trip between the first and the last rank.

    offbeat run -n 2 -- python benchmarks/message_time.py > alpha.txt
    offbeat report run.trace --alpha alpha.txt

The imbalance factors of a report are times divided by alpha. Use the same hosts and binding as the program.
"""

import argparse
import statistics

import numpy as np
import result_file
from mpi4py import MPI

REPEAT = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--largest", type=int, default=16 << 20, metavar="BYTES")
    result_file.add_option(parser)
    options = parser.parse_args()
    largest = options.largest
    world = MPI.COMM_WORLD
    if world.size < 2:
        parser.error("needs two ranks")
    if world.rank == 0:
        print(f"# bytes, microseconds: median of {REPEAT} round trips, halved; ranks 0 and {world.size - 1}")
    results = result_file.ResultFile(options.json if world.rank == 0 else None)
    cells = []
    size = 0
    while size <= largest:
        time_us = half_round_trip_us(world, np.zeros(size, np.uint8))
        if world.rank == 0:
            print(f"{size} {time_us:.3f}", flush=True)
        cells.append({"size_bytes": size, "time_us": time_us})
        size = max(4, 2 * size)
    library = MPI.Get_library_version().partition("\0")[0].strip()
    results.write(cells, ranks=world.size, library=library)
    world.Barrier()


def half_round_trip_us(world: MPI.Comm, data: np.ndarray) -> float:
    last = world.size - 1
    times = []
    for _ in range(REPEAT + 10):  # the first 10 make connections and are not counted
        begin = MPI.Wtime()
        if world.rank == 0:
            world.Send(data, last)
            world.Recv(data, last)
        elif world.rank == last:
            world.Recv(data, 0)
            world.Send(data, 0)
        times.append(MPI.Wtime() - begin)
    return 1e6 * statistics.median(times[10:]) / 2


if __name__ == "__main__":
    main()
