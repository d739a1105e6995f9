# SPDX-License-Identifier: BSD-3-Clause
"""Programs that nobody here wrote, under the preload. `./test --clients` installs them first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

from turns import seed_of_commit, tests_in_turn


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also the tests that wait for their turn")
    parser.addoption("--seed", type=int, default=seed_of_commit(), help="of turns (default: the commit's)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--deep"):
        kept = tests_in_turn(items, config.getoption("--seed"))
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept
