# SPDX-License-Identifier: BSD-3-Clause
"""offbeat simulate: run collectives in virtual time, on machines that you do not have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from offbeat import __version__, _core
from offbeat.bench import arrival_patterns
from offbeat.bench import plan as plans
from offbeat.commands.options import checked_drawing, checked_output, write_text
from offbeat.errors import CommandError, printable
from offbeat.expressions import canonical, split_list
from offbeat.reports import simulation_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.simulate import machine as machines
from offbeat.simulate import simulation
from offbeat.simulate.simulation import OnProgress, Plan, Shape, Simulation
from offbeat.units import parse_skew

_PLAIN_WIDTH = 140  # columns of output that goes to a file or a pipe
_DEFAULT_ALGORITHMS = "recursive_doubling,smp,nap,rabenseifner"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(simulate)


def simulate(
    machine: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help=f"The machine: {', '.join(machines.names())}, or a file."),
    ] = "cluster",
    nodes: Annotated[
        str, typer.Option(metavar="N,...|N..M", help="Numbers of nodes. N..M doubles from N up to M.")
    ] = "8",
    ppn: Annotated[int, typer.Option(metavar="N", help="Ranks on each node.")] = 16,
    collective: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(plans.COLLECTIVES)}.")
    ] = plans.DEFAULT_COLLECTIVE,
    sizes: Annotated[
        str, typer.Option(metavar="4,1KiB|4..1MiB", help="Sizes in bytes, as in offbeat bench.")
    ] = "8..128KiB",
    algorithms: Annotated[
        str,
        typer.Option(
            metavar="EXPR,...",
            help=f"Expressions to compare. Default for allreduce: {_DEFAULT_ALGORITHMS}. "
            "Default for the others: all algorithms that take no arguments and need no shared memory.",
        ),
    ] = "",
    patterns: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Arrival patterns, as offbeat pattern lists them."),
    ] = "balanced",
    skew: Annotated[
        str,
        typer.Option(
            metavar="FACTOR|TIME,...",
            help="Lateness of the latest rank: a multiple of the mean time of all expressions if no rank is "
            "late, or a time like 100us.",
        ),
    ] = "1.0",
    draws: Annotated[
        int, typer.Option(metavar="N", help="Calls to simulate under a pattern that is drawn anew each time.")
    ] = 5,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random patterns.")] = 1,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all results to FILE as JSON; - prints them."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="PAGE.html", help="Write one HTML page of tables and figures."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write each figure as SVG and PNG. Needs Chromium.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
) -> None:
    """Say how long collectives take on a machine of any size.

    It also shows which ranks wait for which. A machine is a text file of latencies and bandwidths. The ranks
    run the same code as in a program, but in virtual time, so equal input gives equal times, to the last
    digit.

    offbeat simulate --machine blue_waters --nodes 2048 --ppn 16 --sizes 8..4KiB
    offbeat simulate --machine my.toml --nodes 1..64 --sizes 8 --patterns balanced,random -o page.html
    """
    if collective not in plans.COLLECTIVES:
        raise CommandError(f"--collective {collective}: offbeat serves {', '.join(plans.COLLECTIVES)}")
    if not 1 <= draws <= arrival_patterns.DRAWN_ROUNDS:
        raise CommandError(f"--draws {draws}: it must be from 1 to {arrival_patterns.DRAWN_ROUNDS:,}")
    plan = Plan(
        machine=machines.read(machine),
        shapes=_shapes(nodes, ppn),
        collective=collective,
        sizes_bytes=plans.parse_sizes(sizes) if collective != "barrier" else [0],
        algorithms=_algorithms(algorithms, collective),
        patterns=arrival_patterns.parse_names(patterns),
        skews=list(dict.fromkeys(parse_skew(text) for text in skew.split(","))),
        draws=draws,
        seed=seed,
    )
    to_stdout = json_file is not None and str(json_file) == "-"
    for path in (None if to_stdout else json_file, output):
        checked_output(path, force=force)
    checked_drawing(output, figures)
    warn_of_copies(plan.machine, [(shape.nodes, shape.ranks_per_node) for shape in plan.shapes])
    with _progress(simulation.number_of_results(plan)) as on_progress:
        found = simulation.run(plan, on_progress)
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, quiet=to_stdout)
    if to_stdout:
        print(found.to_json())
    for name, value in plan.machine.facts():
        console.print(f"{name:<15}{value}", soft_wrap=True)
    console.print()
    for sheet in simulation_sheets.sheets(found):
        console.print(to_terminal(sheet), "")
    if json_file is not None and not to_stdout:
        write_text(json_file, found.to_json())
    if output is not None or figures is not None:
        _draw(found, output, figures, console)


def warn_of_copies(machine: machines.Machine, shapes: Iterable[tuple[int, int]]) -> None:
    """Warn if ranks of a shape send messages that the calibration of the machine did not measure."""
    for line in dict.fromkeys(filter(None, (machine.warning(*shape) for shape in shapes))):
        print(f"offbeat: {printable(line)}", file=sys.stderr)


def _draw(found: Simulation, output: Path | None, folder: Path | None, console: Console) -> None:
    # Imported here because Plotly and NumPy are slow to load and may not be installed.
    from offbeat.reports import images, page
    from offbeat.reports.figures import figures_of_simulation

    drawn = figures_of_simulation(found)
    if output is not None:
        sections = page.simulation_sections(
            found.plan.machine.facts(), drawn, simulation_sheets.sheets(found)
        )
        write_text(output, page.render(f"offbeat simulate: {found.plan.collective}", __version__, sections))
        console.print(f"wrote {output}", soft_wrap=True)
    if folder is not None:
        written = images.write(drawn, folder)
        console.print(f"wrote {len(written)} files to {folder}", soft_wrap=True)


@contextmanager
def _progress(total: int) -> Iterator[OnProgress]:
    """Show on a terminal what is being simulated and how many results are done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=total)

        def on_progress(what: str, done: int, events: int) -> None:
            millions = f", {events / 1e6:.0f} million events" if events else ""
            progress.update(task, completed=done, description=what + millions)

        yield on_progress


# -- the options as values


def _shapes(nodes: str, ppn: int) -> list[Shape]:
    if ppn < 1:
        raise CommandError(f"--ppn {ppn}: a node has at least one rank")
    shapes = [Shape(number, ppn) for part in nodes.split(",") for number in _numbers(part.strip(), nodes)]
    for shape in shapes:
        if shape.ranks > simulation.MOST_RANKS:
            raise CommandError(f"{shape} are {shape.ranks:,} ranks; at most {simulation.MOST_RANKS:,}")
    return list(dict.fromkeys(shapes))


def _numbers(text: str, whole: str) -> list[int]:
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < first <= last:
        raise CommandError(f"--nodes {whole}: write numbers such as 4,16 or a range such as 1..64")
    numbers = []
    while first < last:
        numbers.append(first)
        first *= 2
    return [*numbers, last]


def _algorithms(text: str, collective: str) -> list[str]:
    if not text and collective == plans.DEFAULT_COLLECTIVE:
        text = _DEFAULT_ALGORITHMS
    if text:
        return list(dict.fromkeys(canonical(each, collective) for each in split_list(text)))
    return [
        each["name"]
        for each in _core.algorithms()
        if each["collective"] == collective
        and each["name"] != "native"
        and not each["parameters"]
        and not each["needs"]
    ]
