#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate this machine, measure allreduce algorithms on it, and compare them with their simulations.

    build/venv/bin/python benchmarks/model_check.py --mpi embedded -n 2 --json
    build/venv/bin/python benchmarks/model_check.py --again benchmarks/results/model_check.json

The ranks are on one node. `offbeat calibrate` and `offbeat bench` take turns, so that both see the machine
alike; a measured time is the median over the turns. The result has the machine file and all times.
`--again` compares those of a file with the simulator as it is now.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import result_file  # noqa: E402
from markdown_table import table  # noqa: E402
from offbeat.bench import plan, results  # noqa: E402
from offbeat.simulate import agreement, machine  # noqa: E402
from offbeat.simulate.agreement import Time  # noqa: E402
from offbeat.units import format_size  # noqa: E402

NATIVE = "native(recursive_doubling),native(ring),native(rabenseifner)"
OURS = "arrival_tree,arrival_leader,arrival_chain,recursive_doubling,ring,rabenseifner"
SIZES = "8,64,512,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB"
PATTERNS = "balanced,last_delayed,random"


def run(*words: object, variables: Mapping[str, str] | None = None, within_s: float | None = None) -> None:
    """Run offbeat. If it takes too long, or this process is interrupted, it ends together with its ranks."""
    command = [sys.executable, "-m", "offbeat", *map(str, words)]
    print("$", *command[1:], file=sys.stderr, flush=True)
    environment = {**os.environ, **(variables or {})}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            code = process.wait(within_s)
        except BaseException:
            process.terminate()
            raise
    if code != 0:
        raise subprocess.CalledProcessError(code, command)


def measure(arguments: argparse.Namespace, folder: Path) -> tuple[str, list[Time]]:
    """The machine file, and the times."""
    file = folder / "machine.toml"
    start = ["-n", arguments.ranks, "--mpi", arguments.mpi]
    turns = []
    for turn in range(arguments.turns):
        first = [*start, "--algorithms", "none", "--name", "the machine of the check"]
        again = ["--resume"] if turn else first
        run("calibrate", *again, "-o", file, "--budget", arguments.calibrate)
        path = folder / f"{turn}.json"
        algorithms = arguments.algorithms or f"{NATIVE},{OURS}"
        run(
            "bench", *start, "--sizes", SIZES, "--patterns", PATTERNS, "--algorithms", algorithms,
            "--same-buffers", "--skew", arguments.skew, "--budget", arguments.bench, "--json", path,
        )  # fmt: skip
        turns.append(results.read(path))
    times = agreement.measured(turns, arguments.mpi)
    return file.read_text(encoding="utf-8"), [time for time in times if time.algorithm != plan.NATIVE]


def show(simulated: dict[Time, float], fields: Sequence[str] = ("algorithm", "size_bytes")) -> None:
    """Print how many comparisons agree, for each value of the fields, of offbeat's algorithms, and of all."""
    rows = []
    for field in fields:
        for value in dict.fromkeys(getattr(time, field) for time in simulated):
            name = {"size_bytes": format_size, "ranks": "{} ranks".format}.get(field, str)(value)
            rows.append([name, *agreement.compare(simulated, **{field: value}).columns()])
    for name, of_these in (("offbeat's", agreement.of_offbeat(simulated)), ("all", simulated)):
        rows.append([name, *agreement.compare(of_these).columns()])
    print(table(["of", *agreement.HEADINGS], rows))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="embedded")
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--calibrate", default="40s", help="the budget of a turn; default: %(default)s")
    parser.add_argument("--bench", default="60s", help="the budget of a turn; default: %(default)s")
    parser.add_argument("--skew", default="1.0", help="as of offbeat bench; default: %(default)s")
    parser.add_argument("--algorithms", help="instead of all")
    parser.add_argument("--machine", help="a machine file instead of the one of the check")
    parser.add_argument("--again", type=Path, help="compare the times of this file")
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    written = result_file.ResultFile(arguments.json)
    mpis: list[dict[str, str]] = []
    if arguments.again:
        document = result_file.read(arguments.again)
        text, mpis = document["machine_file"], document["mpis"]
        times = [Time.from_json(cell) for cell in document["cells"]]
    else:
        with tempfile.TemporaryDirectory(prefix="offbeat-model-check-") as folder:
            text, times = measure(arguments, Path(folder))
        mpis = [result_file.mpi(arguments.mpi)]
    read = machine.read(arguments.machine) if arguments.machine else machine.parse(text, "the machine file")
    simulated = agreement.simulated_us(read, times)
    show(simulated)
    written.write(map(asdict, times), mpis, machine_file=text)


if __name__ == "__main__":
    main()
