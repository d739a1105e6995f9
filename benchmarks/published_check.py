#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare collectives that others measured on one node with their simulations on the machine file of that node.

    build/venv/bin/python benchmarks/published_check.py --json
    build/venv/bin/python benchmarks/published_check.py --only rome-openmpi --times

The measured times are those of benchmarks/published/collectives/one-node. An algorithm with a name runs as offbeat's
algorithm of that name, a default as hosts.txt says. OSU's benchmarks print the mean over ranks, so the simulated time
is that mean, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import result_file  # noqa: E402
from markdown_table import table  # noqa: E402
from offbeat.simulate import agreement, hosts, machine  # noqa: E402
from offbeat.simulate.agreement import Time  # noqa: E402
from offbeat.simulate.simulation import Shape  # noqa: E402
from offbeat.units import format_size  # noqa: E402

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT / "benchmarks" / "published" / "collectives" / "one-node"
MACHINES = {"amd-rome-7742-2x64": "rome", "nvidia-grace-4x72": "grace"}
NAMES = {  # offbeat's, of the collective and the name in the table
    "barrier": {"bruck": "dissemination"},
    "bcast": {"basic_linear": "linear", "binomial": "binomial", "pipeline": "chain"},
    "reduce": {"linear": "linear", "binomial": "binomial", "rabenseifner": "rabenseifner"},
}
HOSTS = {"Open MPI": "openmpi", "MPICH": "mpich", "Cray MPICH": "mpich"}


@dataclass(frozen=True)
class Curve:
    """The times of one algorithm in a published table, and how to simulate them."""

    file: str
    collective: str
    machine: str
    host: str
    algorithm: str  # as the table names it
    ranks: int
    rows: tuple[tuple[int, float], ...]  # bytes, and microseconds

    def phases(self, size_bytes: int) -> tuple[hosts.Phases, ...]:
        """What the simulator runs: the fastest of these."""
        if name := NAMES.get(self.collective, {}).get(self.algorithm):
            return ((hosts.Phase("all", self.collective, name),),)
        return hosts.default_algorithm(self.host, self.collective, Shape(1, self.ranks), size_bytes)


def curves(only: str = "") -> Iterator[Curve]:
    """The curves that can be simulated: ranks on consecutive cores, an algorithm that offbeat has."""
    for path in sorted(FOLDER.glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        host = HOSTS.get(document["mpi"].partition(",")[0].rstrip(" .0123456789"))
        if only not in path.stem or host is None or document["machine"] not in MACHINES:
            continue
        for series in document["series"]:
            name = series["algorithm"]
            is_named = name in NAMES.get(document["collective"], {})
            is_unknown = not is_named and ("default" not in name or "persistent" in name)
            if is_unknown or series["mapping"] == "--map-by socket":
                continue
            common = path.stem, document["collective"], MACHINES[document["machine"]], host, series["algorithm"]
            if document["columns"][0] == "ranks":
                for ranks, us in series["rows"]:
                    yield Curve(*common, ranks, ((series["bytes"], us),))
            else:
                yield Curve(*common, series["ranks"], tuple((row[0], row[1]) for row in series["rows"] if row[0] % 4 == 0))


def simulated(curve: Curve, places: dict[tuple[str, int], hosts.Place]) -> dict[Time, float]:
    """The times of a curve, with their simulated values. A size without a known algorithm is left out."""
    key = curve.machine, curve.ranks
    if key not in places:
        places[key] = hosts.Place(machine.read(curve.machine), Shape(1, curve.ranks))
    found = {}
    for size, us in curve.rows:
        if alternatives := curve.phases(size):
            time = Time(curve.ranks, size, curve.file, 0.0, 0, curve.algorithm, us)
            found[time] = min(fmean(places[key].simulate_exits_us(each, size)) for each in alternatives)
    return found


def check(only: str = "", every: int = 1) -> dict[Curve, dict[Time, float]]:
    """Simulate the published curves, or each `every`-th size of them."""
    places: dict[tuple[str, int], hosts.Place] = {}
    found = {}
    for curve in curves(only):
        few = replace(curve, rows=curve.rows[::every])
        if times := simulated(few, places):
            found[curve] = times
    return found


def rows(found: dict[Curve, dict[Time, float]]) -> list[list[str]]:
    """A row for each table and algorithm, and one for each table with its pairs."""
    lines = []
    for file in dict.fromkeys(curve.file for curve in found):
        mine = {curve: times for curve, times in found.items() if curve.file == file}
        together = {time: us for times in mine.values() for time, us in times.items()}
        for name in dict.fromkeys(curve.algorithm for curve in mine):
            lines.append([file, name, *agreement.compare(together, algorithm=name).columns()])
    return lines


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="files whose name has this text")
    parser.add_argument("--times", action="store_true", help="print all times")
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    written = result_file.ResultFile(arguments.json)
    found = check(arguments.only)
    if arguments.times:
        for curve, times in found.items():
            cells = " ".join(f"{format_size(t.size_bytes)}:{t.us:.4g},{us:.4g}" for t, us in times.items())
            print(f"{curve.file} {curve.algorithm} {curve.ranks}: {cells}")
    print(table(["table", "algorithm", *agreement.HEADINGS], rows(found)))
    cells: list[dict[str, Any]] = [
        {"table": curve.file, "collective": curve.collective, "machine": curve.machine, "algorithm": curve.algorithm,
         "ranks": curve.ranks, "size_bytes": time.size_bytes, "published_us": time.us, "simulated_us": us}
        for curve, times in found.items() for time, us in times.items()
    ]  # fmt: skip
    written.write(cells)


if __name__ == "__main__":
    main()
