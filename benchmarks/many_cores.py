#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a node with many cores within a few minutes, and say what its simulation gets wrong.

    build/venv/bin/python benchmarks/many_cores.py --json
    build/venv/bin/python benchmarks/many_cores.py --machine cluster --minutes 4 --ranks 8,16
    build/venv/bin/python benchmarks/many_cores.py --again benchmarks/results/many_cores.json

`offbeat calibrate` writes a machine file under each MPI. Then the MPIs run in turns on each number of pinned
ranks, natively and with offbeat's algorithms. The most telling calls come first. The output names what did
not fit into the time. `--again` compares the times of a file with the simulator as it is now.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import board  # noqa: E402
import model_check  # noqa: E402
import result_file  # noqa: E402
from markdown_table import table  # noqa: E402
from offbeat import _core  # noqa: E402
from offbeat import machine as this_machine  # noqa: E402
from offbeat.bench import arrival_patterns, runner  # noqa: E402
from offbeat.bench.plan import (  # noqa: E402
    BUILT_IN_CHOICE,
    NATIVE,
    NO_SKEW,
    Cell,
    Plan,
    parse_algorithms,
    parse_collectives,
)
from offbeat.bench.results import Benchmark  # noqa: E402
from offbeat.errors import CommandError  # noqa: E402
from offbeat.mpi import discovery, libraries  # noqa: E402
from offbeat.mpi.install import MpiInstall  # noqa: E402
from offbeat.simulate import agreement, machine  # noqa: E402
from offbeat.simulate.agreement import Time  # noqa: E402
from offbeat.units import Skew, format_size, parse_sizes, parse_skew  # noqa: E402

# The collectives and the sizes, the most telling first.
COLLECTIVES = "allreduce,bcast,reduce,allgather,alltoall,reduce_scatter_block"
SIZES = "64KiB,8,1MiB,4KiB,256KiB,512,16KiB,4MiB,64"
PATTERNS = "balanced,last_delayed,random"
MESSAGES = ("recursive_doubling", "ring", "rabenseifner", "binomial", "pairwise")
# How the names of algorithms on the board begin, and what they need.
ARRIVAL, ON_A_BOARD = "arrival_", "all ranks on one node"
# The part of the measuring that is for calibrations, the part of the whole time after which nothing more is
# measured, and the least time for a cell. Cells that would get less are left to the next turn.
CALIBRATING, MEASURING = 0.25, 0.85
LEAST_S = 0.2
LEAST_JOB_S = 1.0
SLOWER = 0.95  # native's time by that of offbeat below which a cell is listed
BETTER = 0.9  # the time of another algorithm by that of the default below which a cell is listed
Job = tuple[str, int]  # an MPI and a number of ranks


def usual_algorithms(collectives: Sequence[str]) -> list[str]:
    """The default, and the registered algorithms on the board and by messages."""
    found = [
        each["name"]
        for each in _core.algorithms()
        if each["collective"] in collectives
        and (
            each["name"] in MESSAGES or (each["name"].startswith("arrival_") and ON_A_BOARD in each["needs"])
        )
    ]
    return list(dict.fromkeys([BUILT_IN_CHOICE, *found]))


def ordered_cells(
    collectives: Sequence[str], sizes: Sequence[int], patterns: Sequence[str], skew: Skew
) -> list[Cell]:
    """The cells, the most telling calls first: both lists begin with what is most telling.

    The patterns of a call stay together, because the ranks prepare a call once for all of them.
    """
    calls = sorted(
        itertools.product(range(len(collectives)), range(len(sizes))), key=lambda at: (sum(at), at)
    )
    return [
        Cell(
            collectives[collective],
            sizes[size],
            pattern,
            (skew if arrival_patterns.is_skewed(pattern, 2) else NO_SKEW).label,
        )
        for collective, size in calls
        for pattern in patterns
    ]


def fitting(cells: Sequence[Cell], turns: Iterable[Benchmark], seconds: float) -> list[Cell]:
    """As many cells as get the time that one needs. Those that earlier turns lack come first."""
    number_of_turns = Counter(cell for turn in turns for cell in {result.cell for result in turn.results})
    return sorted(cells, key=lambda cell: number_of_turns[cell])[: max(1, int(seconds / LEAST_S))]


