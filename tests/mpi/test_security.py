# SPDX-License-Identifier: BSD-3-Clause
"""What another user of the host can do to a job: docs/explanation/security.md."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, Result, compile_program, library, on_mpis, run

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user of the host can read; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def run_beside_stranger(mpi: Mpi, spammer: Path | str) -> tuple[Result, str]:
    """Run ranks while a stranger sends them letters; the result, and what the stranger says at its end."""
    program = compile_program(mpi, PROGRAMS / "boards.c")
    with subprocess.Popen([spammer, "120"], stdout=subprocess.PIPE, text=True) as stranger:
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "ready\n"
            result = run(mpi, 2, [program, "150"], environment={"OFFBEAT_VERBOSE": "1"}, timeout=100)
        finally:
            stranger.send_signal(signal.SIGTERM)
        return result, stranger.stdout.read()


@INSIDE_OFFBEAT
def test_a_stranger_gets_nothing_into_the_ranks(mpi: Mpi, public_folder: Path) -> None:
    """As root the letters come from another user, and otherwise from another program of the same one."""
    spammer = shutil.copy(compile_program(mpi, PROGRAMS / "spammer.c"), public_folder)
    for _ in range(5):  # on a busy machine the stranger may not run while the ranks have their sockets
        result, said = run_beside_stranger(mpi, spammer)
        if not said.endswith(" 0 refused\n"):
            break
    if "seccomp is not to be had" in result.stdout:
        pytest.skip("no seccomp here")
    assert result.succeeded().report.served == result.calls, f"{said}{result}"
    chosen = set(re.findall(r"^offbeat: allreduce of any length, ranks: 2: (\w+)", result.stderr, re.M))
    assert chosen == {"arrival_tree"}, f"{said}{result}"
    assert "no shared memory" not in result.stderr, f"{said}{result}"
    letters = re.fullmatch(r"user (\d+): (\d+) letters sent, (\d+) refused\n", said)
    assert letters, f"the stranger does not say what it sent: {said}{result}"
    user = str(65534 if IS_ROOT else os.geteuid())
    assert letters[1] == user, f"the stranger is not user {user}: {said}{result}"
    assert int(letters[3]) > 0, f"it never met a socket of the ranks: {said}{result}"


@on_mpis(lambda mpi: mpi.name == "openmpi")  # the linker is the same for all
def test_a_setuid_program_is_without_offbeat(mpi: Mpi, public_folder: Path) -> None:
    if not IS_ROOT or os.statvfs(public_folder).f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a folder for temporary files where setuid programs work")
    preload = str(shutil.copy(library(mpi.preload), public_folder))
    program = Path(shutil.copy(shutil.which("cat") or "/bin/cat", public_folder))
    for mode, is_there in [(0o755, True), (0o4755, False)]:
        program.chmod(mode)
        maps = subprocess.run(
            [program, "/proc/self/maps"],
            env={"LD_PRELOAD": preload},
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert str(program) in maps
        assert (preload in maps) == is_there, f"mode {mode:o}\n{maps}"
