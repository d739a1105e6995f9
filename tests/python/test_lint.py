# SPDX-License-Identifier: BSD-3-Clause
"""All code keeps the rules of pyproject.toml and .clang-format; tools/setup.py pins who says so."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPP_FOLDERS = ("benchmarks", "examples", "include", "python", "src", "tests")


def passes(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"]],
    ids=["check", "format"],
)
def test_python_code(command: list[str]) -> None:
    passes(sys.executable, "-m", *command)


# Several folders have a conftest.py, so each of them is checked alone.
@pytest.mark.parametrize(
    "names",
    [
        [],  # the package; see pyproject.toml
        ["tests/python"],
        ["tests/mpi"],
        ["tests/cluster"],
        ["tests/clients"],
        ["tests/torch"],
        ["tools", "cmake", "docs", "benchmarks", "examples", "tests/gpu", "tests/unit"],
        ["test", "demo"],
    ],
    ids=lambda names: names[0] if names else "package",
)
def test_types(names: list[str]) -> None:
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "mypy.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # two runs at once may damage the cache
        passes(sys.executable, "-m", "mypy", "--scripts-are-modules", "--cache-dir", "build/mypy", *names)


def test_cpp_code() -> None:
    files = [str(path) for name in CPP_FOLDERS for path in sorted((ROOT / name).rglob("*.[ch]pp"))]
    assert len(files) > 300
    passes(str(Path(sys.executable).with_name("clang-format")), "--dry-run", "--Werror", *files)
