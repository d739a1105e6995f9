#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the C++ tests of a build folder, many cases in each process, and write one JUnit file.

    tests/unit/run_cases.py build/dev [--deep | --seed 5] [--only allreduce_test] [--report cases.xml]

ctest starts a process for each case, which takes longer than most of our cases. So this program asks ctest
for the cases and runs those of one binary together. If such a process crashes or hangs, each of its cases
runs again in a process of its own. Every case that ctest lists is in the report, or an option leaves it out.

Cases that differ little, such as `ring_on_2` and `ring_on_3`, take turns by the seed (tests/mpi/turns.py):
one in three runs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

from turns import in_turn, seed_of_commit

BATCH = 50  # cases of one process
OPTION = "--gtest_"
FILTER = f"{OPTION}filter="
# Cases are alike if they have the same text before what varies: the calls, or the number of ranks.
ONE_IN = 3
ALIKE = re.compile(
    r"(?P<calls>.+EveryInterleavingOf(Three|Mixed)?Calls\.\w+/|.+EveryInterleavingOfCallsAmongMany\."
    r"|.+LongVectors\.\w+/|MaxRate/Formula\.\w+/).+"
    r"|(?P<ranks>.+_on_|.+ManyCores\.\w+/|.+BoardOfThreads\.\w+/)\d+"
)


@dataclass(frozen=True)
class Case:
    """One case: a test of GoogleTest, or a command whose exit code says whether it passes."""

    name: str
    command: tuple[str, ...] = field(repr=False)

    @property
    def is_of_googletest(self) -> bool:
        return any(argument.startswith(FILTER) for argument in self.command)

    @property
    def program(self) -> tuple[str, ...]:
        """The command up to the options of GoogleTest: the binary, perhaps after an emulator."""
        return tuple(itertools.takewhile(lambda each: not each.startswith(OPTION), self.command))

    @property
    def binary(self) -> str:
        """The file with the case, or "" if it was not built."""
        if not self.command:
            return ""
        return shutil.which(self.program[-1] if self.is_of_googletest else self.command[0]) or ""


@dataclass(frozen=True)
class Outcome:
    case: Case
    seconds: float = 0
    failure: str | None = None  # what was wrong
    skipped: bool = False


def cases_of(folder: Path) -> list[Case]:
    """Return the cases that ctest knows in a build folder."""
    command = ["ctest", "--test-dir", str(folder), "--show-only=json-v1"]
    listed = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    cases = []
    for test in listed["tests"]:
        command = test.get("command", [])
        filters = [each.removeprefix(FILTER) for each in command if each.startswith(FILTER)]
        name = filters[0] if filters else test["name"]
        cases.append(Case(name, tuple(command)))
    return cases


