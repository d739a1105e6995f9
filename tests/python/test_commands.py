# SPDX-License-Identifier: BSD-3-Clause
"""The verbs, called as a user calls them; mpirun is made up."""

import json
import re
import subprocess
from pathlib import Path

import offbeat as package
import pytest
from fakes import MakeMpi, Offbeat, write_program
from made_traces import START_NS, begun
from offbeat.commands.env import Shell, render
from offbeat.commands.root import ROOT as COMMAND
from offbeat.commands.traced import TraceSummary
from offbeat.errors import CommandError
from offbeat.mpi import libraries


def test_version_and_help(offbeat: Offbeat) -> None:
    assert offbeat("--version").stdout == f"offbeat {package.__version__}\n"
    for arguments in ([], ["--help"], ["-h"]):
        done = offbeat(*arguments)
        assert done.returncode == 0
        assert all(verb in done.stdout for verb in COMMAND.names)
    assert offbeat("rules").stdout == offbeat("rules", "--help").stdout
    assert "offbeat rules [OPTIONS] COMMAND" in offbeat("rules").stdout


def values(text: str, kind: str) -> list[str]:
    return [line.removeprefix(f"{kind}: ") for line in text.splitlines() if line.startswith(f"{kind}: ")]


def test_run_becomes_the_mpirun_of_the_programs_mpi(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    fake, other = fake_mpi("openmpi"), fake_mpi("mpich")
    fake.program(tmp_path / "solver")
    done = offbeat(
        "run", "-n", "2", "--allreduce", "pipeline( 4,ring)", "--mpirun-args", "--bind-to 'no ne'",
        "--", "./solver", "-n", "7", "--", "x y",
        path=other.prefix / "bin",
    )  # fmt: skip
    assert done.returncode == 7, "the exit code is that of mpirun"
    assert values(done.stdout, "mpirun") == [str(fake.prefix / "bin" / "mpirun")]
    arguments = values(done.stdout, "argument")
    library = libraries.preload_library("openmpi")
    assert arguments[:2] == ["-n", "2"]
    assert f"LD_PRELOAD={library}" in arguments
    assert "OFFBEAT_ALLREDUCE=pipeline(4, ring)" in arguments
    assert arguments[-7:] == ["--bind-to", "no ne", "./solver", "-n", "7", "--", "x y"]
    assert not any("LD_PRELOAD" in line for line in values(done.stdout, "variable"))
    assert done.stderr == ""


def test_run_needs_no_dashes_before_the_program(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    arguments = values(offbeat("run", "-n", "2", "./solver", "-n", "7", "-v").stdout, "argument")
    assert arguments[-4:] == ["./solver", "-n", "7", "-v"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "mpirun", "-n", "2", "./solver", "-n", "7"], "offbeat run -n 2 -- ./solver -n 7"),
        (
            ["run", "-n", "2", "--", "mpiexec", "-np", "4", "--map-by", "env", "./solver"],
            "offbeat run -n 4 --mpirun-args '--map-by env' -- ./solver",
        ),
        (["trace", "mpirun", "./solver"], "offbeat trace -n N -- ./solver"),
        (["trace", "srun", "--mpi=pmix", "--ntasks=8", "./solver"],
         "offbeat trace -n 8 --launcher 'srun --mpi=pmix' -- ./solver"),
        (["run", "mpirun", "-n", "1", "./solver", ":", "-n", "1", "./solver"],
         "offbeat run -n N -- PROGRAM ARGUMENTS"),
        (["doctor", "mpirun", "-n", "2", "./solver"], "offbeat doctor -n 2 -- ./solver"),
    ],
)  # fmt: skip
def test_a_launcher_before_the_program_is_a_hint(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path, words: list[str], hint: str
) -> None:
    fake = fake_mpi("openmpi", launchers=["mpirun", "mpiexec", "srun", "sbatch"])
    fake.program(tmp_path / "solver")
    done = offbeat(*words, path=fake.prefix / "bin")
    said = done.stderr + " ".join(done.stdout.split())
    assert "would start once for each rank" in said
    assert f"type: {hint}" in said, said
    assert done.returncode != 0
    assert values(done.stdout, "argument") == []


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_program_with_the_name_of_a_launcher_runs(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path, is_linked: bool
) -> None:
    fake = fake_mpi("mpich", launchers=["mpirun", "mpiexec"])
    if is_linked:
        fake.program(tmp_path / "bin" / "srun")
        write_program(tmp_path / "bin" / "mpirun", "#!/bin/sh\n")
    else:
        write_program(tmp_path / "bin" / "srun", "#!/bin/sh\nexec ./solver\n")
    done = offbeat("run", "-n", "2", "bin/srun", "-n", "7", path=fake.prefix / "bin")
    assert values(done.stdout, "argument")[-3:] == ["bin/srun", "-n", "7"], done
    assert done.stderr == ""


