# SPDX-License-Identifier: BSD-3-Clause
"""MPICH's own tests, from Debian's source package of MPICH, compiled for any MPI and run one by one."""

from __future__ import annotations

import concurrent.futures
import re
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import debian_source
from clients import FOLDER
from harness import CORES, Mpi, Result, compile_program, run

VERSION = "4.0.2"
ARCHIVE = f"mpich_{VERSION}.orig.tar.xz"
SHA256 = "b27039f964afeb6b8a3e009c56b441cbe368c26d6d6476ad3bb7190996875860"
# What their configure finds out, as far as a program here asks.
HAVE = ["STDARG_H", "STDINT_H", "STDLIB_H", "STRING_H", "UNISTD_H", "MPI_WIN_CREATE"]
HAVE += ["LONG_LONG", "LONG_DOUBLE", "FLOAT__COMPLEX", "DOUBLE__COMPLEX", "LONG_DOUBLE__COMPLEX"]
# They make communicators until the MPI has none left, which takes minutes.
LONG = (
    "manysplit",
    "too_many_comms",
    "too_many_comms2",
    "too_many_comms3",
    "too_many_icomms",
    "too_many_icomms2",
)
UTILITIES = ("mtest.c", "mtest_common.c", "mtest_single.c", "dtypes.c")


class Outcome(IntEnum):
    HANGS = 0
    FAILS = 1
    PASSES = 2


@dataclass(frozen=True)
class Test:
    """A line of one of their lists of tests."""

    __test__ = False  # it is none of pytest's

    source: Path
    name: str
    ranks: int
    arguments: tuple[str, ...]
    flags: tuple[str, ...]
    is_to_abort: bool


def source() -> Path:
    """The folder of the tests."""
    folder = FOLDER / f"mpich-{VERSION}-tests"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        archive = debian_source.fetch("mpich", ARCHIVE, SHA256)
        with tempfile.TemporaryDirectory(dir=FOLDER) as unfinished, tarfile.open(archive) as tar:
            inside = f"mpich-{VERSION}/test/mpi"
            members = [member for member in tar if member.name.startswith(f"{inside}/")]
            tar.extractall(unfinished, members=members, filter="data")
            (Path(unfinished) / inside).rename(folder)
        defined = "".join(f"#define HAVE_{name} 1\n" for name in HAVE)
        threads = "#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n"
        (folder / "include" / "mpitestconf.h").write_text(defined + threads)
    return folder


def listed_in(topic: str) -> Iterator[Test]:
    """The tests of a folder such as errors/coll, without long ones and those that MPICH is known to fail."""
    folder = source() / topic
    makefile = (folder / "Makefile.am").read_text()
    sources = dict(re.findall(r"^(\w+)_SOURCES *= *(\w+\.c)$", makefile, re.M))
    nonblocking = set(re.findall(r"^(\w+)_CPPFLAGS *=.*-DUSE_MTEST_NBC", makefile, re.M))
    (tests,) = (path for path in (folder / "testlist", folder / "testlist.in") if path.exists())
    for line in tests.read_text().splitlines():
        words = line.split()
        if not words or line[0] in "#@" or " xfail=" in line:
            continue
        name, ranks, *options = words
        if name in LONG:
            continue
        yield Test(
            folder / sources.get(name, f"{name}.c"),
            name,
            int(ranks),
            tuple(option.removeprefix("arg=") for option in options if option.startswith("arg=")),
            ("-DUSE_MTEST_NBC",) if name in nonblocking else (),
            "resultTest=TestStatus" in options,
        )


def compile_tests(mpi: Mpi, tests: list[Test]) -> dict[Test, Path]:
    """Compile on all cores."""
    folder = source()
    include = ("-w", f"-I{folder / 'include'}", f"-I{folder / 'dtpools' / 'include'}")
    utilities = [
        str(compile_program(mpi, folder / "util" / name, *include, "-c", libraries=(), name=f"{name}.o"))
        for name in UTILITIES
    ]

    def program(test: Test) -> Path:
        name = f"mpich-{test.source.parent.name}-{test.name}"
        libraries = (*utilities, "-lm", "-lpthread")
        return compile_program(mpi, test.source, *include, *test.flags, libraries=libraries, name=name)

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return dict(zip(tests, pool.map(program, tests), strict=True))


def outcome(
    mpi: Mpi, test: Test, program: Path, *, preload: bool, seconds: float = 10
) -> tuple[Outcome, str]:
    """What became of a test, and what it said."""
    try:
        result: Result = run(mpi, test.ranks, [program, *test.arguments], preload=preload, timeout=seconds)
    except AssertionError as error:  # not finished
        return Outcome.HANGS, str(error)
    if test.is_to_abort:
        passes = result.returncode != 0
    else:
        passes = result.returncode == 0 and re.search(r"^ ?No Errors", result.stdout, re.M) is not None
    return Outcome.PASSES if passes else Outcome.FAILS, str(result)
