# SPDX-License-Identifier: BSD-3-Clause
"""Which MPIs the tests run on: `pytest tests/mpi --mpi openmpi,mpich`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import MPIS, Mpi, use_libraries

DEFAULT = "openmpi,mpich,mpich-abi"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--mpi", default=DEFAULT, help=f"MPIs to test on, of: {', '.join(MPIS)} (default: {DEFAULT})"
    )
    parser.addoption(
        "--libraries",
        type=Path,
        metavar="FOLDER",
        help="the preload libraries from here, not from the installed package",
    )
    parser.addoption("--deep", action="store_true", help="also where another MPI shows the same")
    parser.addoption("--quick", action="store_true", help="two and three ranks only")
    parser.addoption(
        "--kills", type=int, default=4, help="how often each MPI loses a rank at a random moment"
    )
    parser.addoption("--seed", type=int, help="of the random moments; a failing test prints it")


def chosen(config: pytest.Config) -> list[Mpi]:
    names = config.getoption("--mpi").split(",")
    for name in names:
        if name not in MPIS:
            raise pytest.UsageError(f"--mpi {name}: not one of {', '.join(MPIS)}")
        if shutil.which(MPIS[name].mpirun) is None:
            raise pytest.UsageError(f"--mpi {name}: {MPIS[name].mpirun} is not there; run tools/setup.py")
    return [MPIS[name] for name in names]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mpi" in metafunc.fixturenames:
        mpis = chosen(metafunc.config)
        metafunc.parametrize("mpi", mpis, ids=[mpi.name for mpi in mpis])


def applies(item: pytest.Item) -> bool:
    """Whether a test makes sense on its MPI; one that does not is left out, and counts nowhere."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    mpi = parameters.get("mpi")
    only = item.get_closest_marker("mpis")
    if mpi is None:
        return True
    if only is not None and not only.args[0](mpi):
        return False
    deep = item.get_closest_marker("deep")
    if deep is not None and deep.args[0](mpi) and not item.config.getoption("--deep"):
        return False
    few = mpi.is_like_another or item.config.getoption("--quick")
    return not few or parameters.get("ranks", 2) in (2, 3)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not applies(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if applies(item)]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--libraries"):
        use_libraries(config.getoption("--libraries"))
