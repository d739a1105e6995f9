# SPDX-License-Identifier: BSD-3-Clause
"""Random calls of all collectives, several jobs at once, on a machine with only this folder (prepare.py).

    python3 FOLDER/soak.py [--minutes M] [--jobs N] [--seed S]

Every job must print the hashes that Open MPI gives by itself. The script prints each seed that went wrong,
with what its program said, and totals. The exit status is 1 if there was one. All follows from the seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from check import FOLDER, HOSTS, hashes


def run_seed(seed: int) -> tuple[str, str]:
    """Return what was run, and what was wrong with it."""
    draw = random.Random(seed)
    host = HOSTS[seed % len(HOSTS)]
    ways = json.loads((FOLDER / "ways.json").read_text())[host.name]
    how = draw.choice(sorted(ways))
    ranks = draw.choice((2, 3, 4, 5, 8))
    calls = [str(seed), draw.choice(("300", "600")), draw.choice(("50", "3000", "30000")), "alike"]
    mode = ways[how]["mode"]
    if mode == "any" and draw.choice((False, False, True)):
        mode = "threads"
    what = f"{host.name} seed {seed}: {ranks} ranks, {how}, {' '.join(calls)}, {mode}"
    native_mode = "in_turn" if mode == "threads" else "blocking"
    status, native = HOSTS[0].run(ranks, [HOSTS[0].program("exchanges"), *calls, native_mode], {})
    if status != 0:
        return what, f"natively: {native[-2000:]}"
    preload = {"LD_PRELOAD": host.preload("")["LD_PRELOAD"], "OFFBEAT_REPORT": "1"} | ways[how]["settings"]
    if draw.choice((False, True)) and mode == "any" and ways[how]["takes_devices"]:
        preload["STUB_GPU"] = str(FOLDER / "stub" / "libcuda.so.1")
        what += ", with a GPU's memory"
    status, output = host.run(ranks, [host.program("exchanges"), *calls, mode], preload)
    if status != 0:
        return what, output[-3000:]
    if hashes(output) != hashes(native) or len(hashes(output)) != ranks:
        return what, f"other results than Open MPI's\n{output[-3000:]}"
    return what, ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    spent = 0.0

    def work(job: int) -> None:
        nonlocal spent
        seed = options.seed + job
        while time.monotonic() < end:
            start = time.monotonic()
            what, wrong = run_seed(seed)
            spent += time.monotonic() - start
            counts[f"{what.split()[0]}, {'wrong' if wrong else 'right'}"] += 1
            if wrong:
                print(f"{what}\n{wrong}", flush=True)
            seed += options.jobs

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(work, job) for job in range(options.jobs)]:
            done.result()
    print(f"from seed {options.seed} on, {options.jobs} jobs at once, {spent / 60:.0f} minutes together")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    return 1 if any(name.endswith("wrong") for name in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
