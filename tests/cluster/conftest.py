# SPDX-License-Identifier: BSD-3-Clause
"""Tests on virtual hosts: `pytest tests/cluster [--mpi openmpi,mpich,impi]`. They need root."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

import slurm
from harness import use_libraries
from hosts import Cluster, obstacle
from launch import ON_HOSTS
from turns import in_turn, seed_of_commit, tests_in_turn

DEFAULT = "openmpi,mpich,impi"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mpi", default=DEFAULT, help=f"of: {', '.join(ON_HOSTS)} (default: {DEFAULT})")
    parser.addoption(
        "--libraries",
        type=Path,
        metavar="FOLDER",
        help="the preload libraries from here, not from the installed package",
    )
    parser.addoption("--deep", action="store_true", help="every algorithm on each shape of a cluster")
    parser.addoption("--seed", type=int, default=seed_of_commit(), help="of turns (default: the commit's)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--libraries"):
        use_libraries(config.getoption("--libraries"))
    config.addinivalue_line("markers", "anywhere: needs no virtual hosts")


def chosen(config: pytest.Config) -> list[str]:
    names = str(config.getoption("--mpi")).split(",")
    for name in names:
        if name not in ON_HOSTS:
            raise pytest.UsageError(f"--mpi {name}: not one of {', '.join(ON_HOSTS)}")
        if shutil.which(ON_HOSTS[name].mpirun) is None:
            raise pytest.UsageError(f"--mpi {name}: {ON_HOSTS[name].mpirun} is not there; run tools/setup.py")
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`name` is that of an MPI. `case` is what a module's `cases` makes of all of them."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", chosen(metafunc.config))
    if "case" in metafunc.fixturenames:
        cases = metafunc.module.cases(chosen(metafunc.config))
        metafunc.parametrize("case", cases_in_turn(metafunc.config, cases), ids=str)


def cases_in_turn(config: pytest.Config, cases: list[Any]) -> list[Any]:
    """One of the cases with the same `turn` takes its turn; all of them could run (see turns.py)."""
    alike: dict[str, list[Any]] = {}
    for case in cases:
        alike.setdefault(getattr(case, "turn", str(case)), []).append(case)
    count, seed = (len(cases) if config.getoption("--deep") else 1), config.getoption("--seed")
    return [case for name, those in alike.items() for case in in_turn(those, count, seed, name)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--deep"):
        kept = tests_in_turn(items, config.getoption("--seed"))
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept
    if why := obstacle():
        for item in items:
            if item.get_closest_marker("anywhere") is None:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Eight hosts with Slurm, for tests that leave them as they were."""
    with Cluster(8) as made:
        slurm.start(made)
        yield made


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three hosts with Slurm, for the tests of a module that do something to them."""
    with Cluster(3) as made:
        slurm.start(made)
        yield made