class Budget:
    """The time that the whole script may take."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._begin, self.seconds = now, now(), seconds

    def until(self, part: float) -> float:
        """The seconds until this part of the time is over."""
        return max(self._begin + part * self.seconds - self._now(), 0.0)


@dataclass
class Measured:
    """What the turns have found."""

    turns: dict[Job, list[Benchmark]] = field(default_factory=lambda: defaultdict(list))
    machine_files: dict[str, str] = field(default_factory=dict)  # of each MPI
    failed: list[str] = field(default_factory=list)

    def times(self) -> list[Time]:
        return [
            time
            for (mpi, _), benchmarks in self.turns.items()
            for time in agreement.measured(benchmarks, mpi)
        ]

    def wrong_results(self) -> list[str]:
        return [
            f"{mpi}, {ranks} ranks: {line}"
            for (mpi, ranks), benchmarks in self.turns.items()
            for benchmark in benchmarks
            for line in benchmark.wrong_results()
        ]


class Session:
    """Runs the jobs in turns, so that a busy machine hits all of them alike."""

    def __init__(
        self, plan: Plan, installs: Sequence[MpiInstall], rank_counts: Sequence[int], budget: Budget
    ) -> None:
        self.found = Measured()
        self._plan, self._installs, self._budget = plan, installs, budget
        self._ranks = sorted(rank_counts, reverse=True)  # the most telling first

    def run(self, turns: int, folder: Path | None, after_turn: Callable[[], None] = lambda: None) -> None:
        """Measure until its part of the time is over. ``folder``: for machine files; None: write none."""
        jobs = list(itertools.product(self._ranks, self._installs))
        for later_turns in reversed(range(turns)):
            if folder is not None:
                self._calibrate(folder)
            kept_s = self._budget.until(MEASURING) * later_turns / (later_turns + 1)
            for number, (ranks, install) in enumerate(jobs):
                seconds = self._budget.until(MEASURING) - kept_s
                self._job(ranks, install, seconds / (len(jobs) - number))
            after_turn()

    def _calibrate(self, folder: Path) -> None:
        """Calibrate under each MPI that has no machine file, because it is the first turn, or it failed."""
        wanted = [install for install in self._installs if install.name not in self.found.machine_files]
        seconds = CALIBRATING * self._budget.until(MEASURING) / max(len(wanted), 1)
        for install in wanted:
            self._attempt(f"{install.name}, calibrate", self.calibrate, install, folder, seconds)

    def _job(self, ranks: int, install: MpiInstall, seconds: float) -> None:
        where = f"{install.name}, {ranks} ranks"
        if seconds < LEAST_JOB_S:
            self.found.failed.append(f"{where}: no time left in a turn")
            return
        cells = fitting(self._plan.cells, self.found.turns[install.name, ranks], seconds)
        plan = replace(self._plan, ranks=ranks, chosen_cells=cells, budget_s=seconds)
        print(f"{where}: {len(cells)} cells in {seconds:.0f} s", file=sys.stderr, flush=True)
        self._attempt(where, self.measure, plan, install)

    def _attempt(self, where: str, what: Callable[..., None], *arguments: object) -> None:
        """What fails costs its own results only."""
        try:
            what(*arguments)
        except TimeoutExpired:
            self.found.failed.append(f"{where}: it took too long")
        except CalledProcessError as error:
            self.found.failed.append(f"{where}: exit code {error.returncode}")
        except (CommandError, OSError) as error:
            self.found.failed.append(f"{where}: {error}")

    def calibrate(self, install: MpiInstall, folder: Path, seconds: float) -> None:
        """Write a machine file, or measure more for it. The time beyond the budget is for starts and fits."""
        file = folder / f"{install.name}.toml"
        arguments, variables = board.placed(install, self._ranks[0])
        first = ["-n", self._ranks[0], "--mpi", install.libmpi, "--algorithms", "none"]
        first += ["--name", "the machine of the check", "--mpirun-args", " ".join(arguments)]
        again = ["--resume"] if file.with_suffix(".json").exists() else first
        model_check.run(
            "calibrate", *again, "-o", file, "--budget", f"{seconds:.0f}s",
            variables=variables, within_s=2 * seconds,
        )  # fmt: skip
        self.found.machine_files[install.name] = file.read_text(encoding="utf-8")

    def measure(self, plan: Plan, install: MpiInstall) -> None:
        """Run one job. If it fails, the results so far count."""
        benchmark, choice = board.job(plan, board.Host(install.name, install, {}))
        self.found.turns[install.name, plan.ranks].append(benchmark)
        runner.run(benchmark, choice)


# -- what the output says


def not_measured(cells: Iterable[Cell], jobs: Iterable[Job], times: Iterable[Time]) -> list[str]:
    """A line for each job that lacks cells, which names the calls."""
    there = {time.cell for time in times}
    lines = []
    for mpi, ranks in jobs:
        sizes: dict[str, dict[str, None]] = {}
        for cell in cells:
            if (mpi, ranks, cell.collective, cell.size_bytes, cell.pattern) not in there:
                sizes.setdefault(cell.collective, {})[format_size(cell.size_bytes)] = None
        if sizes:
            calls = "; ".join(f"{name} {', '.join(each)}" for name, each in sizes.items())
            lines.append(f"{mpi}, {ranks} ranks: {calls}")
    return lines


def simulate(
    times: Sequence[Time], machine_of: Callable[[str], machine.Machine], is_time_left: Callable[[], bool]
) -> tuple[dict[Time, float], int]:
    """The simulated times, in the order of the cells, and how many times were left for want of time."""
    calls: dict[tuple[str, int], list[Time]] = defaultdict(list)
    for each in times:
        calls[each.collective, each.size_bytes].append(each)
    found: dict[Time, float] = {}
    left = 0
    for of_call in calls.values():
        for mpi, of_mpi in itertools.groupby(of_call, key=lambda each: each.mpi):
            several = list(of_mpi)
            if is_time_left():
                found |= agreement.simulated_us(machine_of(mpi), several)
            else:
                left += len(several)
    return found, left


def where(time: Time) -> str:
    return (
        f"{time.mpi}, {time.ranks} ranks, {time.collective}, {format_size(time.size_bytes)}, {time.pattern}"
    )


def show_model(simulated: dict[Time, float], most: int) -> None:
    """What the model gets wrong, the worst first."""
    model_check.show(simulated, ("algorithm", "collective", "size_bytes", "pattern", "ranks", "mpi"))
    pairs = agreement.wrong_pairs(simulated)
    print(f"\n{len(pairs)} pairs in the wrong order, in microseconds: measured (simulated)")
    for fast, slow in pairs[:most]:
        texts = [f"{each.algorithm} {each.us:.3g} ({simulated[each]:.3g})" for each in (fast, slow)]
        print(f"  {where(fast)}: {', '.join(texts)}")
    wrong = agreement.wrong_times(simulated)
    print(f"\n{len(wrong)} times differ by more than {agreement.ERROR:.0%}, in microseconds")
    for each in wrong[:most]:
        print(
            f"  {where(each)}, {each.algorithm}: measured {each.us:.3g}, simulated {simulated[each]:.3g} "
            f"({simulated[each] / each.us:.2f})"
        )


def show_native(times: Iterable[Time], most: int) -> None:
    """The default beside the native collective, and beside the best of offbeat's algorithms."""
    cells: dict[tuple[object, ...], dict[str, Time]] = defaultdict(dict)
    for each in times:
        cells[each.cell][each.algorithm] = each
    groups: dict[tuple[str, int, str], list[tuple[float, float]]] = defaultdict(list)
    slower, better = [], []
    for of_cell in cells.values():
        native, default = of_cell.pop(NATIVE, None), of_cell.get(BUILT_IN_CHOICE)
        if native is None or default is None:
            continue
        best = min(of_cell.values(), key=lambda each: each.us)
        gain, share = native.us / default.us, best.us / default.us
        groups[native.mpi, native.ranks, native.collective].append((gain, share))
        if gain < SLOWER:
            slower.append((gain, f"{where(default)}: {gain:.2f}"))
        if share < BETTER:
            better.append((share, f"{where(best)}: {best.algorithm}, {share:.2f}"))
    rows = [
        [
            mpi, str(ranks), collective, str(len(each)), f"{board.geometric_mean([g for g, _ in each]):.2f}",
            f"{min(each)[0]:.2f}", f"{board.geometric_mean([s for _, s in each]):.2f}",
        ]
        for (mpi, ranks, collective), each in groups.items()
    ]  # fmt: skip
    print(table(["MPI", "ranks", "collective", "cells", "native/default", "least", "best/default"], rows))
    for what, found in (("the MPI is faster than the default", slower), ("another algorithm is", better)):
        print(f"\n{len(found)} cells in which {what}: its time by that of the default")
        for _, line in sorted(found)[:most]:
            print(f"  {line}")


