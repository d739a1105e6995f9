# SPDX-License-Identifier: BSD-3-Clause
"""The torch backend. `./test torch` installs torch and starts these tests with it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

from turns import seed_of_commit, tests_in_turn

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str | None:
    return None if importlib.util.find_spec("torch") else "torch is not installed: its tests are not run"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also the tests that wait for their turn")
    parser.addoption("--seed", type=int, default=seed_of_commit(), help="of turns (default: the commit's)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--deep"):
        deep = [item for item in items if item.get_closest_marker("only_deep")]
        kept = tests_in_turn([item for item in items if item not in deep], config.getoption("--seed"))
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only_deep: with --deep only")


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the extension before any job has a time limit."""
    from offbeat.torch import _build

    _build.build()
