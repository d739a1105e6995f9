# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune --simulate: rules for a machine that is described by a file, from models and simulation."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from offbeat.bench import arrival_patterns
from offbeat.bench.ranking import BALANCED
from offbeat.commands.options import parse_numbers, parse_range
from offbeat.commands.output import checked_output, new_console, today, warn, write_text
from offbeat.commands.progress_line import ProgressLine
from offbeat.commands.simulate import checked_shape, warn_of_copies
from offbeat.errors import FAILED, CommandError
from offbeat.machine import Fingerprint
from offbeat.mpi.install import rule_host
from offbeat.reports import tune_sheets
from offbeat.reports.sheet import to_terminal
from offbeat.rules import spelling, stored
from offbeat.simulate import hosts
from offbeat.simulate import machine as machines
from offbeat.tune import by_simulation, simulated_rules
from offbeat.tune.by_simulation import Answer, Question, Terms
from offbeat.tune.simulated_rules import SimulatedRow
from offbeat.units import format_count, parse_skew

# The options of offbeat tune that go with --simulate.
OPTIONS = {
    "collectives", "sizes", "mpi", "rules", "force", "patterns", "skew", "algorithms", "seed", "simulated",
    "nodes", "ppn", "objective", "budget", "store",
}  # fmt: skip


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
    budget_s: float | None,
    store: bool | None,
) -> None:
    """Answer one question for each collective, size and shape; print, write or store rules.

    ``budget_s`` is None for no limit. ``store`` is None for a user who did not say: then rules are stored if
    they can be.
    """
    checked_output(rules_file, force=force)
    for collective in collectives:
        if collective not in hosts.collectives():
            known = ", ".join(hosts.collectives())
            raise CommandError(f"--simulate: what MPIs do is known for {known} only, not for {collective}")
    known_machines = [machines.read(name) for name in dict.fromkeys(machine_names.split(","))]
    calibrated = known_machines[0].calibrated if len(known_machines) == 1 else None
    terms = Terms(
        machines=known_machines,
        hosts=_hosts(host, calibrated),
        patterns=_patterns(patterns),
        skew=_skew_factor(skew),
        seed=seed,
        algorithms=algorithms,
    )
    questions = _questions(collectives, sizes_bytes, nodes, ppn)
    for machine in terms.machines:
        warn_of_copies(machine, ((s.nodes, s.ranks_per_node) for each in questions for s in each.shapes()))
    why_not = _why_not_stored(terms, questions, calibrated)
    if store and why_not:
        raise CommandError(f"--store: {why_not}")
    began = time.monotonic()
    line = ProgressLine(on_terminal_every_s=0.2)
    try:
        answers = by_simulation.answers(
            terms,
            questions,
            lambda answer, done: line.show(
                f"{done} of {format_count(len(questions), 'question')}: {answer.question}"
            ),
            budget_s=budget_s,
        )
    except MemoryError:
        raise CommandError("these simulations need more memory than there is", FAILED) from None
    finally:
        line.clear()
    answers, missing = by_simulation.without_part_answers(answers, questions)
    if not answers:
        raise CommandError("--budget: too short for all sizes on any number of nodes; name fewer", FAILED)
    rows = simulated_rules.rules(terms, answers)
    console = new_console()
    _show(console, terms, rows, answers, time.monotonic() - began)
    if missing:
        console.print(tune_sheets.not_simulated(missing), soft_wrap=True)
    to = calibrated if store is not False and not why_not else None
    _write(console, terms, rows, rules_file, to)
    if why_not and store is None and calibrated is not None:
        console.print(f"Not stored: {why_not}", soft_wrap=True)


def _hosts(host: str | None, calibrated: Fingerprint | None) -> list[str]:
    """The MPIs that offbeat is compared with: that of the calibration, if its decisions are known."""
    if host is not None:
        return [hosts.check(host)]
    own = rule_host(calibrated.mpi) if calibrated is not None else ""
    return [own] if own in hosts.NAMES else list(hosts.NAMES)


