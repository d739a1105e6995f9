# SPDX-License-Identifier: BSD-3-Clause
"""tests/unit/run_cases.py runs many cases of GoogleTest in one process, and still counts each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests" / "unit" / "run_cases.py"

# A binary of GoogleTest whose cases do what their names say.
BINARY = """#!{python}
import os, sys, time
from xml.sax.saxutils import quoteattr
options = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:])
with open(options["gtest_flagfile"]) as flags:
    names = flags.read().removeprefix("--gtest_filter=").split(":")
with open({log!r}, "a") as log:
    log.write(" ".join(names) + "\\n")
cases, failed = [], False
for name in names:
    print("[ RUN      ]", name, flush=True)
    if "crashes_alone" in name and len(names) == 1 or "crashes_always" in name:
        os.abort()
    if "crashes_in_company" in name and len(names) > 1:
        os.abort()
    if "hangs" in name:
        time.sleep(100)
    if "is_missing" in name:
        continue
    suite, _, test = name.partition(".")
    inner = "<failure message=" + quoteattr("1 is not 2") + "/>" if "fails" in name else ""
    failed = failed or bool(inner)
    result = "skipped" if "skips" in name else "completed"
    attributes = f'classname="{{suite}}" name="{{test}}" status="run" result="{{result}}" time="0.1"'
    cases.append(f"<testcase {{attributes}}>{{inner}}</testcase>")
with open(options["gtest_output"].removeprefix("xml:"), "w") as report:
    report.write("<testsuites><testsuite>" + "".join(cases) + "</testsuite></testsuites>")
sys.exit(1 if failed or any("leaves_an_error" in name for name in names) else 0)
"""


class Folder:
    """A build folder with made-up binaries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "processes"
        self.tests: list[dict[str, object]] = []

    def add(self, binary: str, *names: str) -> None:
        program = self.path / binary
        program.write_text(BINARY.format(python=sys.executable, log=str(self.log)))
        program.chmod(0o755)
        for name in names:
            command = [str(program), f"--gtest_filter={name}", "--gtest_also_run_disabled_tests"]
            self.tests.append({"name": f"{name}  # GetParam() = 3", "command": command})

    def run(self, *options: str) -> dict[str, str]:
        """Return what the report says of each case."""
        programs, report = self.path / "programs", self.path / "report.xml"
        programs.mkdir(exist_ok=True)
        ctest = programs / "ctest"
        ctest.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'tests': self.tests})}\nEND\n")
        ctest.chmod(0o755)
        self.log.unlink(missing_ok=True)
        command = [sys.executable, str(RUNNER), str(self.path), f"--report={report}", *options]
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case} or {"passed"}
            found[str(case.get("name"))] = kinds.pop()
        assert (done.returncode != 0) == ("failure" in found.values())
        counted = [list(found.values()).count(kind) for kind in ("passed", "failure", "skipped")]
        last = done.stdout.splitlines()[-1]
        assert last == f"{counted[0]} passed, {counted[1]} failed, {counted[2]} skipped"
        return found

    @property
    def processes(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_case_runs_once_in_few_processes(folder: Folder) -> None:
    names = [f"Suite.Case{i}" for i in range(120)]
    folder.add("one_test", *names)
    folder.add("other_test", "Other.Case")
    assert folder.run() == dict.fromkeys([*names, "Other.Case"], "passed")
    assert sorted(name for process in folder.processes for name in process) == sorted([*names, "Other.Case"])
    assert len(folder.processes) == 4


def test_what_fails_is_skipped_or_is_missing_is_counted_as_that(folder: Folder) -> None:
    folder.add("one_test", "A.passes", "A.fails", "A.skips", "A.is_missing")
    assert folder.run() == {
        "A.passes": "passed", "A.fails": "failure", "A.skips": "skipped", "A.is_missing": "failure"
    }  # fmt: skip


def test_a_crash_costs_only_the_case_that_crashes(folder: Folder) -> None:
    folder.add("one_test", "A.passes", "A.crashes_always", "A.passes_too")
    assert folder.run() == {"A.passes": "passed", "A.crashes_always": "failure", "A.passes_too": "passed"}


def test_a_case_that_hangs_is_killed(folder: Folder) -> None:
    folder.add("one_test", "A.passes", "A.hangs", "A.passes_too")
    found = folder.run("--limit=5")
    assert found == {"A.passes": "passed", "A.hangs": "failure", "A.passes_too": "passed"}


@pytest.mark.parametrize("name", ["A.crashes_in_company", "A.leaves_an_error"])
def test_a_crash_that_no_case_repeats_is_a_failure(folder: Folder, name: str) -> None:
    folder.add("one_test", "A.passes", name)
    assert list(folder.run().values()).count("failure") == 1


def test_a_binary_that_is_not_there_fails(folder: Folder) -> None:
    folder.add("one_test", "A.passes")
    folder.tests.append({"name": "two_test_NOT_BUILT"})
    folder.tests.append({"name": "three_test_NOT_BUILT", "command": ["three_test_NOT_BUILT"]})
    assert folder.run() == {
        "A.passes": "passed", "two_test_NOT_BUILT": "failure", "three_test_NOT_BUILT": "failure"
    }  # fmt: skip
    assert folder.run("--only=one_test") == {"A.passes": "passed"}


def test_a_command_passes_if_its_exit_code_is_0(folder: Folder) -> None:
    for name, code in (("good", 0), ("bad", 1)):
        folder.tests.append({"name": name, "command": ["/bin/sh", "-c", f"exit {code}"]})
    assert folder.run() == {"good": "passed", "bad": "failure"}


def test_numbers_of_ranks_take_turns(folder: Folder) -> None:
    names = [f"A.B/{algorithm}_on_{ranks}" for algorithm in ("ring", "bine") for ranks in range(1, 22)]
    folder.add("one_test", *names, "A.Other")
    made = [folder.run("--seed", str(seed)) for seed in range(12)]
    for found in made:
        assert "A.Other" in found
        assert len(found) == 15
    assert made[0] == folder.run("--seed", "0")
    assert made[0] != made[1]
    assert {name for found in made for name in found} == {*names, "A.Other"}
    assert len(folder.run("--deep")) == 43
    assert len(folder.run("--deep", "--without=_on_1$")) == 41
