#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The training of papers 0, 1 and 2 on synthetic data: images/s, and communication that is not hidden.

    build/venv/bin/python benchmarks/training/paper_training.py --torch PYTHON --horovod PYTHON --json

One PYTHON has torch and offbeat: no communication, gloo and offbeat take turns in one job. The other has
Horovod and TensorFlow: no communication, Open MPI's default, Open MPI that yields, and offbeat take turns, a
job each. The share that is not hidden is 1 - t(none) / t, the median over the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tools")]

import chart  # noqa: E402
import result_file  # noqa: E402
from markdown_table import table  # noqa: E402

JOB_LIMIT_S = 900
MIB = 1 << 20

# Name, edge of the images, images of a rank in a step.
MODELS = "cnn:32:16,resnet110:32:16,resnet50:32:8,densenet201:32:8,vgg11:32:8,alexnet:64:8,alexnet:64:32"
HOROVOD_MODELS = "cnn:32:16"
YIELD = ["--mca", "mpi_yield_when_idle", "1"]
HOROVOD_WAYS = ("none", "Open MPI", "Open MPI, yielding", "offbeat")


@dataclass(frozen=True)
class Model:
    name: str
    image: int
    batch: int

    @property
    def options(self) -> list[str]:
        return ["--model", self.name, "--image", str(self.image), "--batch", str(self.batch)]


def models(text: str) -> list[Model]:
    found = []
    for each in filter(None, text.split(",")):
        name, image, batch = each.split(":")
        found.append(Model(name, int(image), int(batch)))
    return found


def run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=JOB_LIMIT_S, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\nended with exit code {done.returncode}\n{done.stdout}{done.stderr}")


