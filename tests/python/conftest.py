# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: made-up MPIs, an environment that decides nothing, and calling the tool in it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fakes import (
    LIBMPI_SOURCE,
    MPIRUN,
    SONAMES,
    VERSION_TEXTS,
    FakeMpi,
    MakeMpi,
    Offbeat,
    compile_c,
    write_program,
)

sys.path[:0] = [
    str(Path(__file__).resolve().parents[2] / name)
    for name in ("tools", "docs", "benchmarks", "benchmarks/papers")
]


@pytest.fixture
def fake_mpi(tmp_path: Path) -> MakeMpi:
    def make(
        vendor: str,
        prefix: str | None = None,
        *,
        launchers: Sequence[str] = ("mpirun",),
        libraries: str = "lib",
        soname: str | None = None,
    ) -> FakeMpi:
        root = tmp_path / (prefix or vendor)
        soname = soname or SONAMES[vendor]
        version = VERSION_TEXTS[vendor]
        libmpi = compile_c(
            LIBMPI_SOURCE,
            root / libraries / soname,
            "-shared", "-fPIC", f'-DVERSION="{version}"', f"-Wl,-soname,{soname}",
        )  # fmt: skip
        for launcher in launchers:
            write_program(root / "bin" / launcher, MPIRUN)
        return FakeMpi(root, libmpi)

    return make


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    """No variable of the caller decides anything; the shell's own tools are there, mpirun is not."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "ldd", "env", "grep", "sed", "cat", "bash", "true"):
        found = next((p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists()), None)
        if found is not None:
            (tools / name).symlink_to(found)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": os.environ["TMPDIR"]}
    if "PYTHONPATH" in os.environ:  # an installation that is found in this way only
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return environment


# The longest files begin first, so that at the end no worker is left alone with one.
LONGEST = ("test_lint.py", "test_site.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


class Prepared:
    """A process that runs commands of offbeat: see prepared.py."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, str(Path(__file__).with_name("prepared.py"))]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, arguments: Sequence[str], environment: dict[str, str], folder: Path, limit_s: float
    ) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = [sys.executable, "-m", "offbeat", *arguments]
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            request = {"arguments": list(arguments), "environment": environment, "folder": str(folder)}
            request |= {"out": out.name, "err": err.name}
            print(json.dumps(request), file=self._process.stdin, flush=True)
            process = int(self._process.stdout.readline())
            ended = select.select([self._process.stdout], [], [], limit_s)[0]
            if not ended:
                os.kill(process, signal.SIGKILL)
            code = int(self._process.stdout.readline())
            if not ended:
                raise subprocess.TimeoutExpired(command, limit_s, out.read(), err.read())
            return subprocess.CompletedProcess(command, code, out.read(), err.read())

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def prepared() -> Iterator[Prepared]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    made = Prepared(environment)
    yield made
    made.end()


@pytest.fixture
def offbeat(clean_environment: dict[str, str], tmp_path: Path, prepared: Prepared) -> Offbeat:
    def call(
        *arguments: str | Path, path: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = clean_environment | variables
        if path is not None:
            environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
        words = list(map(str, arguments))
        if not any(name.startswith(("PYTHON", "LD_")) for name in variables):
            return prepared.run(words, environment, tmp_path, 120)
        # Python and the loader read these when a process begins.
        return subprocess.run(
            [sys.executable, "-m", "offbeat", *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return call
