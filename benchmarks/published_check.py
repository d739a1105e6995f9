#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare collectives that others measured with simulations on the machine file of their nodes.

    build/venv/bin/python benchmarks/published_check.py --json
    build/venv/bin/python benchmarks/published_check.py --only rome-openmpi --times

The measured times are those of benchmarks/published/collectives, on one node and on several. An algorithm
with a name runs as offbeat's algorithm of that name, a default as hosts.txt says. OSU's benchmarks print the
mean over ranks, so the simulated time is that mean, too.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
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

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT / "benchmarks" / "published" / "collectives"
MOST_RANKS = 1024  # on several nodes; more take minutes
MOST_BYTES = 4 << 20  # of all blocks, likewise
MACHINES = {"amd-rome-7742-2x64": "rome", "nvidia-grace-4x72": "grace"}
NAMES = {  # offbeat's, of the collective and the name in the table
    "barrier": {"bruck": "dissemination"},
    "bcast": {"basic_linear": "linear", "binomial": "binomial", "pipeline": "chain"},
    "reduce": {"linear": "linear", "binomial": "binomial", "rabenseifner": "rabenseifner"},
}
HEADINGS = ("table", "algorithm", "most nodes", "most ranks", *agreement.HEADINGS)
HOSTS = {"Open MPI": "openmpi", "MPICH": "mpich", "Cray MPICH": "mpich"}


Cell = dict[str, Any]  # a curve with its simulated times, as the result file has it


@dataclass(frozen=True)
class Curve:
    """The times of one algorithm in a published table, and how to simulate them."""

    file: str
    collective: str
    machine: str
    host: str
    algorithm: str  # as the table names it
    shape: Shape
    rows: tuple[tuple[int, float], ...]  # bytes, and microseconds

    def phases(self, size_bytes: int) -> tuple[hosts.Phases, ...]:
        """What the simulator runs: the fastest of these."""
        if name := NAMES.get(self.collective, {}).get(self.algorithm):
            return ((hosts.Phase("all", self.collective, name),),)
        collective = self.collective.removesuffix("v")  # allgatherv: OSU's blocks are equally long
        return hosts.default_algorithm(self.host, collective, self.shape, size_bytes)


def curves(only: str = "") -> Iterator[Curve]:
    """The curves that can be simulated: ranks on consecutive cores, an algorithm that offbeat has."""
    for path in sorted(FOLDER.glob("*/*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        host = HOSTS.get(document["mpi"].partition(",")[0].rstrip(" .0123456789"))
        if only not in path.stem or host is None or document["machine"] not in MACHINES:
            continue
        for series in document["series"]:
            name = series["algorithm"]
            is_named = name in NAMES.get(document["collective"], {})
            is_unknown = not is_named and (not name.startswith("default") or "persistent" in name)
            if is_unknown or series["mapping"] == "--map-by socket":
                continue
            common = (
                path.stem,
                document["collective"],
                MACHINES[document["machine"]],
                host,
                series["algorithm"],
            )
            nodes = series["nodes"]
            if document["columns"][0] == "ranks":
                for ranks, us in series["rows"]:
                    if ranks % nodes == 0:
                        yield Curve(*common, Shape(nodes, ranks // nodes), ((series["bytes"], us),))
            elif series["ranks"] % nodes == 0 and (nodes == 1 or series["ranks"] <= MOST_RANKS):
                most = math.inf
                if nodes > 1 and document["collective"] in ("allgather", "alltoall"):
                    most = MOST_BYTES / series["ranks"]
                rows = tuple((row[0], row[1]) for row in series["rows"] if row[0] % 4 == 0 and row[0] <= most)
                yield Curve(*common, Shape(nodes, series["ranks"] // nodes), rows)


def simulated(curve: Curve, places: dict[tuple[str, Shape], hosts.Place]) -> Cell:
    """A curve with its simulated times. A size without a known algorithm is left out."""
    key = curve.machine, curve.shape
    if key not in places:
        places[key] = hosts.Place(machine.read(curve.machine), curve.shape)
    times = []
    for size, us in curve.rows:
        if alternatives := curve.phases(size):
            mean_us = min(fmean(places[key].simulate_exits_us(each, size)) for each in alternatives)
            times.append([size, us, float(f"{mean_us:.4g}")])
    return {
        "table": curve.file,
        "machine": curve.machine,
        "collective": curve.collective,
        "algorithm": curve.algorithm,
        "nodes": curve.shape.nodes,
        "ranks": curve.shape.ranks,
        "bytes_published_us_simulated_us": times,
    }


def check(only: str = "", every: int = 1) -> list[Cell]:
    """Simulate the published curves, or each `every`-th size of them."""
    places: dict[tuple[str, Shape], hosts.Place] = {}
    cells = [simulated(replace(curve, rows=curve.rows[::every]), places) for curve in curves(only)]
    return [cell for cell in cells if cell["bytes_published_us_simulated_us"]]


def compared(cells: Iterable[Cell]) -> dict[Time, float]:
    """The published and simulated times, as offbeat compares them: pairs are two algorithms of one table."""
    return {
        Time(cell["ranks"], size, cell["table"], 0.0, 0, cell["algorithm"], published_us): simulated_us
        for cell in cells
        for size, published_us, simulated_us in cell["bytes_published_us_simulated_us"]
    }


def rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each table and algorithm. A default has no pairs: another algorithm may stand for it."""
    found = []
    for name in dict.fromkeys(cell["table"] for cell in cells):
        mine = [cell for cell in cells if cell["table"] == name]
        named = [cell for cell in mine if not is_default(cell)]
        for algorithm in dict.fromkeys(cell["algorithm"] for cell in mine):
            own = [cell for cell in mine if cell["algorithm"] == algorithm]
            of = own if is_default(own[0]) else named
            most = (str(max(cell[each] for cell in own)) for each in ("nodes", "ranks"))
            columns = agreement.compare(compared(of), algorithm=algorithm).columns()
            found.append([name, algorithm, *most, *columns])
    return found


def is_default(cell: Cell) -> bool:
    """Whether the host chose the algorithm."""
    return str(cell["algorithm"]).startswith("default")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="files whose name has this text")
    parser.add_argument("--times", action="store_true", help="print all times, too")
    result_file.add_option(parser)
    arguments = parser.parse_args(words)
    written = result_file.ResultFile(arguments.json)
    cells = check(arguments.only)
    if arguments.times:
        for cell in cells:
            times = (f"{each[0]}: {each[1]}, {each[2]}" for each in cell["bytes_published_us_simulated_us"])
            print(cell["table"], cell["algorithm"], cell["ranks"], "ranks:", "; ".join(times))
    print(table(HEADINGS, rows(cells)))
    written.write(cells)


if __name__ == "__main__":
    main()
