# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: made-up MPIs, an environment that decides nothing, and calling the tool in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
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

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("tools", "docs", "benchmarks")]


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
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}
    if "PYTHONPATH" in os.environ:  # an installation that is found in this way only
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return environment


@pytest.fixture
def offbeat(clean_environment: dict[str, str], tmp_path: Path) -> Offbeat:
    def call(
        *arguments: str | Path, path: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = clean_environment | variables
        if path is not None:
            environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
        return subprocess.run(
            [sys.executable, "-m", "offbeat", *map(str, arguments)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return call
