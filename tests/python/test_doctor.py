# SPDX-License-Identifier: BSD-3-Clause
"""What offbeat doctor concludes, and that it sees what is there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import MakeMpi, Offbeat
from offbeat import machine
from offbeat.bench import health
from offbeat.bench.health import Check, Status
from offbeat.bench.probe import RankFacts
from offbeat.commands.output import warn_of_load
from offbeat.mpi import discovery

GIB = 1 << 30
WELL = RankFacts(0, "n0", "0-1", True, True, True, True, 8 * GIB, 4 * GIB, -1)


def check(name: str, *ranks: RankFacts) -> Check:
    (found,) = [each for each in health.checks_of_ranks(ranks) if each.name == name]
    return found


def pair(**changed: object) -> list[RankFacts]:
    return [WELL, replace(WELL, rank=1, **changed)]  # type: ignore[arg-type]


def test_all_is_well() -> None:
    found = health.checks_of_ranks(pair())
    assert [each.name for each in found] == ["preload", "shared memory", "cores", "locked memory"]
    assert {each.status for each in found} == {Status.ok}


@pytest.mark.parametrize(
    ("name", "status", "words", "changed"),
    [
        ("preload", Status.failed, "not loaded in 1 of 2 ranks, the first is rank 1", {"loaded": False}),
        ("preload", Status.failed, "does not reach liboffbeat on rank 1", {"intercepted": False}),
        ("results", Status.failed, "wrong sum", {"right": False}),
        ("shared memory", Status.failed, "the ranks of n0 do not share memory", {"board": False}),
        ("shared memory", Status.warning, "64.0 MiB of it free; 2 ranks may want 128 MiB",
         {"free_shared_bytes": 64 << 20}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(name: str, status: Status, words: str, changed: dict[str, object]) -> None:
    found = check(name, *pair(**changed))
    assert found.status is status
    assert words in found.text
    assert found.advice


def test_shared_cores() -> None:
    three = [replace(WELL, rank=rank) for rank in range(3)]
    assert check("cores", *three).text == "3 ranks share 2 CPUs on n0"
    bound = [replace(WELL, rank=rank, cpus=str(rank)) for rank in range(3)]
    assert check("cores", *bound).status is Status.ok
    on_one = [replace(WELL, rank=rank, cpus="0") for rank in range(2)]
    assert check("cores", *on_one).text == "2 ranks share 1 CPU on n0"


def test_locked_memory_matters_between_hosts() -> None:
    limited = {"lockable_bytes": 8 << 20}
    assert check("locked memory", *pair(**limited)).status is Status.ok
    found = check("locked memory", *pair(**limited, host="n1"))
    assert (found.status, found.text) == (Status.warning, "at most 8.0 MiB (ulimit -l)")


def test_a_job_that_cannot_start_is_a_failed_check(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    done = offbeat("doctor", "--json", "--", "./solver", OFFBEAT_ALREDUCE="ring")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["healthy"] is False
    by_name = {each["name"]: each for each in said["checks"]}
    assert "solver is linked to it" in by_name["MPI"]["text"]
    assert by_name["ranks"]["status"] == "failed"
    assert "ended with exit code 7" in by_name["ranks"]["text"]
    assert by_name["settings"]["text"] == "no settings of offbeat: OFFBEAT_ALREDUCE"


def test_no_mpi_at_all(offbeat: Offbeat) -> None:
    done = offbeat("doctor", "--mpi", "lam")
    assert done.returncode == 1
    assert "no such MPI here" in done.stdout


@pytest.mark.with_ranks
def test_real_ranks_are_well(offbeat: Offbeat) -> None:
    done = offbeat("doctor", "-n", "2", "--mpi", "embedded", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    by_name = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert by_name["preload"]["text"] == "offbeat sees the calls of all 2 ranks"
    assert by_name["shared memory"]["status"] in ("ok", "warning")
    # The MPI's own mpirun as a launcher that the user names.
    mpirun = discovery.embedded()
    assert mpirun is not None
    without = offbeat(
        "doctor", "-n", "2", "--mpi", "embedded", "--launcher", f"{mpirun.mpirun} -n {{n}}", "--json",
        OFFBEAT_BOARD_KIB="0",
    )  # fmt: skip
    assert without.returncode == 1
    assert "the ranks of" in without.stdout
    assert "do not share memory" in without.stdout


def test_a_busy_machine_is_told_before_measuring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for load, said in ((8.0, ""), (14.26, "the load of this host is 14.3, more than twice its 4 CPUs")):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        warn_of_load()
        assert capsys.readouterr().err == (f"offbeat: {said}, so times may be wrong\n" if said else "")
        assert machine.overload_warning() == (said or None)
