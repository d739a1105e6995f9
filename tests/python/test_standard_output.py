# SPDX-License-Identifier: BSD-3-Clause
"""Commands do all their other work even if nobody reads their output to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_benches import write

PRINTING = [
    ["--help"],
    ["--version"],
    ["info"],
    ["info", "--json"],
    ["info", "--settings"],
    ["pattern"],
    ["pattern", "ascending", "-n", "4", "--skew", "1us", "-o", "-"],
    ["simulate", "--machine", "ethernet", "--nodes", "2", "--sizes", "8"],
    ["compare", "bench.json", "bench.json"],
    ["report", "bench.json"],
]


def start(arguments: list[str], folder: Path, how: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command whose standard output is a pipe without a reader, or closed."""
    write(folder / "bench.json")
    command = [sys.executable, "-m", "offbeat", *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *command] if how == "closed" else command,
            cwd=folder, stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    done = start(arguments, tmp_path, "pipe")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("how", ["pipe", "closed"])
def test_files_are_written_all_the_same(tmp_path: Path, how: str) -> None:
    done = start(["report", "bench.json", "-o", "page.html"], tmp_path, how)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("arguments", [["info", "--settings"], ["report", "bench.json"]], ids=" ".join)
def test_a_full_disk_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "bench.json")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "offbeat", *arguments],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == b"offbeat: cannot write to standard output: No space left on device\n"


IN_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("variables", [IN_ASCII, {"PYTHONIOENCODING": "ascii"}], ids=["locale", "python"])
def test_a_terminal_that_has_only_ascii(tmp_path: Path, variables: dict[str, str]) -> None:
    def run(*arguments: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "offbeat", *arguments],
            cwd=tmp_path, env=os.environ | variables, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    shown = run("simulate", "--machine", "ethernet", "--nodes", "2")
    assert b"\nwithin a node          1 us and 1.25 GB/s\n" in shown
    assert b"\ncombining and copying  0" in shown
    write(tmp_path / "bench.json")
    run("report", "bench.json", "-o", "page.html")
    assert "\u00b5s" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_name_that_is_not_utf_8_is_printed_as_it_is(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.rules"
    with open(name, "wb"):
        pass
    done = subprocess.run(
        [sys.executable, "-m", "offbeat", "rules", "check", name],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (name + b": 0 rules, no error\n", b"")