def test_run_says_what_it_does(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake = fake_mpi("mpich")
    fake.program(tmp_path / "solver")
    done = offbeat("run", "-n", "3", "-v", "./solver")
    first, second = done.stderr.splitlines()
    assert first == f"offbeat: MPICH 4.3.1 ({fake.libmpi}): solver is linked to it"
    assert second.startswith(f"offbeat: {fake.prefix}/bin/mpirun -n 3 -genv LD_PRELOAD ")


def test_run_under_intel_mpi(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake = fake_mpi("intel", launchers=["mpiexec.hydra"])
    fake.program(tmp_path / "solver")
    variables = values(offbeat("run", "./solver").stdout, "variable")
    assert f"I_MPI_ROOT={fake.prefix}" in variables
    assert f"LD_LIBRARY_PATH={fake.prefix}/lib" in variables


def test_trace_leaves_the_algorithms_to_the_host(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    sampling = ["--every", "10", "--ranks-every", "4"]
    done = offbeat("trace", "-n", "2", "-o", "new.trace", *sampling, "./solver", "-n", "7")
    assert done.returncode == 7, "the exit code is that of mpirun"
    assert done.stderr == (
        "offbeat: there is no trace in new.trace: the program did not start MPI, or a line above says why it "
        "was not traced\n"
    )
    arguments = values(done.stdout, "argument")
    assert arguments[2:] == [
        "-genv", "LD_PRELOAD", str(libraries.trace_library("mpich")),
        "-genv", "OFFBEAT_TRACE", str(tmp_path / "new.trace"),
        "-genv", "OFFBEAT_TRACE_EVERY", "10", "-genv", "OFFBEAT_TRACE_RANKS_EVERY", "4",
        "./solver", "-n", "7",
    ]  # fmt: skip


def test_run_and_env_trace_offbeats_algorithms(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    both = f"{libraries.trace_library('mpich')}:{libraries.preload_library('mpich')}"
    for arguments in (["run", "--trace"], ["trace", "--allreduce", "ring", "-o"]):
        said = values(offbeat(*arguments, "new.trace", "./solver").stdout, "argument")
        assert said[3:5] == ["LD_PRELOAD", both]
        assert f"{tmp_path / 'new.trace'}" in said
    as_json = json.loads(offbeat("env", "--trace", "new.trace", "--shell", "json", "./solver").stdout)
    assert as_json == {"LD_PRELOAD": both, "OFFBEAT_TRACE": str(tmp_path / "new.trace")}


def test_a_trace_is_replaced_only_on_demand(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    folder = tmp_path / "old.trace"
    (folder / "spawned-1f").mkdir(parents=True)
    for name in ("rank-000000.trace", "spawned-1f/rank-000000.trace", "notes.txt"):
        (folder / name).write_text("mine")
    for arguments in (["trace", "-o"], ["run", "--trace"], ["env", "--trace"]):
        done = offbeat(*arguments, "old.trace", "./solver")
        assert done.returncode == (2 if arguments[0] == "env" else 125)
        assert done.stderr.startswith("offbeat: old.trace already has a trace; ")
        assert done.stderr.count("\n") == 1
    assert offbeat("trace", "-o", "old.trace", "--force", "./solver").returncode == 7
    assert [path.name for path in folder.iterdir()] == ["notes.txt"], "nothing but traces is removed"
    for arguments in (["trace", "-o"], ["run", "--trace"], ["env", "--trace"]):
        done = offbeat(*arguments, "old.trace/notes.txt", "./solver")
        assert done.stderr == "offbeat: old.trace/notes.txt is not a folder\n"


def test_the_line_after_a_trace_says_what_it_has(tmp_path: Path) -> None:
    for rank in (0, 2):
        made = begun(rank, 4, lost=5 * rank, made=7 + 5 * rank)
        made.call(0, START_NS, START_NS + 9)
        made.write(tmp_path)
    found = TraceSummary.of(tmp_path)
    assert str(found).startswith(
        f"24 collective calls on 2 of 4 ranks, 10 of them not recorded, traced in {tmp_path}; next: "
    )
    path = tmp_path / "rank-000002.trace"
    path.write_bytes(path.read_bytes()[:-10])
    assert f"traced in {tmp_path}, with 1 file cut while the program ran; next: " in str(
        TraceSummary.of(tmp_path)
    )
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    found = TraceSummary.of(tmp_path)
    assert str(found) == f"there is no trace in {tmp_path}: 2 files cut while the program ran"
    assert (found.ranks, found.cut) == (0, 2)


def test_env_can_be_evaluated(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    done = offbeat(
        "env", "--allreduce", "pipeline(4, ring)", "--algorithm", "bcast=pipeline( 8,chain)", "./solver"
    )
    assert done.returncode == 0
    script = f'{done.stdout}\necho "$LD_PRELOAD|$OFFBEAT_ALLREDUCE|$OFFBEAT_BCAST"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == f"{libraries.preload_library('mpich')}|pipeline(4, ring)|pipeline(8, chain)\n"
    as_json = json.loads(offbeat("env", "--shell", "json", "./solver").stdout)
    assert as_json == {"LD_PRELOAD": str(libraries.preload_library("mpich"))}


def test_eval_of_an_env_that_fails_fails(offbeat: Offbeat) -> None:
    for arguments in (["env", "--", "./nothere"], ["env", "--nonsense"], ["env", "--shell", "cmd"]):
        done = offbeat(*arguments)
        assert (done.returncode, done.stdout) == (2, "false\n")
        evaluated = subprocess.run(["sh", "-c", f'eval "{done.stdout}"'], check=False)
        assert evaluated.returncode != 0
    assert offbeat("env", "--json", "--", "./nothere").stdout == ""


def test_env_can_leave_the_algorithms_to_the_mpi(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    done = offbeat("env", "--native", "--trace", "new.trace", "--json", "./solver")
    assert json.loads(done.stdout) == {
        "LD_PRELOAD": str(libraries.trace_library("mpich")),
        "OFFBEAT_TRACE": str(tmp_path / "new.trace"),
    }


def test_trace_in_the_shell_of_an_env(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    mpich = fake_mpi("mpich")
    mpich.program(tmp_path / "solver")
    # Libraries of these names: ld.so warns about one that is missing, on the same stream.
    preloaded = []
    for name in ("liboffbeat-mpich.so", "liboffbeat-openmpi.so"):
        preloaded.append(tmp_path / "earlier" / name)
        preloaded[-1].parent.mkdir(exist_ok=True)
        preloaded[-1].write_bytes(mpich.libmpi.read_bytes())
    done = offbeat("trace", "-o", "t", "./solver", LD_PRELOAD=":".join(map(str, preloaded)))
    said = values(done.stdout, "argument")
    assert said[said.index("LD_PRELOAD") + 1] == str(libraries.trace_library("mpich"))


def test_ranks_may_be_spelled_as_for_mpirun(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("mpich").program(tmp_path / "solver")
    said = values(offbeat("run", "-np", "3", "./solver", "-np", "7").stdout, "argument")
    assert said[:2] == ["-n", "3"]
    assert said[-3:] == ["./solver", "-np", "7"]


def test_open_mpi_6_gets_its_own_libraries(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake_mpi("openmpi6").program(tmp_path / "solver")
    done = offbeat("env", "--trace", "t", "--json", "--", "./solver")
    both = f"{libraries.trace_library('openmpi6')}:{libraries.preload_library('openmpi6')}"
    assert json.loads(done.stdout)["LD_PRELOAD"] == both


def test_env_in_every_shell() -> None:
    variables = {"A": "pipeline(4, ring)", "B": "it's!"}
    assert render(variables, Shell.sh).splitlines()[0] == "export A='pipeline(4, ring)'"
    assert render(variables, Shell.csh).splitlines() == [
        "setenv A 'pipeline(4, ring)';",
        """setenv B 'it'"'"'s\\!';""",
    ]
    assert render(variables, Shell.fish).splitlines() == [
        "set -gx A 'pipeline(4, ring)';",
        "set -gx B 'it\\'s!';",
    ]
    assert json.loads(render(variables, Shell.json)) == variables


def test_info_lists_what_is_here(offbeat: Offbeat, fake_mpi: MakeMpi) -> None:
    fake = fake_mpi("mpich")
    done = offbeat("info", "--json", path=fake.prefix / "bin")
    found = json.loads(done.stdout)
    assert found["version"] == package.__version__
    first = found["mpi"][0]
    assert (first["name"], first["vendor"], first["libmpi"]) == ("mpich", "MPICH", str(fake.libmpi))
    assert first["served_by"] == "liboffbeat-mpich.so"
    assert any(mpi["vendor"] == "Open MPI" for mpi in found["mpi"]), "the embedded one"
    assert first["host_algorithms"] is None, "MPICH 4.3.1 was not checked"
    names_of = {mpi["version"]: mpi["host_algorithms"] for mpi in found["mpi"]}
    assert "ring" in names_of["5.0.11"]["allreduce"]
    assert all(library["path"] for library in found["libraries"])
    names = {algorithm["name"] for algorithm in found["algorithms"]}
    assert {"native", "ring", "recursive_doubling", "pipeline"} <= names
    other_bits = {algorithm["name"] for algorithm in found["algorithms"] if not algorithm["every_run"]}
    assert other_bits == {"native", "arrival_leader", "arrival_chain"}
    assert {setting["name"] for setting in found["settings"]} >= {"OFFBEAT_ALLREDUCE", "OFFBEAT_VERBOSE"}


def test_info_for_people(offbeat: Offbeat, fake_mpi: MakeMpi) -> None:
    where = fake_mpi("mpich").prefix / "bin"
    short = offbeat("info", path=where, OFFBEAT_VERBOSE="1").stdout
    for words in ("mpich-4.3.1", "This machine", "cores", "offbeat info COLLECTIVE"):
        assert words in short
    assert re.search(r"^ OFFBEAT_VERBOSE +1 +0 *$", short, re.MULTILINE), short
    assert "recursive_doubling" not in short
    assert len(short.splitlines()) < 60
    text = offbeat("info", "allreduce", path=where).stdout
    assert not re.search(r"^ bcast |Algorithms of bcast", text, re.MULTILINE), text
    assert "Algorithms of bcast" in offbeat("info", "--all", path=where).stdout
    assert re.search(r"native\(NAME\) under MPICH 4.3.1\s+call\s+NAME\s+─+\s+not checked under", text), text
    assert re.search(r"^ allreduce +linear, nonoverlapping, recursive_doubling, ring", text, re.MULTILINE), (
        text
    )
    assert "recursive_doubling" in text
    assert "OFFBEAT_ALLREDUCE" in offbeat("info", "--settings").stdout


def test_info_does_not_break_paths(offbeat: Offbeat, fake_mpi: MakeMpi) -> None:
    mpi = fake_mpi("mpich", "/".join(["a" * 60] * 3))
    assert f" {mpi.libmpi} " in offbeat("info", path=mpi.prefix / "bin").stdout


def test_a_family_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    with pytest.raises(CommandError, match=r"no liboffbeat-mpiabi\.so, for the MPI standard ABI"):
        libraries.preload_library("mpiabi")
    with pytest.raises(CommandError, match="no offbeat-launch, for programs that use MPI"):
        libraries.bench_files("mpich")
    assert libraries.installed() == {}
