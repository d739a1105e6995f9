# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune --simulate: rules for a machine that is described by a file, from models and simulation."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from offbeat.bench import arrival_patterns
from offbeat.bench.ranking import BALANCED
from offbeat.commands.options import checked_output, write_text
from offbeat.commands.progress_line import ProgressLine
from offbeat.commands.simulate import warn_of_copies
from offbeat.errors import FAILED, CommandError
from offbeat.reports import tune_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import rule_files, spelling
from offbeat.simulate import hosts, simulation
from offbeat.simulate import machine as machines
from offbeat.tune import by_simulation
from offbeat.tune.by_simulation import Answer, Question, SimulatedRow, Terms
from offbeat.units import format_duration, parse_skew

# The options of offbeat tune that go with --simulate.
OPTIONS = {
    "collectives", "sizes", "mpi", "rules", "force", "patterns", "skew", "algorithms", "seed", "simulated",
    "nodes", "ppn", "objective",
}  # fmt: skip
_PLAIN_WIDTH = 140


def run(
    machine_names: str,
    collectives: Sequence[str],
    sizes_bytes: Sequence[int],
    nodes: str,
    ppn: str,
    *,
    host: str | None,
    patterns: Sequence[str],
    skew: str,
    algorithms: Sequence[str] | None,
    seed: int,
    rules_file: Path | None,
    force: bool,
) -> None:
    """Answer one question for each collective, size and number of nodes and ranks; print or write rules."""
    checked_output(rules_file, force=force)
    for collective in collectives:
        if collective not in hosts.collectives():
            known = ", ".join(hosts.collectives())
            raise CommandError(f"--simulate: what MPIs do is known for {known} only, not for {collective}")
    lateness = parse_skew(skew)
    if lateness.factor is None:
        raise CommandError(f"--skew {skew}: with --simulate it is one factor, such as 1.0")
    terms = Terms(
        machines=[machines.read(name) for name in machine_names.split(",")],
        hosts=[hosts.check(host)] if host is not None else list(hosts.NAMES),
        patterns=[BALANCED, *(name for name in patterns if name != BALANCED)],
        skew=lateness.factor,
        seed=seed,
        algorithms=algorithms,
    )
    for name in terms.patterns:
        if not re.fullmatch(r"[a-z_]+", name):
            raise CommandError(f"--patterns {name}: --simulate takes {', '.join(arrival_patterns.PATTERNS)}")
    groups = _node_groups(nodes)
    questions = [
        Question(collective, size, group, ranks_per_node, points)
        for collective in collectives
        for ranks_per_node in _numbers("--ppn", ppn)
        for group, points in groups
        for size in sizes_bytes
    ]
    for question in questions:
        for shape in question.shapes():
            if shape.ranks > simulation.MOST_RANKS:
                raise CommandError(f"{shape} are {shape.ranks:,} ranks; at most {simulation.MOST_RANKS:,}")
    for machine in terms.machines:
        warn_of_copies(machine, ((s.nodes, s.ranks_per_node) for each in questions for s in each.shapes()))
    began = time.monotonic()
    line = ProgressLine(on_terminal_every_s=0.2)
    try:
        answers = by_simulation.answers(
            terms,
            questions,
            lambda answer, done: line.show(f"{done} of {len(questions)} questions: {answer.question}"),
        )
    except MemoryError:
        raise CommandError("these simulations need more memory than there is", FAILED) from None
    finally:
        line.clear()
    rows = by_simulation.rules(terms, answers)
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
    _show(console, terms, rows, answers, time.monotonic() - began)
    _write(console, terms, rows, rules_file)


def _node_groups(text: str) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """The ranges of nodes that get rules: A..B in parts, and each single number by itself."""
    found: list[tuple[tuple[int, int], tuple[int, ...]]] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\.\.(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 < first <= last:
            raise CommandError(
                f"--nodes {text}: write numbers from 2 such as 16,64 or a range such as 9..4096"
            )
        found += (
            by_simulation.node_groups(first, last) if match and match[2] else [((first, first), (first,))]
        )
    return found


def _numbers(option: str, text: str) -> list[int]:
    found = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) < 1:
            raise CommandError(f"{option} {text}: write numbers such as 1,16")
        found.append(int(part))
    return list(dict.fromkeys(found))


def _show(
    console: Console, terms: Terms, rows: Sequence[SimulatedRow], answers: Sequence[Answer], seconds: float
) -> None:
    for machine in terms.machines:
        for name, value in machine.facts()[:4]:
            console.print(f"{name:<15}{value}", soft_wrap=True)
        console.print()
    console.print(f"Objective: robust ({', '.join(terms.patterns)})", soft_wrap=True)
    console.print()
    for sheet in tune_sheets.simulated(rows, terms.hosts):
        console.print(to_terminal(sheet))
    console.print(tune_sheets.SIMULATED_NOTE, soft_wrap=True)
    simulations = sum(each.simulations for each in answers)
    console.print(
        f"{simulations} simulations in {format_duration(seconds)}: {len(answers)} questions on "
        f"{len(terms.machines)} machine{'s' if len(terms.machines) > 1 else ''}",
        soft_wrap=True,
    )


def _write(console: Console, terms: Terms, rows: Sequence[SimulatedRow], rules_file: Path | None) -> None:
    date = datetime.now(timezone.utc).date().isoformat()
    names = ", ".join(machine.name for machine in terms.machines)
    lines = spelling.rule_lines(
        [row.fields() for row in rows],
        [row.reason([row.host] if row.host != "*" else terms.hosts) for row in rows],
    )
    text = f"# Rules of offbeat tune --simulate, {date}, for {names}\n" + "\n".join(lines) + "\n"
    if rules_file is None:
        print(text, end="")
        return
    write_text(rules_file, text)
    rule_files.without_errors(str(rules_file))
    console.print(f"Rules: {rules_file}; to use them: OFFBEAT_RULES={rules_file}", soft_wrap=True)
