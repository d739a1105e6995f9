# SPDX-License-Identifier: BSD-3-Clause
"""Which MPIs the tests run on: `pytest tests/mpi --mpi openmpi,mpich`.

A case that could run on several of them runs on one of the kinds Open MPI, MPICH and Intel MPI. Which kind,
and which installation of it, follows from the seed (turns.py). The marker `kinds` names another number.
Numbers of ranks take turns, too: a test whose parameter is `ranks` runs with one of them, unless its marker
`in_turn` says otherwise.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import inspect
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import CORES, ELSEWHERE, MPIS, PROGRAMS, Mpi, compile_client, compile_program, use_libraries
from turns import in_turn, seed_of_commit, tests_in_turn

DEFAULT = "openmpi,mpich,mpich-abi"
# These patterns find programs that tests compile without further flags. test_allreduce.py has `check`.
PROGRAM = re.compile(r'compile_program\(mpi, PROGRAMS / "([\w.]+)"\)|check\(mpi, [^"]*"([\w.]+\.c(?:pp)?)"')
CLIENT = re.compile(r'compile_client\(mpi, "([\w.]+)"\)')


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
    parser.addoption("--deep", action="store_true", help="each case on each MPI")
    parser.addoption("--quick", action="store_true", help="two and three ranks only")
    parser.addoption(
        "--kills", type=int, default=4, help="how often each MPI loses a rank at a random moment"
    )
    parser.addoption(
        "--seed",
        type=int,
        default=seed_of_commit(),
        help="of turns and of random moments (default: of the commit)",
    )


def chosen(config: pytest.Config) -> list[Mpi]:
    names = config.getoption("--mpi").split(",")
    movable = [mpi.name for mpi in MPIS.values() if mpi.prefix is not None]  # Debian's MPIs cannot be moved
    if wrong := sorted(ELSEWHERE.keys() - set(movable)):
        raise pytest.UsageError(f"MPI_AT: not one of {', '.join(movable)}: {', '.join(wrong)}")
    for name in names:
        if name not in MPIS:
            raise pytest.UsageError(f"--mpi {name}: not one of {', '.join(MPIS)}")
        for needed in (MPIS[name].mpirun, MPIS[name].cc):
            if shutil.which(needed) is None:
                raise pytest.UsageError(f"--mpi {name}: {needed} is not there; run tools/setup.py")
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
    is_deep = bool(item.config.getoption("--deep"))
    deep = item.get_closest_marker("deep")
    if deep is not None and deep.args[0](mpi) and not is_deep:
        return False
    kinds = item.get_closest_marker("kinds")
    if kinds and not kinds.kwargs.get("like_another", True) and mpi.is_like_another:
        return is_deep
    few = mpi.is_like_another or item.config.getoption("--quick")
    return not few or parameters.get("ranks", 2) in (2, 3)


def whose_turn(items: list[pytest.Item], seed: int) -> set[pytest.Item]:
    """The MPIs whose turn it is, for each case that could run on several."""
    cases: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        mpi = item.callspec.params.get("mpi") if hasattr(item, "callspec") else None
        name, kind = (item.nodeid.replace(mpi.name, "", 1), mpi.kind) if mpi else (item.nodeid, "")
        cases[name][kind].append(item)
    chosen: set[pytest.Item] = set()
    for case, kinds in cases.items():
        first = next(iter(kinds.values()))[0]
        marker = first.get_closest_marker("kinds")
        for kind in in_turn(kinds, marker.args[0] if marker else 1, seed, case):
            chosen.update(in_turn(kinds[kind], 1, seed, f"{case} {kind}"))
    return chosen


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = [item for item in items if applies(item)]
    if not config.getoption("--deep"):
        seed = config.getoption("--seed")
        for item in kept:
            has_ranks = hasattr(item, "callspec") and "ranks" in item.callspec.params
            if has_ranks and item.get_closest_marker("in_turn") is None:
                item.add_marker(pytest.mark.in_turn(1, "ranks", "mpi"))
        turn = whose_turn(kept, seed)
        kept = tests_in_turn([item for item in kept if item in turn], seed)
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the programs of most tests on all cores. Each test alone would use one core."""
    if session.config.option.collectonly:
        return
    wanted: set[tuple[Mpi, Callable[..., Path], Any]] = set()
    for item in session.items:
        mpi = item.callspec.params.get("mpi") if hasattr(item, "callspec") else None
        if mpi is not None and isinstance(item, pytest.Function):
            source = inspect.getsource(item.function)
            wanted |= {(mpi, compile_client, name) for name in CLIENT.findall(source)}
            for words in PROGRAM.findall(source):
                wanted.add((mpi, compile_program, PROGRAMS / "".join(words)))

    def compile_one(one: tuple[Mpi, Callable[..., Path], Any]) -> None:
        mpi, how, program = one
        with contextlib.suppress(subprocess.SubprocessError):  # the test that needs it then fails
            how(mpi, program)

    with concurrent.futures.ThreadPoolExecutor(CORES) as workers:
        list(workers.map(compile_one, wanted))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--libraries"):
        use_libraries(config.getoption("--libraries"))
