# SPDX-License-Identifier: BSD-3-Clause
"""What the site shows of the files in benchmarks/results/: the data of figures, and tables.

Every ratio is a native time divided by a time with offbeat, so that more is better. Times are medians of the
passes.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from offbeat.bench.ranking import BALANCED
from offbeat.simulate import agreement, machine
from offbeat.units import format_size, parse_size

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
sys.path += [str(ROOT / "tools"), *(str(BENCHMARKS / name) for name in ("", "papers", "training"))]

import many_nodes  # noqa: E402
import one_node  # noqa: E402
import paper_0  # noqa: E402
import paper_1  # noqa: E402
import paper_2  # noqa: E402
import paper_4  # noqa: E402
import paper_4_ft  # noqa: E402
import paper_tables  # noqa: E402
import paper_training  # noqa: E402
import published_check  # noqa: E402
import result_file  # noqa: E402
from markdown_table import table  # noqa: E402

NATIVE, OFFBEAT = "native", "default"
SHOWN_BYTES = 64 << 10  # the size of the figure over arrival patterns, or the next one that was measured


@functools.cache
def results(name: str) -> dict[str, Any]:
    return result_file.read(result_file.FOLDER / f"{name}.json")


def vendors(document: dict[str, Any]) -> dict[str, str]:
    """The names of MPIs as pages write them, by the names in the cells."""
    return {each["name"]: each["vendor"] for each in document["mpis"]}


def mean(ratios: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"


def source(name: str) -> str:
    """Where a result file comes from: its command, and one sentence about the run."""
    found = results(name)
    machine, load, ours = found["machine"], found["load"], found["offbeat"]
    versions = {each["vendor"]: each["version"] for each in found["mpis"]}
    for cell in found["cells"]:
        versions |= cell.get("software", {})
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{shown(found['command'])}\n\n"
        f"Result file: `benchmarks/results/{name}.json`, measured on {found['started'][:10]}. offbeat "
        f"{ours['version']} ({ours['commit']}); {software}; "
        f"{machine['cores']} cores ({machine['processor']}); "
        f"load average {load['start']:g} at the start, {load['end']:g} at the end."
    )


def shown(command: str) -> str:
    """A command as pages have it: indented, with an option at the beginning of each further line."""
    first, *options = command.split(" --")
    lines = [f"    {first}"]
    for option in options:
        if len(lines[-1]) + len(option) > 105:
            lines[-1] += " \\"
            lines.append(" " * 7)
        lines[-1] += f" --{option}"
    return "\n".join(lines)


# -- on one node: benchmarks/board.py


@dataclass(frozen=True)
class Cell:
    collective: str
    ranks: int
    pattern: str
    skew: float
    size_bytes: int
    algorithm: str
    mpi: str


@dataclass
class Ratios:
    """Ratios over sizes, for each MPI a line."""

    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    few_samples: set[tuple[str, float]] = field(default_factory=set)


class Board:
    def __init__(self) -> None:
        self.document = results("board")
        self.vendors = vendors(self.document)
        self.delays_us: dict[Cell, float] = {}
        self.few: set[Cell] = set()
        for found in self.document["cells"]:
            cell = Cell(**{name: found[name] for name in Cell.__dataclass_fields__})
            self.delays_us[cell] = statistics.median(found["passes_us"])
            if found["few_samples"]:
                self.few.add(cell)

    def best(self, cell: Cell) -> Cell | None:
        """The same cell under the MPI where it is fastest."""
        those = [replace(cell, mpi=mpi) for mpi in self.vendors]
        return min(filter(self.delays_us.__contains__, those), key=self.delays_us.__getitem__, default=None)

    def cells(self, **wanted: object) -> list[Cell]:
        """The cells of offbeat's own choice with these values, in the order of the file."""
        ours = [cell for cell in self.delays_us if cell.algorithm == OFFBEAT]
        return [cell for cell in ours if all(getattr(cell, name) == each for name, each in wanted.items())]

    def to_best_native(self, cell: Cell) -> float | None:
        native = self.best(replace(cell, algorithm=NATIVE))
        return self.delays_us[native] / self.delays_us[cell] if native else None

    def to_own(self, cell: Cell) -> float | None:
        native = self.delays_us.get(replace(cell, algorithm=NATIVE))
        return native / self.delays_us[cell] if native else None


