# SPDX-License-Identifier: BSD-3-Clause
"""offbeat simulate: run collectives in virtual time, on machines that you do not have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from rich.console import Console

from offbeat import __version__, _core
from offbeat.bench import arrival_patterns
from offbeat.bench import plan as plans
from offbeat.commands.command_line import Command, Option
from offbeat.commands.options import parse_range
from offbeat.commands.output import checked_drawing, checked_output, new_console, warn, write_text
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import CommandError
from offbeat.expressions import canonical, split_list
from offbeat.reports import simulation_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.simulate import machine as machines
from offbeat.simulate import simulation
from offbeat.simulate.simulation import Plan, Shape, Simulation
from offbeat.units import format_count, parse_skew

_DEFAULT_ALGORITHMS = "recursive_doubling,smp,nap,rabenseifner"


def simulate(
    machine: Annotated[
        str,
        Option(metavar="NAME|FILE", help=f"The machine: {', '.join(machines.names())}, or a file."),
    ] = "cluster",
    nodes: Annotated[
        str, Option(metavar="N,...|N..M", help="Numbers of nodes. N..M doubles from N up to M.")
    ] = "8",
    ppn: Annotated[int, Option(metavar="N", help="Ranks on each node.")] = 16,
    collective: Annotated[
        str, Option(metavar="NAME", help=f"One of {', '.join(plans.COLLECTIVES)}.")
    ] = plans.DEFAULT_COLLECTIVE,
    sizes: Annotated[
        str, Option(metavar="4,1KiB|4..1MiB", help="Sizes in bytes, as in offbeat bench.")
    ] = "8..128KiB",
    algorithms: Annotated[
        str,
        Option(
            metavar="EXPR,...",
            help=f"Expressions to compare. Default for allreduce: {_DEFAULT_ALGORITHMS}. "
            "Default for the others: all algorithms that take no arguments and need no shared memory.",
        ),
    ] = "",
    patterns: Annotated[
        str,
        Option(metavar="NAME,...", help="Arrival patterns, as offbeat pattern lists them."),
    ] = "balanced",
    skew: Annotated[
        str,
        Option(
            metavar="FACTOR|TIME,...",
            help="Lateness of the latest rank: a multiple of the mean time of all expressions if no rank is "
            "late, or a time like 100us.",
        ),
    ] = "1.0",
    draws: Annotated[
        int, Option(metavar="N", help="Calls to simulate under a pattern that is drawn anew each time.")
    ] = 5,
    seed: Annotated[int, Option(metavar="N", help="Seed of the random patterns.")] = 1,
    json_file: Annotated[
        Path | None,
        Option("--json", metavar="FILE", help="Write all results to FILE as JSON; - prints them."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="PAGE.html", help="Write one HTML page of tables and figures."),
    ] = None,
    figures: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write each figure as SVG and PNG. Needs Chromium.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite files.")] = False,
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
    found = _run(plan)
    console = new_console(quiet=to_stdout)
    if to_stdout:
        print(found.to_json())
    facts = plan.machine.facts()
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(f"{name:<{width}}  {value}", soft_wrap=True)
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
        warn(line)


def _run(plan: Plan) -> Simulation:
    """Run a plan and show what is being simulated."""
    total = format_count(simulation.number_of_results(plan), "result")
    minutes = round(simulation.least_seconds(plan) / 60)
    if minutes > 0:
        ranks = format_count(max(shape.ranks for shape in plan.shapes), "rank")
        warn(f"{total} for up to {ranks} take at least {format_count(minutes, 'minute')}")
    line = ProgressLine(on_terminal_every_s=0.2, patient=True)

    def on_progress(what: str, done: int, events: int) -> None:
        millions = f", {events / 1e6:.0f} million events" if events else ""
        line.show(f"{done} of {total}: {what}{millions}")

    try:
        return simulation.run_plan(plan, on_progress)
    finally:
        line.clear()


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
        console.print(f"Wrote {output}", soft_wrap=True)
    if folder is not None:
        written = images.write(drawn, folder)
        console.print(f"Wrote {format_count(len(written), 'file')} to {folder}", soft_wrap=True)


# -- the options as values


def _shapes(nodes: str, ppn: int) -> list[Shape]:
    if ppn < 1:
        raise CommandError(f"--ppn {ppn}: a node has at least one rank")
    shapes = [Shape(number, ppn) for part in nodes.split(",") for number in _doubled(part, nodes)]
    for shape in shapes:
        checked_shape(shape)
    return list(dict.fromkeys(shapes))


def checked_shape(shape: Shape) -> None:
    """Refuse a shape with more ranks than a simulation may have."""
    if shape.ranks > plans.MOST_RANKS:
        raise CommandError(f"{shape} are {shape.ranks:,} ranks; at most {plans.MOST_RANKS:,} are possible")


def _doubled(text: str, whole: str) -> list[int]:
    """The numbers that ``4`` or ``1..64`` means: from the first on by doubling, and the last."""
    first, last = parse_range(text)
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


COMMAND = Command(simulate)
