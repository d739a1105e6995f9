# SPDX-License-Identifier: BSD-3-Clause
"""Random calls of all collectives, blocking and not: every rank must get what Open MPI gives it by itself.

    build/venv/bin/python tests/mpi/soak_exchanges.py --mpi openmpi,mpich,impi,mpich-abi --minutes 10

prints a line for each seed that went wrong, with what its program said, and totals. The exit status is 1
when there was one. Everything follows from the seed. The program is `programs/exchanges.cpp`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from exchanges import expect_all_served, hashes, natively
from harness import MPIS, PROGRAMS, Mpi, compile_program, run, use_libraries
from test_exchanges import HOW, HOW_ON_NODES, OURS, forms

LIMIT_S = 300  # five ranks of Intel MPI took 130 s on two busy cores


def run_seed(mpi: Mpi, seed: int) -> tuple[str, str]:
    """What was run, and what was wrong with it."""
    draw = random.Random(seed)
    ranks = draw.choice((2, 3, 4, 5))
    how = draw.choice([*HOW, *HOW_ON_NODES])
    calls = (str(seed), draw.choice(("200", "300", "600")), draw.choice(("50", "3000", "30000")))
    what = f"{mpi.name} seed {seed}: {ranks} ranks, {how}, {calls[1]} calls of up to {calls[2]} elements"
    settings = HOW_ON_NODES[how] if how in HOW_ON_NODES else OURS.get(mpi.name, {}) | HOW[how]
    mode = forms(mpi, how)
    if mode == "any" and draw.choice((False, False, True)):
        mode = "threads"
    what += f", {mode}"
    command = [compile_program(mpi, PROGRAMS / "exchanges.cpp"), *calls, "alike", mode]
    try:
        expected = natively(ranks, calls, "in_turn" if mode == "threads" else "blocking")
        natively.cache_clear()
        result = run(mpi, ranks, command, environment=settings, timeout=LIMIT_S).succeeded()
        if hashes(result.stdout) != expected:
            return what, f"other results than Open MPI's\n{result}"
        expect_all_served(result)
    except AssertionError as wrong:
        return what, str(wrong)
    return what, ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi,mpich", help=f"of: {', '.join(MPIS)}")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--libraries", type=Path, metavar="FOLDER", help="with liboffbeat-*.so to try")
    options = parser.parse_args()
    if options.libraries:
        use_libraries(options.libraries)
    mpis = [MPIS[name] for name in options.mpi.split(",")]
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    seed = options.seed
    while time.monotonic() < end:
        mpi = mpis[seed % len(mpis)]
        what, wrong = run_seed(mpi, seed)
        counts[f"{mpi.name}, {'wrong' if wrong else 'right'}"] += 1
        if wrong:
            print(f"{what}\n{wrong}", flush=True)
        seed += 1
    print(f"seeds {options.seed} to {seed - 1}")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    return 1 if any(name.endswith("wrong") for name in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
