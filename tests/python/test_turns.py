# SPDX-License-Identifier: BSD-3-Clause
"""Tests that take turns: the same ones for the same seed, and all of them sooner or later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

import turns
from turns import in_turn, seed_of_commit

MPI_TESTS = Path(turns.__file__).parent
CHOICES = ["openmpi", "mpich", "impi", "mpich-abi", "debian-openmpi"]


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_choice_follows_from_the_seed_and_the_case(count: int) -> None:
    made = [in_turn(CHOICES, count, seed, "a case") for seed in range(200)]
    assert made == [in_turn(CHOICES, count, seed, "a case") for seed in range(200)]
    assert all(len(set(one)) == len(one) == min(count, 5) for one in made)
    assert all(one == sorted(one, key=CHOICES.index) for one in made)
    assert {name for one in made[:50] for name in one} == set(CHOICES)
    if count < 5:
        assert made != [in_turn(CHOICES, count, seed, "another case") for seed in range(200)]


def test_each_choice_is_as_likely_as_the_others() -> None:
    made = [in_turn(CHOICES, 2, seed, "a case")[i] for seed in range(2000) for i in range(2)]
    for name in CHOICES:
        assert 700 < made.count(name) < 900, name


def test_the_seed_is_that_of_the_commit() -> None:
    command = ["git", "-C", str(MPI_TESTS), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert seed_of_commit() == (int(done.stdout[:6], 16) if done.returncode == 0 else 0)


def collected(folder: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", str(folder), "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    return [line for line in done.stdout.splitlines() if "::" in line]


MADE_UP = """
import sys
sys.path.insert(0, {folder!r})
import pytest
from turns import tests_in_turn

def pytest_addoption(parser):
    parser.addoption("--seed", type=int)
def pytest_configure(config):
    config.addinivalue_line("markers", "in_turn")
def pytest_collection_modifyitems(config, items):
    items[:] = tests_in_turn(items, config.getoption("--seed"))
"""
TESTS = """
import pytest
@pytest.mark.in_turn(1, "name", "expression")
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("expression", ["ring", "native"])
def test_in_turn(ranks, name, expression): pass

@pytest.mark.parametrize("ranks", [1, 2])
def test_always(ranks): pass
"""


def test_a_marked_test_runs_for_each_of_its_other_parameters(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(MADE_UP.format(folder=str(MPI_TESTS)))
    (tmp_path / "test_made_up.py").write_text(TESTS)
    found = [collected(tmp_path, "--seed", str(seed), "--rootdir", str(tmp_path)) for seed in range(3)]
    for tests in found:
        assert sum("test_always" in test for test in tests) == 2
        assert len(tests) == 5
        for ranks in (1, 2, 3):
            assert sum(f"{ranks}]" in test and "test_in_turn" in test for test in tests) == 1
    assert found[0] != found[1] or found[1] != found[2]