# -- the command line


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="time for everything; default: %(default)g"
    )
    parser.add_argument("--ranks", default="4,8,16", help="those that have a core each; default: %(default)s")
    parser.add_argument("--collectives", type=parse_collectives, default=COLLECTIVES)
    parser.add_argument("--sizes", type=parse_sizes, default=SIZES)
    parser.add_argument("--patterns", type=arrival_patterns.parse_names, default=PATTERNS)
    parser.add_argument("--skew", type=parse_skew, default="1", help="as of offbeat bench; default: 1")
    parser.add_argument("--algorithms", help="instead of the default, all on the board, and messages")
    parser.add_argument("--turns", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--mpi", default=",".join(map(str, board.PREFIXES)), help="MPIs: prefixes or names, with commas"
    )
    parser.add_argument("--libraries", type=Path, help="take the compiled files from this build folder")
    parser.add_argument("--machine", help="compare with this machine, and do not calibrate")
    parser.add_argument("--most", type=int, default=20, help="lines of each list; default: %(default)s")
    parser.add_argument("--again", type=Path, help="compare the times of this file, and measure nothing")
    result_file.add_option(parser)
    return parser.parse_args(words)


def read_machine(name: str | None, files: Mapping[str, str], mpi: str) -> machine.Machine:
    """The machine with this name, or the one of the MPI; of another MPI if this one's was not measured."""
    if name is not None:
        return machine.read(name)
    if not files:
        raise CommandError("no machine file was written; compare with --again FILE --machine NAME")
    return machine.parse(files.get(mpi) or next(iter(files.values())), f"the machine file of {mpi}")


