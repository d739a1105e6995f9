# SPDX-License-Identifier: BSD-3-Clause
"""A trace that cannot be written changes nothing in the program, and one line says what is missing."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import PROGRAMS, Mpi, Result, clean_environment, compile_program, execute, on_mpis
from offbeat import trace
from offbeat.trace import layout
from tracing import traced, tracer

RANKS, CALLS = 2, 10_000  # more than two windows of the file have
TOTAL = sum(k % 7 * RANKS + 1 for k in range(CALLS))


def assert_as_natively(done: Result) -> None:
    assert (done.returncode, done.stdout) == (5, f"total {TOTAL}\n"), done


def lines(done: Result) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("offbeat: ")]


@dataclass(frozen=True)
class Case:
    """What a shell does to the folder before the program starts and half way, and what is said about it."""

    line: str
    before: str = "true"
    half_way: str = "true"
    files: int = 0  # that have a trace in the end


CASES = {
    "the folder is a file": Case("not traced: cannot write {folder}: ", before=": >{folder}"),
    "emptied": Case("somebody has cut the file", half_way="for f in {folder}/*; do : >$f; done", files=2),
    "cut": Case("somebody has cut the file", half_way="truncate -s 100000 {folder}/*", files=2),
    "removed": Case("somebody has removed the file", half_way="rm -r {folder}"),
}


@pytest.mark.in_turn(2, "case")
@pytest.mark.parametrize("case", list(CASES))
def test_the_program_runs_as_natively(mpi: Mpi, case: str, tmp_path: Path) -> None:
    program = compile_program(mpi, PROGRAMS / "cut_short.c")
    folder, chosen = tmp_path / "run.trace", CASES[case]
    subprocess.run(["sh", "-c", chosen.before.format(folder=folder)], check=True)
    done = traced(mpi, RANKS, [program, CALLS, chosen.half_way.format(folder=folder)], folder)
    assert_as_natively(done)
    (line,) = lines(done)
    assert chosen.line.format(folder=folder) in line
    assert len(list(folder.glob("*"))) == chosen.files
    if case == "cut":
        has = (100_000 - layout.HEADER_BYTES) // layout.SLOT_BYTES
        read = trace.read(folder)
        missing = [int(file.header["slots"]) - has for file in read.files.values()]
        assert [note.partition(" of its ")[0] for note in read.missing[:2]] == [
            f"rank-00000{rank}.trace is cut off: {missing[rank]}" for rank in range(RANKS)
        ]
        assert min(missing) > 0


@pytest.mark.in_turn(2, "mpi")
def test_a_rank_without_a_file_is_missing_in_the_report(mpi: Mpi, tmp_path: Path) -> None:
    program = compile_program(mpi, PROGRAMS / "cut_short.c")
    rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
    script = f'[ {rank} = 0 ] || OFFBEAT_TRACE=/proc/none; exec "$@"'
    done = traced(mpi, RANKS, ["sh", "-c", script, "sh", program, CALLS, "true"], tmp_path / "run.trace")
    assert_as_natively(done)
    assert lines(done) == ["offbeat: not traced: cannot write /proc/none: No such file or directory"]
    read = trace.read(tmp_path / "run.trace")
    assert read.missing == ["no readable file of rank 1"]
    assert read.records == CALLS


IN_NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
ON_A_SMALL_DISK = (
    'mount -t tmpfs -o $1 none $2 || exit 77; trace=$2/run.trace; copy=$2.copy; shift 2; "$@"; end=$?; '
    "cp -r $trace $copy; exit $end"
)


@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich", "impi"))
@pytest.mark.in_turn(2, "mpi")
def test_a_full_file_system(mpi: Mpi, tmp_path: Path) -> None:
    """It has no room for all records, or no inode for a file."""
    program = compile_program(mpi, PROGRAMS / "cut_short.c")
    for size, words in (("size=1m", "no more calls are recorded: "), ("nr_inodes=2", "not traced: ")):
        disk = tmp_path / size
        disk.mkdir()
        variables = [f"LD_PRELOAD={tracer(mpi)}", f"OFFBEAT_TRACE={disk}/run.trace"]
        job = [*mpi.launch(RANKS), "env", *variables, str(program), str(CALLS), "true"]
        done = execute(
            [*IN_NAMESPACE, ON_A_SMALL_DISK, "sh", size, str(disk), *job], clean_environment(mpi), 60
        )
        if done.returncode == 77 or "unshare" in done.stderr:
            pytest.skip("no mounts here")
        assert_as_natively(done)
        (line,) = lines(done)
        assert words in line
        assert line.endswith(": No space left on device")
    read = trace.read(tmp_path / "size=1m.copy")
    assert read.records < RANKS * CALLS
    assert read.missing == [
        f"{RANKS * CALLS - read.records:,} calls not recorded "
        "(disk full, file cut, or OFFBEAT_TRACE_MIB reached): ranks 0..1"
    ]
