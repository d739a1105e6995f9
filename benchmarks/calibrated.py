#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How well a calibrated machine file predicts collectives at sizes and shapes that it was not fitted on.

    build/venv/bin/python benchmarks/calibrated.py --mpi mpich --calibrate 4x2 --shapes 8x1,5x1,4x2
    build/venv/bin/python benchmarks/calibrated.py --mpi embedded --here 2 --budget 2min

With --calibrate this runs `offbeat calibrate` on virtual hosts, which needs root, and then `offbeat bench` on
hosts of each shape. With --here both run on this machine. Each line compares the simulated time with the
lower quartile of the measured ones, which is what the calibration fits. The last lines say whether all errors
are within 15% from 64 KiB on and within 30% below, and compare the intervals with the rate and the delay of
the virtual switch, and with what plain TCP sockets get from it.
"""

# ruff: noqa: E402 -- the folders of the tests come first
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tests" / "cluster")]

import result_file
from harness import clean_environment
from hosts import Cluster, HostsError, address, parse_shape
from launch import ON_HOSTS, on_hosts, patient
from offbeat.bench import results
from offbeat.simulate import machine
from offbeat.units import format_size, format_us, parse_sizes

ALGORITHMS = "ring,rabenseifner,recursive_doubling,arrival_owners,nap"
SIZES = "8,1KiB,10000,64KiB,200000,1MiB"
FROM_BYTES, LONG_ERROR, SHORT_ERROR = 64 << 10, 0.15, 0.30


@dataclass(frozen=True)
class Place:
    """Where commands run: on hosts of a cluster, or here."""

    name: str
    nodes: int
    ranks_per_node: int
    before: list[str]  # the command that enters the cluster
    mpi: str
    mpirun_arguments: list[str]
    environment: dict[str, str]

    def offbeat(self, folder: Path, *arguments: object, check: bool = True) -> None:
        """Run a command. All hosts see ``folder``."""
        words = [*self.before, sys.executable, "-m", "offbeat", *map(str, arguments)]
        words += ["--mpi", self.mpi, "-n", str(self.nodes * self.ranks_per_node)]
        if self.mpirun_arguments:
            words.append("--mpirun-args=" + " ".join(self.mpirun_arguments))
        print("$", " ".join(words), file=sys.stderr, flush=True)
        subprocess.run(words, env=self.environment | {"TMPDIR": str(folder)}, check=check)


def here(mpi: str, ranks: int) -> Place:
    return Place(f"1x{ranks}", 1, ranks, [], mpi, [], dict(os.environ))


def on_cluster(cluster: Cluster, name: str, shape: str) -> Place:
    ranks = parse_shape(shape)
    if len(set(ranks)) > 1:
        raise HostsError(f"{shape}: machine files describe nodes with equally many ranks")
    mpi = on_hosts(name, cluster, ranks)
    command = mpi.launch(mpi.ranks)
    at = command.index(mpi.mpirun)
    environment = clean_environment(mpi) | patient(mpi) | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    prefix = Path(mpi.mpirun).resolve().parents[1]
    return Place(shape, len(ranks), ranks[0], command[:at], str(prefix), command[at + 1 : -2], environment)


def compare(place: Place, known: machine.Machine, found: results.Benchmark) -> list[dict[str, Any]]:
    """One line for each algorithm and size that was measured."""
    lines = []
    for result in found.results:
        if result.status != results.MEASURED or result.algorithm == "native":
            continue
        size = result.cell.size_bytes
        simulated = known.simulated(place.nodes, place.ranks_per_node)
        if why := simulated.unsuitable("allreduce", result.algorithm):
            print(f"{place.name}: {result.algorithm}: {why}", file=sys.stderr)
            continue
        ranks = [0.0] * (place.nodes * place.ranks_per_node)
        for _ in range(2 if simulated.learns("allreduce", result.algorithm) else 1):
            exits = simulated.run("allreduce", result.algorithm, size, ranks, None)["exits"]
        predicted, measured = max(exits) * 1e6, result.last_delay.p25
        lines.append(
            {
                "shape": place.name,
                "algorithm": result.algorithm,
                "size_bytes": size,
                "measured_us": measured,
                "predicted_us": predicted,
                "error": predicted / measured - 1,
            }
        )
    return sorted(lines, key=lambda line: (line["algorithm"], line["size_bytes"]))


def show(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        bound = LONG_ERROR if line["size_bytes"] >= FROM_BYTES else SHORT_ERROR
        print(
            f"{line['shape']:>5} {line['algorithm']:<20} {format_size(line['size_bytes']):>9} "
            f"measured {format_us(line['measured_us']):>8} predicted {format_us(line['predicted_us']):>8} "
            f"{line['error']:+7.1%}{'' if abs(line['error']) <= bound else '  *'}",
            flush=True,
        )


def verdict(lines: list[dict[str, Any]]) -> None:
    for what, bound, those in (
        ("from 64 KiB", LONG_ERROR, [li for li in lines if li["size_bytes"] >= FROM_BYTES]),
        ("below 64 KiB", SHORT_ERROR, [li for li in lines if li["size_bytes"] < FROM_BYTES]),
    ):
        good = sum(abs(line["error"]) <= bound for line in those)
        print(f"{what}: {good} of {len(those)} within {bound:.0%}")


def half_round_trip_us(cluster: Cluster, size: int, rounds: int) -> float:
    """Half of a round trip between the first two hosts through plain TCP sockets."""
    python, program = sys.executable, str(ROOT / "tests" / "cluster" / "sockets.py")
    first, second = cluster.alive()[:2]
    server = subprocess.Popen([*cluster.enter(second), python, program, address(1)])
    try:
        words = [*cluster.enter(first), python, program, "--ask", address(1), str(size), str(rounds)]
        return float(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout)
    finally:
        server.wait(timeout=60)


def by_sockets(cluster: Cluster) -> dict[str, float]:
    """The latency and the rate that TCP gets from the switch."""
    short, long = half_round_trip_us(cluster, 1, 300), half_round_trip_us(cluster, 4 << 20, 5)
    return {"latency_us": short, "bandwidth_gb_per_s": (4 << 20) / (long - short) * 1e-3}


def switch_in_intervals(file: Path, rate: float, delay: float, sockets: dict[str, float]) -> list[str]:
    """Whether the intervals hold what the virtual switch was told to do. Beside it is what TCP gets."""
    between = json.loads(file.read_text())["parameters"]["between_nodes"]
    lines = []
    last = between["segments"][-1]
    for name, truth, interval in (
        ("bandwidth_gb_per_s", rate / 8e3, last["bandwidth_gb_per_s"]),
        ("latency_us", delay, between["segments"][0]["latency_us"]),
    ):
        inside = interval["low"] <= truth <= (interval["high"] or float("inf"))
        text = f"{interval['value']:.4g} ({interval['low']:.4g} to {interval['high']:.4g})"
        lines.append(
            f"{name}: the switch has {truth:g}, TCP {sockets[name]:.4g}, found {text}: "
            f"{'inside' if inside else 'OUTSIDE'}"
        )
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="mpich", help="as tests/cluster names it; with --here as --mpi does")
    parser.add_argument("--here", type=int, metavar="RANKS", help="on this machine, without virtual hosts")
    parser.add_argument("--calibrate", default="4x2", metavar="SHAPE", help="the hosts to calibrate on")
    parser.add_argument("--shapes", default="8x1,5x1,4x2", help="the hosts to predict")
    parser.add_argument("--sizes", type=parse_sizes, default=parse_sizes(SIZES))
    parser.add_argument("--algorithms", default=ALGORITHMS)
    parser.add_argument("--budget", default="5min", help="of the calibration")
    parser.add_argument("--seconds", type=float, default=120, help="of the benchmark of each shape")
    parser.add_argument("--rate", type=float, default=200, help="Mbit/s of each host in each direction")
    parser.add_argument("--delay", type=float, default=100, help="microseconds from host to host")
    parser.add_argument("--with-algorithms", action="store_true", help="also Hockney's of each algorithm")
    result_file.add_option(parser)
    return parser.parse_args()


def run(options: argparse.Namespace) -> None:
    written = result_file.ResultFile(options.json)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calibrated-", dir="/var/tmp")))
        if options.here:
            fitted_on, shapes = here(options.mpi, options.here), [here(options.mpi, options.here)]
        else:
            names = [options.calibrate, *options.shapes.split(",")]
            cluster = stack.enter_context(Cluster(max(len(parse_shape(name)) for name in names)))
            cluster.shape(options.rate, options.delay)
            sockets = by_sockets(cluster)
            fitted_on, *shapes = [on_cluster(cluster, options.mpi, name) for name in names]
        file = folder / "machine.toml"
        more = [] if options.with_algorithms else ["--algorithms", "none"]
        fitted_on.offbeat(folder, "calibrate", "-o", file, "--budget", options.budget, *more)
        known = machine.read(str(file))
        lines = []
        for place in shapes:
            measured = folder / f"{place.name}.json"
            sizes = ",".join(map(str, options.sizes))
            place.offbeat(
                folder, "bench", "--json", measured, "--sizes", sizes, "--algorithms", options.algorithms,
                "--patterns", "balanced", "--budget", options.seconds,
                check=False,  # what was measured before the time was over counts
            )  # fmt: skip
            found = compare(place, known, results.read(measured))
            show(found)
            lines += found
        print(file.read_text())
        verdict(lines)
        switch = (
            []
            if options.here
            else switch_in_intervals(file.with_suffix(".json"), options.rate, options.delay, sockets)
        )
        print("\n".join(switch))
        prefix = None if options.here else ON_HOSTS[options.mpi].prefix
        used = result_file.mpi(options.mpi, prefix)
        written.write(lines, [used], machine_file=file.read_text(), switch=switch)


def main() -> int:
    try:
        run(parse())
    except (HostsError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