def board_ratios(ranks: int) -> Ratios:
    """An allreduce whose ranks arrive together: the best native of all MPIs divided by offbeat under each."""
    board, found = Board(), Ratios()
    for cell in board.cells(collective="allreduce", ranks=ranks, pattern=BALANCED):
        ratio = board.to_best_native(cell)
        if ratio is not None:
            vendor = board.vendors[cell.mpi]
            found.lines.setdefault(vendor, []).append((cell.size_bytes, ratio))
            if board.few & {cell, board.best(replace(cell, algorithm=NATIVE))}:
                found.few_samples.add((vendor, cell.size_bytes))
    return in_order(found)


def in_order(ratios: Ratios) -> Ratios:
    return replace(ratios, lines={name: sorted(points) for name, points in ratios.lines.items()})


def board_pairs(ranks: int) -> tuple[int, dict[str, dict[str, tuple[float, float]]]]:
    """An allreduce under each pattern and MPI: its size, and the native time and that with offbeat."""
    board = Board()
    cells = board.cells(collective="allreduce", ranks=ranks)
    size = min(
        {cell.size_bytes for cell in cells}, key=lambda each: abs(math.log(max(each, 1) / SHOWN_BYTES))
    )
    pairs: dict[str, dict[str, tuple[float, float]]] = {}
    for cell in cells:
        native = replace(cell, algorithm=NATIVE)
        if cell.size_bytes == size and native in board.delays_us:
            heading = cell.pattern + (f", skew {cell.skew:g}" if cell.skew else "")
            of_pattern = pairs.setdefault(heading, {})
            of_pattern[board.vendors[cell.mpi]] = (board.delays_us[native], board.delays_us[cell])
    return size, pairs


def board_table() -> str:
    """By collective and ranks: the ratio to the best native for each pattern, and to each MPI's own."""
    board = Board()
    patterns = list(dict.fromkeys(cell.pattern for cell in board.cells()))
    headings = ["collective", "ranks", *(f"`{pattern}`" for pattern in patterns), "least"]
    headings += [f"{vendor}'s own" for vendor in board.vendors.values()]
    rows = []
    for ranks, collective in dict.fromkeys((cell.ranks, cell.collective) for cell in board.cells()):
        those = board.cells(collective=collective, ranks=ranks)
        bests = [cell for cell in those if cell == board.best(cell)]
        ratios = {cell: ratio for cell in bests if (ratio := board.to_best_native(cell)) is not None}
        row = [collective, str(ranks)]
        row += [mean([ratios[cell] for cell in ratios if cell.pattern == pattern]) for pattern in patterns]
        row.append(f"{min(ratios.values()):.2f}" if ratios else "-")
        for mpi in board.vendors:
            row.append(mean([own for cell in those if cell.mpi == mpi and (own := board.to_own(cell))]))
        rows.append(row)
    counted = f"{len(board.few)} of {len(board.delays_us)} medians are of fewer than five calls in some pass."
    return table(headings, rows) + "\n\n" + counted


def _size_order(text: str) -> tuple[int, str]:
    """Sizes by their bytes, then other words."""
    return (parse_size(text.replace(" ", "")), "") if text[0].isdigit() else (1 << 62, text)