def _why_not_stored(
    terms: Terms, questions: Sequence[Question], calibrated: Fingerprint | None
) -> str | None:
    """Why rules cannot be stored, or None."""
    if len(terms.machines) > 1:
        return "rules are stored for one machine"
    if calibrated is None:
        return f"{terms.machines[0].name} is not from offbeat calibrate, so nobody knows where its rules hold"
    if rule_host(calibrated.mpi) in hosts.NAMES and terms.hosts != [rule_host(calibrated.mpi)]:
        return f"{terms.machines[0].name} was calibrated with {calibrated.mpi}"
    shapes = (shape for each in questions for shape in each.shapes())
    return next(filter(None, (terms.machines[0].warning(s.nodes, s.ranks_per_node) for s in shapes)), None)


def _patterns(names: Sequence[str]) -> list[str]:
    for name in names:
        if not re.fullmatch(r"[a-z_]+", name):
            raise CommandError(f"--patterns {name}: --simulate takes {', '.join(arrival_patterns.PATTERNS)}")
    return [BALANCED, *(name for name in names if name != BALANCED)]


def _skew_factor(text: str) -> float:
    factor = parse_skew(text).factor
    if factor is None:
        raise CommandError(f"--skew {text}: with --simulate it is one factor, such as 1.0")
    return factor


def _questions(
    collectives: Sequence[str], sizes_bytes: Sequence[int], nodes: str, ppn: str
) -> list[Question]:
    groups = _node_groups(nodes)
    found = [
        Question(collective, size, group, ranks_per_node, points)
        for collective in collectives
        for ranks_per_node in parse_numbers("--ppn", ppn)
        for group, points in groups
        for size in sizes_bytes
    ]
    for question in found:
        for shape in question.shapes():
            checked_shape(shape)
    return found


def _node_groups(text: str) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """The ranges of nodes that get rules: A..B in parts, and each single number by itself."""
    found: list[tuple[tuple[int, int], tuple[int, ...]]] = []
    for part in text.split(","):
        first, last = parse_range(part)
        if not 1 < first <= last:
            raise CommandError(
                f"--nodes {text}: write numbers from 2 such as 16,64 or a range such as 9..4096"
            )
        found += by_simulation.node_groups(first, last) if ".." in part else [((first, first), (first,))]
    ranges = sorted(nodes for nodes, _ in found)
    for (_, last), (first, _) in pairwise(ranges):
        if first <= last:
            raise CommandError(f"--nodes {text}: {first} is in two parts")
    return found


def _show(
    console: Console, terms: Terms, rows: Sequence[SimulatedRow], answers: Sequence[Answer], seconds: float
) -> None:
    for machine in terms.machines:
        facts = machine.facts()[:4]
        width = max(len(name) for name, _ in facts)
        for name, value in facts:
            console.print(f"{name:<{width}}  {value}", soft_wrap=True)
        console.print()
    several = f"robust ({', '.join(terms.patterns)})" if len(terms.patterns) > 1 else BALANCED
    console.print(f"Objective: {several}", soft_wrap=True)
    console.print()
    for sheet in tune_sheets.simulated(rows, terms.hosts):
        console.print(to_terminal(sheet))
    console.print(tune_sheets.SIMULATED_NOTE, soft_wrap=True)
    console.print(tune_sheets.simulated_cost(answers, len(terms.machines), seconds), soft_wrap=True)


def _write(
    console: Console,
    terms: Terms,
    rows: Sequence[SimulatedRow],
    rules_file: Path | None,
    stored_for: Fingerprint | None,
) -> None:
    """Write the rules to ``rules_file``, and store them. Print them if they go to no file."""
    names = ", ".join(machine.name for machine in terms.machines)
    fields = [row.fields() for row in rows]
    reasons = [row.reason([row.host] if row.host != "*" else terms.hosts) for row in rows]
    text = spelling.file_text(f"Rules of offbeat tune --simulate, {today()}, for {names}", fields, reasons)
    if rules_file is not None:
        write_text(rules_file, text)
        console.print(f"Rules: {rules_file}; to use them: OFFBEAT_RULES={rules_file}", soft_wrap=True)
    if stored_for is not None:
        try:
            path = stored.store_for(stored_for, fields, reasons, os.environ)
        except CommandError as error:
            warn(str(error))
        else:
            console.print(f"Stored for {stored_for}: {path}", soft_wrap=True)
            return
    if rules_file is None:
        print(text, end="")