class Study:
    """Starts the jobs."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._arguments = arguments
        self._output = folder / "job.json"
        self._environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.late_ms, self.late_rank = 0.0, "last"

    @property
    def _late(self) -> list[str]:
        options = ["--late-ms", str(self.late_ms), "--late-by", self._arguments.late_by]
        return [*options, "--late-rank", self.late_rank]

    def job(self, command: Sequence[str], environment: Mapping[str, str]) -> Any:
        self._output.unlink(missing_ok=True)
        run([*command, "--output", str(self._output)], environment)
        return json.loads(self._output.read_text())

    def ddp(self, model: Model, *, bound: bool) -> Any:
        a = self._arguments
        command = [a.torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(a.ranks)]
        command += [str(HERE / "ddp_steps.py"), *model.options, *self._late, "--backends", a.backends]
        command += ["--rounds", str(a.rounds), "--seconds", str(a.seconds), *(["--bind"] if bound else [])]
        return self.job(command, self._environment)

    def horovod_turn(self, way: str, model: Model, *, bound: bool) -> Any:
        a = self._arguments
        options = [*shlex.split(a.mpirun_args), "--bind-to", "core" if bound else "none"]
        if way != "Open MPI" and way != "offbeat":
            options += YIELD
        environment = {name: value for name, value in self._environment.items() if name != "PYTHONPATH"}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if way == "offbeat":  # the command finds its package; Horovod's Python needs none
            environment = {**environment, "PYTHONPATH": self._environment.get("PYTHONPATH", "")}
            start = [sys.executable, "-m", "offbeat", "run", "-n", str(a.ranks)]
            start += ["--mpirun-args", shlex.join(options), "--"]
        else:
            start = [a.mpirun, "-np", str(a.ranks), *options]
        command = [*start, a.horovod, str(HERE / "horovod_steps.py"), *model.options, *self._late]
        command += ["--seconds", str(a.seconds), *(["--no-reduce"] if way == "none" else [])]
        return self.job(command, environment)

    def version_of_mpi(self) -> str:
        said = subprocess.run(
            [self._arguments.mpirun, "--version"], capture_output=True, text=True, check=True
        )
        return said.stdout.partition("\n")[0].rpartition(" ")[2]

    def horovod(self, model: Model, *, bound: bool) -> Any:
        a = self._arguments
        load = os.getloadavg()[0]
        turns: dict[str, list[Any]] = {way: [] for way in HOROVOD_WAYS}
        for number in range(a.horovod_rounds):
            first = number % len(HOROVOD_WAYS)
            for way in HOROVOD_WAYS[first:] + HOROVOD_WAYS[:first]:
                turns[way].append(self.horovod_turn(way, model, bound=bound))
        return {
            "program": "Horovod",
            "software": {**turns["none"][0]["software"], "Open MPI": self.version_of_mpi()},
            "model": model.name,
            "image": model.image,
            "batch": model.batch,
            "parameters": turns["none"][0]["parameters"],
            "ranks": a.ranks,
            "bound": bound,
            "late_ms": self.late_ms,
            "late_by": a.late_by,
            "late_rank": self.late_rank,
            "steps": turns["none"][0]["steps"],
            "load": [load, os.getloadavg()[0]],
            "ways": {
                way: {
                    "images_per_s": [a.ranks * model.batch / each["wall_s"] for each in found],
                    "cpu_ms": [1e3 * each["cpu_s"] for each in found],
                }
                for way, found in turns.items()
            },
        }

    def jobs(self) -> Iterator[Any]:
        a = self._arguments
        cases = [(float(ms), rank) for ms in a.late_ms.split(",") for rank in a.late_rank.split(",")]
        for bound, (self.late_ms, self.late_rank) in itertools.product(
            [each == "bound" for each in a.binding.split(",")],
            dict.fromkeys((ms, rank if ms else "last") for ms, rank in cases),
        ):
            for model in models(a.models) if a.torch else []:
                yield self.ddp(model, bound=bound)
            for model in models(a.horovod_models) if a.horovod else []:
                yield self.horovod(model, bound=bound)


# -- what is shown


def not_hidden(job: Any, way: str) -> float:
    """1 - t(none) / t, the median over the rounds."""
    pairs = zip(job["ways"]["none"]["images_per_s"], job["ways"][way]["images_per_s"], strict=True)
    return float(statistics.median(1 - rate / free for free, rate in pairs))


def gain(job: Any, way: str, over: str) -> float:
    """How many times the images/s of another way, the median over the rounds."""
    pairs = zip(job["ways"][way]["images_per_s"], job["ways"][over]["images_per_s"], strict=True)
    return float(statistics.median(ours / theirs for ours, theirs in pairs))


def digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def name_of(job: Any) -> str:
    return f"{job['model']} {job['image']}, batch {job['batch']}"


def title_of(job: Any) -> str:
    title = f"{job['program']}, {job['ranks']} ranks, {'bound' if job['bound'] else 'unbound'}"
    if job["late_ms"]:
        late = "a random rank" if job.get("late_rank") == "random" else f"rank {job['ranks'] - 1}"
        title += f", {late} late by {job['late_ms']:g} ms ({job['late_by']})"
    return title


def by_title(jobs: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for job in jobs:
        found.setdefault(title_of(job), []).append(job)
    return found


def others(way: str, job: Any) -> list[str]:
    """The ways that a way of offbeat must not be slower than."""
    if job["program"] == "Horovod":
        return ["Open MPI", "Open MPI, yielding"]
    return [way.replace("offbeat", "gloo")]


HEADINGS = ("model", "gradients, MiB", "way", "images/s", "least", "most", "not hidden", "CPU, ms a step")


def rows_of(jobs: Sequence[Any]) -> list[list[str]]:
    """A line for each way of each job."""
    rows = []
    for job in jobs:
        cells = [name_of(job), digits(4 * job["parameters"] / MIB)]
        for way, each in job["ways"].items():
            rates = each["images_per_s"]
            numbers = [digits(value) for value in (statistics.median(rates), min(rates), max(rates))]
            hidden = "" if way == "none" else f"{not_hidden(job, way):.0%}"
            rows.append([*cells, way, *numbers, hidden, digits(statistics.median(each["cpu_ms"]))])
            cells = ["", ""]
    return rows


def comparisons(jobs: Sequence[Any]) -> list[str]:
    """Sentences about offbeat and each way that it must not be slower than."""
    found = []
    for way in [way for way in jobs[0]["ways"] if way.startswith("offbeat")]:
        for over in [over for over in others(way, jobs[0]) if over in jobs[0]["ways"]]:
            gains = {name_of(job): gain(job, way, over) for job in jobs}
            mean = statistics.geometric_mean(gains.values())
            slower = [f"{name} ({each:.2f})" for name, each in gains.items() if each < 1]
            found.append(
                f"{way} over {over}: {mean:.2f} times the images/s (geometric mean). "
                + (f"Slower: {'; '.join(slower)}." if slower else "Nowhere slower.")
            )
    return found


def print_tables(jobs: Sequence[Any]) -> None:
    for title, group in by_title(jobs).items():
        print(f"\n{title}\n\n{table(HEADINGS, rows_of(group))}\n")
        print("\n".join(comparisons(group)))
    if late := hidden_lateness(jobs):
        print(f"\n{table(('', 'model', 'way', 'a step takes longer by, ms', 'lateness hidden'), late)}")


def ms_of_step(job: Any, way: str) -> float:
    return float(1e3 * job["ranks"] * job["batch"] / statistics.median(job["ways"][way]["images_per_s"]))


def spread_ms(job: Any, way: str) -> float:
    """By how much the steps of different rounds differ."""
    rates = job["ways"][way]["images_per_s"]
    return float(1e3 * job["ranks"] * job["batch"] * (1 / min(rates) - 1 / max(rates)))


def hidden_lateness(jobs: Sequence[Any]) -> list[list[str]]:
    """A line for each way of each job with a late rank: how much later a step ends, and what that hides.

    A `?` says that rounds differ by more than the lateness.
    """

    def same(job: Any) -> tuple[Any, ...]:
        return job["program"], job["model"], job["image"], job["batch"], job["bound"]

    on_time = {same(job): job for job in jobs if not job["late_ms"]}
    rows = []
    for job in jobs:
        before = on_time.get(same(job)) if job["late_ms"] else None
        for way in job["ways"] if before else ():
            longer = ms_of_step(job, way) - ms_of_step(before, way)
            noise = max(spread_ms(job, way), spread_ms(before, way))
            hidden = f"{1 - longer / job['late_ms']:.0%}" if noise < job["late_ms"] else "?"
            rows.append([title_of(job), name_of(job), way, f"{longer:.1f}", hidden])
    return rows


def figure_of(jobs: Sequence[Any]) -> str:
    panels: dict[str, dict[str, dict[str, chart.Bar]]] = {}
    for title, group in by_title(jobs).items():
        groups = panels.setdefault(title, {})
        for job in group:
            free = job["ways"]["none"]["images_per_s"]
            shares = {
                way: [rate / base for base, rate in zip(free, each["images_per_s"], strict=True)]
                for way, each in job["ways"].items()
                if way != "none"
            }
            groups[f"{job['model']} b{job['batch']}"] = {
                way: chart.Bar(statistics.median(each), min(each), max(each)) for way, each in shares.items()
            }
    return chart.bars_under(panels, "images/s, relative to none")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--torch", metavar="PYTHON", help="an interpreter with torch and offbeat")
    add("--horovod", metavar="PYTHON", help="an interpreter with Horovod and TensorFlow")
    add("--models", default=MODELS, help="name:image:batch, ... for torch. Default: %(default)s")
    add("--horovod-models", default=HOROVOD_MODELS, help="for Horovod. Default: %(default)s")
    add("--backends", default="gloo,offbeat", help="of torch. Default: %(default)s")
    add("--binding", default="unbound", help="unbound, bound, or both. Default: %(default)s")
    add("--ranks", type=int, default=2, help="default: %(default)s")
    add("--rounds", type=int, default=5, help="turns of each way with torch. Default: %(default)s")
    add("--horovod-rounds", type=int, default=3, help="turns of each way. Default: %(default)s")
    add("--seconds", type=float, default=0.5, help="how long a turn of `none` lasts. Default: %(default)s")
    add("--late-ms", default="0", help="a rank is late by this before each step: 0,10,30. Default: 0")
    add("--late-rank", default="last", help="last, random, or both: which rank that is. Default: last")
    add("--late-by", choices=["sleep", "busy"], default="sleep", help="default: %(default)s")
    add("--mpirun", default="mpirun", help="of the Open MPI that Horovod uses. Default: %(default)s")
    add("--mpirun-args", default="", help="more arguments for it")
    result_file.add_option(parser)
    add("--figure", type=Path, metavar="FILE.svg", help="draw them")
    add("--from", dest="source", type=Path, metavar="FILE", help="run nothing: show what this file has")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    jobs: list[Any] = []
    if arguments.source:
        jobs = result_file.read(arguments.source)["cells"]
    elif not (arguments.torch or arguments.horovod):
        sys.exit("paper_training.py: give --torch PYTHON, --horovod PYTHON, or --from FILE")
    else:
        results = result_file.ResultFile(arguments.json)
        with tempfile.TemporaryDirectory() as folder:
            for job in Study(arguments, Path(folder)).jobs():
                jobs.append(job)
                line = f"{title_of(job)}: {name_of(job)}, load {job['load'][1]:.1f}"
                print(line, file=sys.stderr, flush=True)
                results.write_part(jobs)
        results.write(jobs)
    print_tables(jobs)
    if arguments.figure:
        arguments.figure.write_text(figure_of(jobs))


if __name__ == "__main__":
    main()
