# SPDX-License-Identifier: BSD-3-Clause
"""One rank of the job prints one line about OFFBEAT_ variables that are no settings, and the job goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, Result, compile_program, library, run

OF_MODULE_FILES = {f"OFFBEAT_{name}": "/opt/offbeat" for name in ("ROOT", "DIR", "HOME", "BASE", "VERSION")}


def lines_of(result: Result) -> list[str]:
    assert result.succeeded().calls > 0
    return [line for line in result.stderr.splitlines() if "of offbeat: OFFBEAT_" in line]


@INSIDE_OFFBEAT
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_name_that_is_no_setting_is_named_once(mpi: Mpi, ranks: int) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    settings = OF_MODULE_FILES | {"OFFBEAT_ALREDUCE": "ring", "OFFBEAT_ZZZZZZZZ": "", "OFFBEAT_\x1b[2J": "1"}
    result = run(mpi, ranks, [program], environment=settings, timeout=60)
    (line,) = lines_of(result)
    assert result.report.served > 0, str(result)
    assert "OFFBEAT_ALREDUCE (did you mean OFFBEAT_ALLREDUCE?)" in line
    assert "OFFBEAT_ZZZZZZZZ" in line
    assert r"OFFBEAT_\x1b[2J" in line
    assert "/opt" not in line
    assert "ROOT" not in line


def test_module_files_are_no_matter(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment=OF_MODULE_FILES, timeout=60)
    assert lines_of(result) == []
    assert result.report.served > 0, str(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize("with_offbeat", [False, True])
def test_once_under_the_tracer_too(mpi: Mpi, tmp_path: Path, with_offbeat: bool) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    offbeat = library(mpi.preload)
    tracer = offbeat.with_name(offbeat.name.replace("liboffbeat-", "liboffbeat-trace-"))
    preload = Path(f"{tracer}:{offbeat}") if with_offbeat else tracer
    settings = {"OFFBEAT_ALREDUCE": "ring", "OFFBEAT_TRACE": str(tmp_path / "trace")}
    result = run(mpi, 2, [program], preload=preload, environment=settings, timeout=60)
    assert len(lines_of(result)) == 1, str(result)
