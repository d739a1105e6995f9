# SPDX-License-Identifier: BSD-3-Clause
"""A bad value of a setting ends the job with one clear line."""

from __future__ import annotations

import os
import select
import subprocess

import pytest
from harness import (
    INSIDE_OFFBEAT,
    PROGRAMS,
    Mpi,
    Result,
    clean_environment,
    compile_program,
    execute,
    library,
    on_mpis,
    run,
)  # fmt: skip


def stops(result: Result, *words: str) -> None:
    lines = [line for line in result.stderr.splitlines() if "offbeat: " in line]
    assert result.returncode != 0, str(result)
    assert "ok:" not in result.stdout, str(result)
    assert lines, f"no line says why\n{result}"
    assert "exit" not in lines[0] or "code 2" in lines[0], str(result)
    for word in words:
        assert word in lines[0], f"{word!r} is not in the line\n{result}"
    assert len(lines) == 1, f"more than one line\n{result}"


@INSIDE_OFFBEAT
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("OFFBEAT_ALLREDUCE", "rign", "rign"),
        ("OFFBEAT_ALLREDUCE", "pipeline(4, ring", "column"),
        ("OFFBEAT_ALLREDUCE", "ring(3)", "ring"),
        ("OFFBEAT_ALLREDUCE", "grid(0x4, ring)", "0"),
        ("OFFBEAT_VERBOSE", "loud", "loud"),
        ("OFFBEAT_REPORT", "maybe", "maybe"),
        ("OFFBEAT_PROGRESS_CPUS", "1,", "1,"),
        ("OFFBEAT_PROGRESS_CPUS", "4000", "no CPU that this process may use"),
    ],
)
def test_bad_value(mpi: Mpi, ranks: int, variable: str, value: str, word: str) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, ranks, [program], environment={variable: value}, timeout=60)
    stops(result, variable, word)
    assert result.returncode == 2, str(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("OFFBEAT_ALLREDUCE", "ring\n\x1b[2J", r"='ring\n\x1b[2J': column 6: unexpected '\x1b[2J'"),
        ("OFFBEAT_WAIT", "\x1b]0;X\x07", r"='\x1b]0;X\x07' is not understood"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(mpi: Mpi, variable: str, value: str, shown: str) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment={variable: value}, timeout=60)
    stops(result, shown)
    ours = [line for line in result.stderr.splitlines() if "offbeat: " in line]
    assert "\x1b" not in "".join(ours), str(result)


@INSIDE_OFFBEAT
def test_a_launcher_that_ends_no_rank_shows_one_line(mpi: Mpi) -> None:
    """srun ends no rank by default. The ranks start one after the other, rank 0 in the middle."""
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    script = (
        'for rank in 3 0 2 1; do PMI_RANK=$rank OMPI_COMM_WORLD_RANK=$rank MPI_LOCALNRANKS=4 '
        'OMPI_COMM_WORLD_LOCAL_SIZE=4 LD_PRELOAD=$0 "$1" & wait="$wait $!"; sleep 0.05; done; '
        'for one in $wait; do wait $one; [ $? = 2 ] || exit 9; done; exit 2'
    )  # fmt: skip
    environment = clean_environment(mpi) | {"OFFBEAT_RULES": "/missing"}
    result = execute(["sh", "-c", script, str(library(mpi.preload)), str(program)], environment, 60)
    stops(result, "OFFBEAT_RULES: ", "/missing")
    assert result.returncode == 2, str(result)


@on_mpis(lambda mpi: mpi.name in ("mpich", "impi"))
def test_hydra_is_told_when_the_line_is_read(mpi: Mpi) -> None:
    """It ends the job at once, and drops what it has not read of a rank's errors."""
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    told, commands = os.pipe()
    hydra = {"PMI_FD": f"{commands}", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1", "PMI_RANK": "0"}
    environment = clean_environment(mpi) | hydra | {"OFFBEAT_RULES": "/missing"}
    environment["LD_PRELOAD"] = str(library(mpi.preload))
    with subprocess.Popen(
        [str(program)], env=environment, stderr=subprocess.PIPE, pass_fds=[commands]
    ) as rank:
        os.close(commands)
        assert rank.stderr is not None
        select.select([rank.stderr], [], [])
        assert select.select([told], [], [], 0.5)[0] == []
        line = rank.stderr.readline()
        assert os.read(told, 100) == b"cmd=abort exitcode=2\n"
    os.close(told)
    assert line.startswith(b"offbeat: OFFBEAT_RULES"), line
    assert rank.returncode == 2


@INSIDE_OFFBEAT
def test_without_a_launcher_the_line_waits_for_a_paused_reader(mpi: Mpi) -> None:
    """The process itself does not."""
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    environment = clean_environment(mpi) | {"OFFBEAT_RULES": "/missing"}
    environment["LD_PRELOAD"] = str(library(mpi.preload))
    with subprocess.Popen([str(program)], env=environment, stderr=subprocess.PIPE) as alone:
        assert alone.wait(timeout=5) == 2
        assert alone.stderr is not None
        assert alone.stderr.read().startswith(b"offbeat: OFFBEAT_RULES")


@INSIDE_OFFBEAT
def test_the_report_ends_with_the_command_that_says_more(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program, "7 days"], timeout=60).succeeded()
    last = [line for line in result.stderr.splitlines() if line.startswith("offbeat: ")][-1]
    assert last == (
        f"offbeat: what these calls cost, and who is late: offbeat trace -n 2 -- {program} '7 days'; "
        "then: offbeat report run.trace"
    )


def test_a_bad_setting_of_one_rank_ends_the_job(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    of_rank_1 = 'case "$OMPI_COMM_WORLD_RANK$PMI_RANK" in 1) export OFFBEAT_ALLREDUCE=bogus;; esac; exec "$0"'
    result = run(mpi, 2, ["sh", "-c", of_rank_1, program], timeout=60)
    assert result.returncode == 2, str(result)
    assert result.stderr.count("unknown algorithm") == 1, str(result)