def board_targets() -> str:
    """The targets of board.py that the stored run missed: the least ratio of calls that differ in size."""
    board = Board()
    rows: dict[tuple[str, str], dict[str, float]] = {}
    sizes: dict[tuple[str, str], set[str]] = {}
    without: dict[str, int] = {}
    for line in board.document["missed"]:
        where, _, found = line.rpartition(": ")
        what, _, mpi = where.rpartition(", ")
        if ", target " not in found:
            vendor = board.vendors.get(mpi.rpartition("/")[2], mpi)
            call = f"{', '.join(what.split(', ')[:2])}, {vendor}: {found}"
            without[call] = without.get(call, 0) + 1
            continue
        ratio, _, wanted = found.partition(", target ")
        kind, _, name = mpi.rpartition(" ")
        size = {"mean of": "mean", "mean of own": "mean of the MPI's own"}.get(kind)
        if size is None:
            what, _, size = what.rpartition(", ")
        key = what, wanted
        vendor = board.vendors.get(name.rpartition("/")[2], name)
        least = rows.setdefault(key, {})
        least[vendor] = min(least.get(vendor, math.inf), float(ratio.split(" ")[0]))
        sizes.setdefault(key, set()).add(size)
    others = [f"- {call} (cells: {count})" for call, count in without.items()]
    if not rows and not others:
        return "No target was missed."
    headings = ["missed", "target", "sizes or mean", *board.vendors.values()]
    found_rows = [
        [
            what,
            wanted,
            ", ".join(sorted(sizes[what, wanted], key=_size_order)),
            *(f"{ratios[vendor]:.2f}" if vendor in ratios else "" for vendor in board.vendors.values()),
        ]
        for (what, wanted), ratios in rows.items()
    ]
    return "\n".join([table(headings, found_rows), *([""] if others else []), *others])


# -- between hosts: benchmarks/nodes.py


@dataclass(frozen=True)
class Compared:
    """One size of a shape under one MPI. The best native algorithm is the fastest of the first pass."""

    shape: str
    vendor: str
    size_bytes: int
    native_us: float
    offbeat_us: float

    @property
    def ratio(self) -> float:
        return self.native_us / self.offbeat_us


def nodes_compared() -> list[Compared]:
    """All cells of an allreduce in which no host is late, and offbeat chooses."""
    document = results("nodes")
    natives: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    offbeat: dict[tuple[str, str, int], float] = {}
    for cell in document["cells"]:
        if cell["late"] or cell["collective"] != "allreduce":
            continue
        key = (cell["shape"], cell["mpi"], cell["size_bytes"])
        time_us = statistics.median(cell["passes_us"])
        if cell["algorithm"] == OFFBEAT:
            offbeat[key] = time_us
        elif cell["algorithm"].startswith(NATIVE):
            natives.setdefault(key, []).append((cell["first_pass_us"], time_us))
    names = vendors(document)
    return [
        Compared(key[0], names[key[1]], key[2], min(natives[key])[1], time_us)
        for key, time_us in offbeat.items()
        if key in natives
    ]


def nodes_ratios(shape: str) -> Ratios:
    found = Ratios()
    for each in nodes_compared():
        if each.shape == shape:
            found.lines.setdefault(each.vendor, []).append((each.size_bytes, each.ratio))
    return in_order(found)


def nodes_table() -> str:
    """By shape and MPI: the ratios over all sizes, and the times of the shortest and the longest message."""
    found = nodes_compared()
    headings = ["hosts", "ranks on each", "MPI", "mean", "least", "at", "greatest", "at"]
    rows = []
    for shape, vendor in dict.fromkeys((each.shape, each.vendor) for each in found):
        those = [each for each in found if (each.shape, each.vendor) == (shape, vendor)]
        row = [*shape.split("x"), vendor, mean([each.ratio for each in those])]
        for choose in (min, max):
            end = choose(those, key=lambda each: each.ratio)
            row += [f"{end.ratio:.2f}", format_size(end.size_bytes)]
        rows.append(row)
    return table(headings, rows)


