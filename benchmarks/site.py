#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether rules that come from a calibration on two hosts hold on more of them.

    build/venv/bin/python benchmarks/site.py --mpi mpich --network slow:100:1000 --network fast:400:100

For each network this runs `offbeat calibrate` on two virtual hosts, which needs root, then
`offbeat tune --simulate` with the machine file, and then `offbeat bench` on the hosts of each shape. A line
has the algorithm that the rules choose, and how far it is behind the best measured one: the mean over the
arrival patterns of the lower quartile of the last delays, divided by the least of that pattern. The last line
counts the cells within 10%.
"""

# ruff: noqa: E402 -- the folders of the tests come first
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tests" / "cluster")]

import result_file
from calibrated import Place, on_cluster
from hosts import Cluster, HostsError, parse_shape
from launch import ON_HOSTS
from offbeat import _core
from offbeat.bench import results
from offbeat.rules import rule_files
from offbeat.units import format_size, parse_sizes

CANDIDATES = (
    "recursive_doubling,recursive_multiplying(3),recursive_multiplying(4),recursive_multiplying(8),binomial,"
    "rabenseifner,ring,bine,arrival_owners,nap"
)
SIZES = "8,1KiB,8KiB,64KiB,512KiB"
PATTERNS = "balanced,last_delayed"
OFFBEAT = (sys.executable, "-m", "offbeat")
GOOD = 1.1
ATTEMPTS = 4


class Network(NamedTuple):
    """A network of virtual hosts: Mbit/s of each host in each direction, and microseconds between hosts."""

    name: str
    rate: float
    delay: float


def parse_network(text: str) -> Network:
    name, rate, delay = text.split(":")
    return Network(name, float(rate), float(delay))


def chosen(rules: Path, host: str, place: Place, size: int) -> str:
    """The expression that the rules of the file choose for an allreduce."""
    found = rule_files.without_errors(str(rules))
    rows = _core.plan("allreduce", host, place.nodes, place.ranks_per_node, True, found, "", "")
    return next(row["expression"] for row in rows if row["most_bytes"] is None or size <= row["most_bytes"])


def scores(found: results.Benchmark, size: int) -> dict[str, float]:
    """How far each algorithm is behind the best one under each pattern, on average; 1 is the best."""
    us: dict[str, dict[str, float]] = {}
    for result in found.results:
        if result.status == results.MEASURED and result.cell.size_bytes == size:
            us.setdefault(result.algorithm, {})[result.cell.pattern] = result.last_delay.p25
    patterns = set().union(*us.values())
    whole = {name: times for name, times in us.items() if set(times) == patterns}
    best = {pattern: min(times[pattern] for times in whole.values()) for pattern in patterns}
    return {name: fmean(times[p] / best[p] for p in patterns) for name, times in whole.items()}


def tune(machine: Path, rules: Path, options: argparse.Namespace, host: str) -> None:
    nodes = ",".join(sorted({str(len(parse_shape(shape))) for shape in options.shapes.split(",")}, key=int))
    ppn = ",".join(sorted({str(parse_shape(shape)[0]) for shape in options.shapes.split(",")}, key=int))
    words = [*OFFBEAT, "tune", "--simulate", str(machine), "--nodes", nodes, "--ppn", ppn, "--mpi", host]
    words += ["--bytes", options.sizes, "--patterns", options.patterns, "--rules", str(rules), "--no-store"]
    subprocess.run([*words, "--force"], check=True, stdout=subprocess.DEVNULL)


def calibrate(place: Place, folder: Path, machine: Path, budget: str) -> None:
    """Write the machine file. On a busy machine one budget may be too short for a fit."""
    place.offbeat(folder, "calibrate", "-o", machine, "--budget", budget, "--algorithms", "none", check=False)
    for _ in range(ATTEMPTS - 1):
        if machine.exists():
            break
        words = [*place.before, *OFFBEAT, "calibrate", "--resume", "-o", str(machine)]
        subprocess.run(
            [*words, "--budget", budget], env=place.environment | {"TMPDIR": str(folder)}, check=False
        )


def of_network(
    cluster: Cluster, network: Network, options: argparse.Namespace, folder: Path
) -> list[dict[str, Any]]:
    cluster.shape(network.rate, network.delay)
    machine, rules = folder / f"{network.name}.toml", folder / f"{network.name}.rules"
    fitted_on = on_cluster(cluster, options.mpi, options.calibrate)
    calibrate(fitted_on, folder, machine, options.budget)
    host = {"impi": "intel"}.get(ON_HOSTS[options.mpi].kind, ON_HOSTS[options.mpi].kind)
    tune(machine, rules, options, host)
    print(machine.read_text(), rules.read_text(), sep="\n", flush=True)
    lines = []
    for shape in options.shapes.split(","):
        place = on_cluster(cluster, options.mpi, shape)
        sizes = parse_sizes(options.sizes)
        names = list(dict.fromkeys(["native", *(chosen(rules, host, place, size) for size in sizes)]))
        names += [name for name in options.algorithms.split(",") if name not in names]
        measured = folder / f"{network.name}-{shape}.json"
        place.offbeat(
            folder, "bench", "--json", measured, "--sizes", options.sizes, "--algorithms", ",".join(names),
            "--patterns", options.patterns, "--budget", options.seconds,
            check=False,  # what was measured before the time was over counts
        )  # fmt: skip
        found = results.read(measured)
        for size in sizes:
            name, all_scores = chosen(rules, host, place, size), scores(found, size)
            if name not in all_scores:
                print(
                    f"{network.name} {shape} {format_size(size)}: {name} was not measured in time", flush=True
                )
                continue
            best = min(all_scores, key=lambda each: all_scores[each])
            behind = all_scores[name] / all_scores[best]
            lines.append({
                "network": network.name, "shape": shape, "size_bytes": size, "chosen": name, "best": best,
                "of_best": behind, "of_native": all_scores[name] / all_scores.get("native", float("nan")),
            })  # fmt: skip
            print(
                f"{network.name:>6} {shape:>5} {format_size(size):>8} {name:<28} {behind:5.2f} of {best:<28} "
                f"{lines[-1]['of_native']:5.2f} of native{'' if behind <= GOOD else '  *'}; load "
                f"{os.getloadavg()[0]:.1f}",
                flush=True,
            )
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="mpich", help="as tests/cluster names it")
    parser.add_argument("--calibrate", default="2x1", metavar="SHAPE", help="the hosts to calibrate on")
    parser.add_argument("--shapes", default="8x1", help="the hosts to choose for")
    parser.add_argument("--network", type=parse_network, action="append", metavar="NAME:MBIT:MICROSECONDS")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--patterns", default=PATTERNS)
    parser.add_argument("--algorithms", default=CANDIDATES, help="that are measured besides those chosen")
    parser.add_argument("--budget", default="90s", help="of each calibration")
    parser.add_argument("--seconds", type=float, default=150, help="of the benchmark of each shape")
    result_file.add_option(parser)
    return parser.parse_args()


def run(options: argparse.Namespace) -> None:
    written = result_file.ResultFile(options.json)
    networks = options.network or [Network("slow", 100, 1000), Network("fast", 400, 100)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="site-", dir="/var/tmp")))
        shapes = [options.calibrate, *options.shapes.split(",")]
        cluster = stack.enter_context(Cluster(max(len(parse_shape(shape)) for shape in shapes)))
        lines = [line for each in networks for line in of_network(cluster, each, options, folder)]
    good = sum(line["of_best"] <= GOOD for line in lines)
    print(f"{good} of {len(lines)} cells within {GOOD - 1:.0%} of the best measured")
    written.write(lines, [result_file.mpi(options.mpi, ON_HOSTS[options.mpi].prefix)])


def main() -> int:
    try:
        run(parse())
    except (HostsError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
