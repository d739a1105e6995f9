# SPDX-License-Identifier: BSD-3-Clause
"""The pages in docs/ say what the registry, the settings and the parser of the C++ core say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from offbeat import _core

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/*.md")
    for page in ROOT.glob(pattern)
)
ERROR = re.compile(r"^ +offbeat: allreduce expression '(.*)': (column \d+: .*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def test_the_example_of_an_algorithm_is_the_file_that_is_tested() -> None:
    page = (ROOT / "docs" / "how-to" / "add-an-algorithm.md").read_text()
    shown = re.findall(r"^```{literalinclude} (.*)$", page, re.MULTILINE)
    example = ROOT / "examples" / "algorithm" / "chain.cpp"
    assert [(ROOT / "docs" / "how-to" / path).resolve() for path in shown] == [example]
    assert (
        '#include "examples/algorithm/chain.cpp"'
        in (ROOT / "tests" / "unit" / "example_test.cpp").read_text()
    )


def said(pattern: str, page: str) -> str:
    """The first group of a pattern that the page has."""
    found = re.search(pattern, page, re.MULTILINE)
    assert found, pattern
    return found[1]


def test_collectives_have_the_numbers_that_the_page_on_trace_files_gives() -> None:
    page = (ROOT / "docs" / "reference" / "trace-format.md").read_text()
    listed = re.findall(r"(\d+) (\w+)", said(r"^Collectives: ([^.]*)\.$", page))
    assert listed == [(str(number), each["name"]) for number, each in enumerate(_core.collectives(), 1)]


def test_errors_of_expressions_are_those_of_the_parser() -> None:
    examples = ERROR.findall((ROOT / "docs" / "reference" / "expressions.md").read_text())
    assert len(examples) > 3
    for expression, error in examples:
        with pytest.raises(ValueError, match=re.escape(error)):
            _core.check_expression("allreduce", expression)


def test_examples_of_expressions_are_canonical() -> None:
    text = (ROOT / "docs" / "reference" / "expressions.md").read_text()
    block = re.search(r"^## Examples\n\n((?:    .*\n)+)", text, re.MULTILINE)
    assert block is not None
    for line in block[1].splitlines():
        expression = re.split(r" {3,}", line.strip())[0]
        assert _core.check_expression("allreduce", expression) == expression


def test_the_modules_that_the_page_on_reports_names_are_there() -> None:
    """In a process of its own, to which these imports are the first."""
    page = (ROOT / "docs" / "how-to" / "reading-a-report.md").read_text()
    program = said(r"^```python\n(from offbeat import .*)\n", page)
    program += "\nprint(trace.read.__name__, metrics.collect.__name__, diagnosis.diagnose.__name__)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "read collect diagnose\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_and_lines_are_short(page: Path) -> None:
    text = page.read_text()
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target
    assert [line for line in text.splitlines() if len(line) > 120] == []


def test_every_test_on_the_security_page_exists() -> None:
    """A unit test may have a fixture, or parameters; a word with a capital and a point is its name there."""
    page = (ROOT / "docs" / "explanation" / "security.md").read_text()
    unit = "".join(path.read_text() for path in (ROOT / "tests" / "unit").glob("*.cpp"))
    mpi = "".join(path.read_text() for path in (ROOT / "tests" / "mpi").glob("test_*.py"))
    named = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", page)
    assert len(named) > 10
    existing = re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", unit, re.MULTILINE)
    assert [test for test in named if test not in existing] == []
    functions = re.findall(r"`(test_\w+)`", page)
    assert len(functions) > 2
    assert [name for name in functions if f"\ndef {name}(" not in mpi] == []