def late_nodes_table() -> str:
    """Milliseconds of each algorithm, by MPI, late hosts and size."""
    document = results("late_nodes")
    cells = [cell for cell in document["cells"] if cell["late"]]
    algorithms = list(dict.fromkeys(cell["algorithm"] for cell in cells))
    times: dict[tuple[str, str, float, int], dict[str, float]] = {}
    for cell in cells:
        key = (cell["mpi"], cell["late"], cell["skew"], cell["size_bytes"])
        times.setdefault(key, {})[cell["algorithm"]] = statistics.median(cell["passes_us"])
    names = vendors(document)
    rows = [
        [names[mpi], late, f"{skew:g}", format_size(size)]
        + [f"{of[name] / 1e3:.3g}" if name in of else "-" for name in algorithms]
        for (mpi, late, skew, size), of in times.items()
    ]
    return table(["MPI", "late", "skew", "size", *(f"`{name}`" for name in algorithms)], rows)


# -- others


def tracing_table() -> str:
    """Nanoseconds of a call without and with the tracer, and the differences of neighbouring runs."""
    rows = []
    for cell in results("tracing")["cells"]:
        more = [b - a for a, b in zip(cell["untraced_ns"], cell["traced_ns"], strict=True)]
        medians = [statistics.median(cell[name]) for name in ("untraced_ns", "traced_ns")]
        numbers = [f"{value:.1f}" for value in (*medians, statistics.median(more), min(more), max(more))]
        rows.append([str(cell["ranks"]), format_size(cell["size_bytes"]), *numbers])
    headings = ["ranks", "size", "untraced, ns", "traced, ns", "difference, ns", "least", "greatest"]
    return table(headings, rows)


def training_tables() -> str:
    """Images/s of each way to reduce gradients, a table for each program and binding."""
    parts = []
    for title, jobs in paper_training.by_title(results("paper_training")["cells"]).items():
        rows = paper_training.rows_of(jobs)
        lines = "\n".join(f"- {line}" for line in paper_training.comparisons(jobs))
        parts.append(f"{title}:\n\n{table(paper_training.HEADINGS, rows)}\n\n{lines}")
    return "\n\n".join(parts)


def training_figure() -> str:
    return paper_training.figure_of(results("paper_training")["cells"])


# -- the model of a node: benchmarks/model_check.py


@functools.cache
def _simulated_node() -> dict[agreement.Time, float]:
    document = results("model_check")
    read = machine.parse(document["machine_file"], "model_check.json")
    return agreement.simulated_us(read, [agreement.Time.from_json(cell) for cell in document["cells"]])


def model_check_table() -> str:
    """How many of the simulated times agree with the measured ones, for each algorithm and for all."""
    simulated = _simulated_node()
    rows = [
        [f"`{name}`", *agreement.compare(simulated, algorithm=name).columns()]
        for name in dict.fromkeys(time.algorithm for time in simulated)
    ]
    for name, of_these in (("offbeat's", agreement.of_offbeat(simulated)), ("all", simulated)):
        rows.append([name, *agreement.compare(of_these).columns()])
    return table(["algorithm", *agreement.HEADINGS], rows)


def model_check_times() -> str:
    """Measured and simulated times of some algorithms when all ranks arrive together, in microseconds."""
    simulated = _simulated_node()
    names = (
        "native(ring)",
        "recursive_doubling",
        "rabenseifner",
        "arrival_tree",
        "arrival_leader",
        "arrival_chain",
    )
    sizes = dict.fromkeys(time.size_bytes for time in simulated)
    at = {
        (time.size_bytes, time.algorithm): f"{_us(time.us)}, {_us(simulated[time])}"
        for time in simulated
        if time.pattern == BALANCED
    }
    rows = [[format_size(size), *(at.get((size, name), "-") for name in names)] for size in sizes]
    return table(["size", *(f"`{name}`" for name in names)], rows)