def measure(options: argparse.Namespace, budget: Budget) -> tuple[Measured, list[str]]:
    """What was measured, and what was not. Writes the result file after each turn."""
    results = result_file.ResultFile(options.json)
    if options.libraries is not None:
        libraries.prefer_folder(options.libraries)
    installs = [discovery.select(mpi, {}) for mpi in options.mpi.split(",")]
    wanted = [int(word) for word in options.ranks.split(",")]
    pinned = [ranks for ranks in wanted if 2 <= ranks <= this_machine.cores()]
    if not pinned:
        cores = this_machine.cores()
        raise CommandError(f"--ranks {options.ranks}: this machine has {cores} cores, one for each rank")
    usual = usual_algorithms(options.collectives)
    plan = Plan(
        pinned[0],
        options.sizes,
        parse_algorithms(options.algorithms or ",".join(usual), options.collectives),
        options.patterns,
        [options.skew],
        options.collectives,
        same_buffers=True,
        chosen_cells=ordered_cells(options.collectives, options.sizes, options.patterns, options.skew),
    )
    session = Session(plan, installs, pinned, budget)
    left_out = [ranks for ranks in wanted if ranks not in pinned]
    session.found.failed += [f"{ranks} ranks: they need that many cores" for ranks in left_out]
    jobs = [(install.name, ranks) for install in installs for ranks in pinned]
    mpis = [result_file.mpi(install.name, install.prefix) for install in installs]

    def missing() -> list[str]:
        return not_measured(plan.cells, jobs, session.found.times())

    def write() -> None:
        found = session.found
        results.write(
            map(asdict, found.times()), mpis, minutes=options.minutes, machine_files=found.machine_files,
            not_measured=missing(), failed=found.failed, wrong=found.wrong_results(),
        )  # fmt: skip

    with tempfile.TemporaryDirectory(prefix="offbeat-many-cores-") as folder:
        try:
            session.run(options.turns, None if options.machine else Path(folder), write)
        finally:
            write()
    return session.found, missing()


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    budget = Budget(60 * options.minutes)
    wrong: list[str] = []
    if options.again:
        document = result_file.read(options.again)
        files = document["machine_files"]
        times = [Time.from_json(cell) for cell in document["cells"]]
    else:
        found, missing = measure(options, budget)
        times, files, wrong = found.times(), found.machine_files, found.wrong_results()
        for heading, lines in (("not measured", missing), ("failed", found.failed), ("WRONG", wrong)):
            for line in lines:
                print(f"{heading}: {line}")
    show_native(times, options.most)
    print()
    simulated, left = simulate(
        times,
        lambda mpi: read_machine(options.machine, files, mpi),
        lambda: bool(options.again) or budget.until(1) > 0,
    )
    show_model(simulated, options.most)
    if left:
        print(f"not simulated: {left} times; compare them with --again")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except CommandError as error:
        sys.exit(f"many_cores.py: {error}")
