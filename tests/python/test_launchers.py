# SPDX-License-Identifier: BSD-3-Clause
"""Launchers that the user names: srun, and any other as a template. The launchers are made up."""

import json
import shlex
from pathlib import Path

import pytest
from fakes import MPIRUN, MakeMpi, Offbeat, write_program
from offbeat import machine
from offbeat.errors import CommandError
from offbeat.mpi import launcher, libraries
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.launcher import Hosts
from test_commands import values

# Starts as many processes as -n says, one after the other, with an environment of their own.
SRUN = """#!/bin/sh
ranks=1
while true; do
  case "$1" in
    -n) ranks=$2; shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
rank=0
while [ $rank -lt $ranks ]; do
  env -i PATH="$PATH" SLURM_PROCID=$rank "$@" || exit $?
  rank=$((rank + 1))
done
"""


def install(vendor: str) -> MpiInstall:
    family = "openmpi" if vendor == "Open MPI" else "mpich"
    return MpiInstall(vendor, "1.0", family, Path("/m/lib/libmpi.so"), Path("/m/bin/mpirun"), Path("/m"))


@pytest.mark.parametrize(
    ("template", "ranks", "expected"),
    [
        ("srun", 4, "srun -n 4 --exclusive env A=b ./x"),
        ("srun --mpi=pmix", None, "srun --mpi=pmix --exclusive env A=b ./x"),
        ("flux run -n {n}", 4, "flux run -n 4 --exclusive env A=b ./x"),
        ("jsrun --np={n} -a 1", 8, "jsrun --np=8 -a 1 --exclusive env A=b ./x"),
        ("ssh n1 mpiexec -n {n} {program} -x", 2, "ssh n1 mpiexec -n 2 --exclusive env A=b ./x -x"),
    ],
)
def test_templates(template: str, ranks: int | None, expected: str) -> None:
    made = launcher.command(template, ranks, ["--exclusive"], {"A": "b"}, ["./x"])
    assert shlex.join(made) == expected


def test_a_program_within_a_word_is_quoted() -> None:
    made = launcher.command("sh -c 'exec {program}'", None, [], {"A": "b c"}, ["./x", "y z"])
    assert made == ["sh", "-c", "exec env 'A=b c' ./x 'y z'"]
    assert shlex.split(made[2]) == ["exec", "env", "A=b c", "./x", "y z"]


def test_bad_templates() -> None:
    with pytest.raises(CommandError, match="asks for a number of ranks; add -n N"):
        launcher.command("flux run -n {n}", None, [], {}, ["./x"])
    with pytest.raises(CommandError, match="no closing quotation"):
        launcher.parse("srun 'x")
    with pytest.raises(CommandError, match="write a command"):
        launcher.parse(" ")


@pytest.mark.parametrize(
    ("vendor", "template", "expected"),
    [
        ("Open MPI", None, ["--host", "a:2,b:2", "--hostfile", "f"]),
        ("MPICH", None, ["-hosts", "a:2,b:2", "-f", "f"]),
        ("Intel MPI", None, ["-hosts", "a:2,b:2", "-f", "f"]),
        ("MPICH", "/usr/bin/srun --mpi=pmi2", ["--nodelist=a,b", f"--nodelist={Path('f').absolute()}"]),
        ("Open MPI", "prterun", ["--host", "a:2,b:2", "--hostfile", "f"]),
    ],
)
def test_hosts_in_the_words_of_each_launcher(vendor: str, template: str | None, expected: list[str]) -> None:
    hosts = Hosts("a:2,b:2", Path("f"))
    assert launcher.host_options(hosts, install(vendor), template) == expected
    assert launcher.host_options(Hosts(), install(vendor), template) == []


@pytest.mark.parametrize(
    ("names", "ranks"), [("a", 1), ("a,b", 2), ("a:64,b:64", 128), ("a:2,b", 3), ("a:x", 1)]
)
def test_how_many_ranks_hosts_ask_for(names: str, ranks: int) -> None:
    assert launcher.ranks_on(names) == ranks


def test_hosts_of_an_unknown_launcher_are_refused() -> None:
    with pytest.raises(CommandError, match="does not know its option for hosts"):
        launcher.host_options(Hosts("a"), install("MPICH"), "flux run")


def test_srun_gives_each_rank_its_variables(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    """The made-up srun passes nothing on by itself, and the MPI has no mpirun."""
    fake = fake_mpi("mpich", launchers=[])
    write_program(tmp_path / "bin" / "srun", SRUN)
    shown = write_program(
        tmp_path / "show", '#!/bin/sh\necho "$SLURM_PROCID $OFFBEAT_ALLREDUCE $LD_PRELOAD $*"\n'
    )
    done = offbeat(
        "run", "-n", "3", "--launcher", "srun --mpi=pmi2", "--mpi", fake.prefix, "--allreduce", "ring",
        "--", shown, "x y",
        path=tmp_path / "bin",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    library = libraries.preload_library("mpich")
    assert done.stdout.splitlines() == [f"{rank} ring {library} x y" for rank in range(3)]

    traced = offbeat(
        "trace", "-n", "2", "--launcher", "srun", "--mpi", fake.prefix, "--json", "--", "true",
        path=tmp_path / "bin",
    )  # fmt: skip
    assert traced.returncode == 0, traced.stderr
    said = json.loads(traced.stdout)
    assert (said["ranks"], said["calls"], said["exit_code"]) == (0, 0, 0), "nothing started MPI"


def test_run_as_json_starts_nothing(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("openmpi").program(tmp_path / "solver")
    done = offbeat("run", "-n", "2", "--launcher", "srun", "--json", "./solver", "-n", "7")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["mpi"]["vendor"] == "Open MPI"
    assert said["why"] == "solver is linked to it"
    assert said["command"][:4] == ["srun", "-n", "2", "env"]
    assert said["command"][-3:] == ["./solver", "-n", "7"]


def test_run_takes_all_cores_unless_something_else_decides(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    (tmp_path / "hosts").write_text("a\n")
    assert values(offbeat("run", "./solver").stdout, "argument")[:2] == ["-n", str(machine.cores())]
    for decides in (["--hosts", "a,b"], ["--hostfile", "hosts"]):
        arguments = values(offbeat("run", *decides, "./solver").stdout, "argument")
        assert "-n" not in arguments
        assert arguments[-3:-1] == [{"--hosts": "-hosts", "--hostfile": "-f"}[decides[0]], decides[1]]
    assert "-n" not in values(offbeat("run", "./solver", SLURM_JOB_ID="7").stdout, "argument")
    refused = offbeat("run", "--hostfile", "none", "./solver")
    assert refused.returncode == 125
    assert refused.stderr == "offbeat: --hostfile none: there is no such file\n"


def test_the_exit_code_of_a_program_is_told_from_offbeats(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    fake = fake_mpi("mpich")
    fake.program(tmp_path / "solver")
    write_program(fake.prefix / "bin" / "mpirun", MPIRUN.replace("exit 7", "exit 2"))
    assert offbeat("run", "./solver").returncode == 2
    assert offbeat("trace", "./solver").returncode == 2
    assert offbeat("run", "--allreduce", "rng", "./solver").returncode == 125
    assert offbeat("trace", "--every", "0", "./solver").returncode == 125
    assert offbeat("env", "--allreduce", "rng").returncode == 2