def _us(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def published_check_table() -> str:
    """How many of the simulated times agree with those that others measured, for each table and algorithm."""
    return table(published_check.HEADINGS, published_check.rows(results("published_check")["cells"]))


def many_nodes_summary() -> str:
    """How many cells between nodes have a rule, and how its time compares with that of the MPIs."""
    return table(many_nodes.SUMMARY_HEADINGS, many_nodes.summary(results("many_nodes")["cells"]))


def many_nodes_table() -> str:
    """How the rules between nodes compare with the MPIs, for each rule."""
    return table(many_nodes.HEADINGS, many_nodes.rows(results("many_nodes")["cells"]))


def one_node_table() -> str:
    """How offbeat's defaults compare with the fastest algorithms, for each collective and machine."""
    return table(one_node.HEADINGS, one_node.rows(results("one_node")["cells"]))


def one_node_bounds() -> str:
    """An allreduce of 64 KiB on 64 ranks beside its bound, on each machine."""
    return table(one_node.BOUND_HEADINGS, one_node.bound_rows(results("one_node")["cells"]))


def many_cores_table() -> str:
    """Simulated times of offbeat's defaults on one node of Rome."""
    rome, ranks = machine.read("rome"), (16, 64, 128)
    calls = [("barrier", "arrival_counter", 0)]
    calls += [("allreduce", "arrival_tree", size) for size in (8, 1 << 10)]
    calls += [("allreduce", "arrival_shares", 64 << 10)]
    calls += [(name, "arrival_direct", size) for name in ("bcast", "allgather") for size in (8, 8 << 10)]
    calls += [("reduce", "arrival_tree", 8), ("reduce", "arrival_shares", 64 << 10)]
    rows = [
        [
            f"`{name}`",
            format_size(size),
            *(_us(_simulated_us(rome, each, name, expression, size)) for each in ranks),
        ]
        for name, expression, size in calls
    ]
    return table(["call", "size", *(f"{each} ranks" for each in ranks)], rows)


def _simulated_us(read: machine.Machine, ranks: int, collective: str, expression: str, size: int) -> float:
    return 1e6 * max(read.simulated(1, ranks).run(collective, expression, size, [], None)["exits"])


# -- what scripts of benchmarks/papers/ have simulated


def simulated(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((result_file.FOLDER / f"{name}.json").read_text())
    return document


def source_of_simulation(name: str) -> str:
    """The command that made a file, and where that is."""
    command = simulated(name)["command"].removeprefix("python ")
    return f"{shown('build/venv/bin/python ' + command)}\n\nData: `benchmarks/results/{name}.json`."


def paper_verdicts(number: str) -> str:
    """The numbers of a paper beside ours, and whether ours are better, or why not."""
    found = {
        "0": lambda: paper_0.verdicts(simulated("paper_0")["times"]),
        "1": lambda: paper_1.verdicts(simulated("paper_1")["throughput"]),
        "2": lambda: paper_2.verdicts(simulated("paper_2")),
        "4": lambda: paper_4.verdicts(paper_4_delays(), smpi_delays()),
    }[number]()
    return table(paper_tables.VERDICT_HEADINGS, [each.row for each in found])


def paper_0_table() -> str:
    """How much of the native time each part of paper 0 saves, there and here."""
    return table(paper_0.HEADINGS, paper_0.rows(simulated("paper_0")["times"]))


def paper_0_figure() -> dict[str, list[tuple[float, float]]]:
    return paper_0.saved_on_nodes(simulated("paper_0")["times"], 32)


def paper_1_table() -> str:
    """The throughput in MB/s of long messages, there and here."""
    return table(paper_1.HEADINGS, paper_1.rows(simulated("paper_1")["throughput"]))


def paper_1_figure() -> dict[str, list[tuple[float, float]]]:
    return paper_1.lines(simulated("paper_1")["throughput"], "figure 3", 9)


def paper_0_trainings() -> dict[str, dict[str, dict[str, float]]]:
    return paper_0.trainings(simulated("paper_0")["times"])


def paper_1_collectives() -> dict[str, dict[str, tuple[float, float]]]:
    return paper_1.other_collectives(simulated("paper_1")["throughput"])


def paper_1_networks() -> dict[str, dict[str, tuple[float, float]]]:
    return paper_1.other_networks(simulated("paper_1")["throughput"])


def paper_2_application() -> str:
    """What SUARA saves of a training on 1,024 ranks, by the size of its messages."""
    return table(paper_2.APPLICATION_HEADINGS, paper_2.application_rows(simulated("paper_2")["cells"]))


def paper_2_figure() -> dict[str, list[tuple[float, float]]]:
    return paper_2.lines(simulated("paper_2")["cells"])


def delays_of(*names: str) -> list[dict[str, Any]]:
    return [each for name in names for each in simulated(name)["delays"]]


def paper_4_delays() -> list[dict[str, Any]]:
    return delays_of("paper_4_reduce", "paper_4_allreduce", "paper_4_alltoall_short", "paper_4_alltoall")


def smpi_delays() -> list[dict[str, Any]]:
    return delays_of("paper_4_smpi_reduce", "paper_4_smpi_allreduce", "paper_4_smpi_alltoall_32")


def paper_4_figure_4() -> str:
    """The best algorithm under each pattern, for the three collectives."""
    return table(paper_4.FIGURE_4_HEADINGS, paper_4.figure_4_rows(paper_4_delays()))


def paper_4_smpi_figure_4() -> str:
    """Figure 4 by SMPI with SMPI's algorithms, and how well both simulators agree."""
    delays = smpi_delays()
    rows = paper_4.figure_4_rows([each for each in delays if each["collective"] != "alltoall"])
    most = max(abs(ratio - 1) for ratio in paper_4.alltoalls_over_smpi(paper_4_delays(), delays))
    agreement = (
        "It takes SMPI too long to simulate rings and `linear` alltoalls of 1,024 ranks. If nobody is late, "
        f"alltoalls by `pairwise` and `bruck` take the same time there, to {most:.4%}."
    )
    return table(paper_4.FIGURE_4_HEADINGS, rows) + f"\n\n{agreement}"


def paper_4_figure_8() -> str:
    """An alltoall of 32 KiB under each pattern: each algorithm's delay divided by the least."""
    return table(*paper_4.figure_8_rows(simulated("paper_4_alltoall")["delays"]))


def paper_4_figure() -> dict[str, dict[str, tuple[float, float]]]:
    return paper_4.alltoalls_ms(simulated("paper_4_alltoall")["delays"])


FT = "paper_4_ft"


def has_ft() -> bool:
    return (result_file.FOLDER / f"{FT}.json").exists()


def paper_4_ft_study() -> str:
    """The study of FT, if it was measured."""
    if not has_ft():
        return "Not measured yet: `paper_4_ft.py` needs a quiet machine with a core for each rank."
    lines = paper_4_ft.lines_of(results(FT)["cells"])
    figure = f"![Predicted over measured run time of FT by each alltoall]({FT}.svg)"
    measured_table = table(paper_4_ft.HEADINGS, paper_4_ft.rows(lines))
    return "\n\n".join([source(FT), measured_table, figure, paper_4_ft.verdict(lines)])


def paper_4_ft_figure() -> dict[str, dict[str, float]]:
    return paper_4_ft.predicted_over_measured(paper_4_ft.lines_of(results(FT)["cells"]))


def paper_2_fits() -> str:
    """The latency and the rate of each algorithm of paper 2."""
    return table(paper_2.FIT_HEADINGS, paper_2.fit_rows(simulated("paper_2")["fits"]))


def paper_2_choices() -> str:
    """Where a grid wins by these, with those of Rabenseifner's algorithm made worse."""
    return table(paper_2.CHOICE_HEADINGS, paper_2.choice_rows(simulated("paper_2")["choices"]))