def whose_turn(cases: list[Case], seed: int) -> list[Case]:
    """Return the cases without those that wait for another seed."""
    alike: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found = ALIKE.fullmatch(case.name)
        alike[found["calls"] or found["ranks"] if found else case.name].append(case)
    kept: set[Case] = set()
    for name, those in alike.items():
        kept.update(in_turn(those, -(-len(those) // ONE_IN), seed, name))
    return [case for case in cases if case in kept]


def batches_of(cases: list[Case]) -> list[list[Case]]:
    """Divide the cases among processes. Neighbours, which take about as long, go to different ones."""
    by_binary: dict[str, list[Case]] = defaultdict(list)
    batches = []
    for case in cases:
        if case.is_of_googletest:
            by_binary[case.binary].append(case)
        else:
            batches.append([case])
    for those in by_binary.values():
        processes = -(-len(those) // BATCH)
        batches += [those[first::processes] for first in range(processes)]
    return batches


def run_batch(batch: list[Case], limit: float) -> list[Outcome]:
    """Run cases of one binary in one process; if it does not reach its end, each case in its own."""
    first = batch[0]
    if not first.binary:
        return [Outcome(first, failure="it was not built")]
    if not first.is_of_googletest:
        return [run_command(first, limit)]
    with tempfile.TemporaryDirectory() as temporary:
        report, flags = Path(temporary, "report.xml"), Path(temporary, "flags")
        flags.write_text(FILTER + ":".join(case.name for case in batch))
        command = [*first.program, f"--gtest_flagfile={flags}", f"--gtest_output=xml:{report}"]
        code, output = execute(command, Path(first.binary).parent, limit)
        outcomes = read(report, batch) if report.exists() else []
    if outcomes:
        if code != 0 and not any(outcome.failure for outcome in outcomes):
            outcomes[-1] = Outcome(
                outcomes[-1].case, failure=f"{ending(code)} after the last case\n{output[-2000:]}"
            )
        return outcomes
    started = re.findall(r"\[ RUN      \] (\S+)", output)
    where = f"{ending(code)} in {started[-1] if started else 'no case'}\n{output[-2000:]}"
    if len(batch) == 1:
        return [Outcome(first, failure=where)]
    alone = [outcome for case in batch for outcome in run_batch([case], limit)]
    if not any(outcome.failure for outcome in alone):
        alone[0] = Outcome(first, failure=f"together with others: {where}")
    return alone


def run_command(case: Case, limit: float) -> Outcome:
    started = time.monotonic()
    code, output = execute(list(case.command), Path(case.binary).parent, limit)
    return Outcome(case, time.monotonic() - started, f"{ending(code)}\n{output}" if code else None)


def execute(command: list[str], folder: Path, limit: float) -> tuple[int | None, str]:
    """Return the exit code and the output. The code is None if nothing was printed for `limit` seconds."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
        printed, since = 0, time.monotonic()
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            size = os.fstat(out.fileno()).st_size
            if size > printed:
                printed, since = size, time.monotonic()
            elif time.monotonic() - since > limit:
                process.kill()
                process.wait()
                break
        code = process.returncode if process.returncode != -signal.SIGKILL else None
        out.seek(0)
        return code, out.read()


def ending(code: int | None) -> str:
    return f"exit code {code}" if code is not None else "killed"


def read(report: Path, batch: list[Case]) -> list[Outcome]:
    """Return what a report says of each case; one that is not there has failed."""
    found = {
        f"{each.get('classname')}.{each.get('name')}": each
        for each in ElementTree.parse(report).iter("testcase")
    }
    outcomes = []
    for case in batch:
        element = found.get(case.name)
        if element is None or element.get("status") != "run":
            outcomes.append(Outcome(case, failure="it did not run"))
            continue
        failures = [each.get("message") or "" for each in element.iter("failure")]
        skipped = element.get("result") == "skipped"
        seconds = float(element.get("time") or 0)
        outcomes.append(Outcome(case, seconds, "\n".join(failures) if failures else None, skipped))
    return outcomes


def write(report: Path, outcomes: list[Outcome]) -> None:
    suite = ElementTree.Element("testsuite", name="unit", tests=str(len(outcomes)))
    for outcome in outcomes:
        classname = Path(outcome.case.binary).name
        element = ElementTree.SubElement(
            suite, "testcase", classname=classname, name=outcome.case.name, time=f"{outcome.seconds:.3f}"
        )
        if outcome.failure is not None:
            ElementTree.SubElement(element, "failure").text = printable(outcome.failure)
        elif outcome.skipped:
            ElementTree.SubElement(element, "skipped")
    ElementTree.ElementTree(suite).write(report, encoding="utf-8", xml_declaration=True)


def printable(text: str) -> str:
    """Without what XML cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff]", "?", text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a build folder of CMake")
    parser.add_argument("--report", type=Path, help="write a JUnit file")
    parser.add_argument("--only", help="the cases of these binaries, separated by commas")
    parser.add_argument("--without", default="^$", help="leave out the cases that this expression matches")
    parser.add_argument("--seed", type=int, default=seed_of_commit(), help="default: of the commit")
    parser.add_argument("--deep", action="store_true", help="all cases")
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds that a case may take (default: 300)"
    )
    arguments = parser.parse_args()

    cases = cases_of(arguments.folder)
    if arguments.only:
        wanted = arguments.only.split(",")
        cases = [case for case in cases if Path(case.binary).name in wanted]
        if missing := set(wanted) - {Path(case.binary).name for case in cases}:
            parser.error(f"{arguments.folder} has no {', '.join(sorted(missing))}")
    cases = [case for case in cases if not re.search(arguments.without, case.name)]
    if not arguments.deep:
        cases = whose_turn(cases, arguments.seed)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        outcomes = [
            each
            for done in workers.map(lambda batch: run_batch(batch, arguments.limit), batches_of(cases))
            for each in done
        ]
    if arguments.report:
        write(arguments.report, outcomes)
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    for outcome in failed:
        print(f"FAILED {outcome.case.name}: {outcome.failure}")
    skipped = sum(outcome.skipped for outcome in outcomes)
    print(f"{len(outcomes) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
