# SPDX-License-Identifier: BSD-3-Clause
"""Whatever a user gets wrong: one line that says what, and exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest
from fakes import MakeMpi, Offbeat, write_program
from offbeat.errors import BAD_INPUT, CANNOT_START, FAILED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nonsense"], "No such option"),
        (["fly"], "No such command 'fly'"),
        (["run"], "Missing argument 'PROGRAM'"),
        (
            ["run", "-n", "two", "true"],
            "Invalid value for '-n' / '-np' / '--ranks': 'two' is not a whole number",
        ),
        (["bench", "-n", "2.5"], "'2.5' is not a whole number"),
        (["pattern", "ascending", "--mif", "high"], "Invalid value for '--mif': 'high' is not a number"),
        (["bench", "--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'table', 'csv'"),
        (["bench", "-o", "x.json"], "unknown operation 'x.json'; there are sum,"),
        (["bench", "-o", "x.json"], "(-o is --op here; the file is --json)"),
        (["env", "--native"], "--native preloads only the tracer: add --trace FOLDER"),
        (
            ["env", "--native", "--trace", "t", "--allreduce", "ring"],
            "--native leaves the algorithms to the MPI",
        ),
        (["explain", "bcast", "--rules", "data", "--ppn", "x"], "'x' is not a whole number"),
        (["info", "alltoallw"], "offbeat does not serve 'alltoallw'"),
        (["calibrate", "--hostfile", "none"], "--hostfile none: there is no such file"),
        (["export", "folder", "-o", "x.csv", "--from", "soon"], "'soon' is not a duration"),
        (["run", "-n", "0", "true"], "the number of ranks must be at least 1"),
        (["run", "-n", "-3", "true"], "the number of ranks must be at least 1"),
        (["run", "--allreduce", "rng", "true"], "column 1: unknown algorithm 'rng' (did you mean 'ring'?)"),
        (["run", "--allreduce", "pipeline(4, rng)", "true"], "column 13: unknown algorithm 'rng'"),
        (["run", "--allreduce", "pipeline(4, ring", "true"], "column 17"),
        (["run", "--allreduce", "", "true"], "column 1"),
        (["run", "--", "missing"], "program 'missing' not found"),
        (["run", "--", "./data"], "./data is not executable"),
        (["run", "--", "./folder"], "./folder is a folder"),
        (["run", "--mpi", "lam", "true"], "--mpi lam: no such MPI here"),
        (["run", "--mpi", "/nonexistent", "true"], "no such file or folder"),
        (["run", "--mpi", "./folder", "true"], "there is no MPI library"),
        (["run", "--mpirun-args", "'", "true"], "no closing quotation"),
        (["env", "--shell", "cmd"], "Invalid value for '--shell': 'cmd' is not one of"),
        (["env", "--allreduce", "rng"], "unknown algorithm"),
        (["run", "--algorithm", "bcast", "true"], "write COLLECTIVE=EXPR"),
        (["run", "--algorithm", "alltoallw=ring", "true"], "offbeat does not serve 'alltoallw'"),
        (["run", "--algorithm", "bcast=ring", "true"], "bcast expression 'ring'"),
        (
            ["env", "--algorithm", "bcast=chain", "--algorithm", "bcast=linear"],
            "bcast already has an algorithm",
        ),
        (
            ["env", "--allreduce", "ring", "--algorithm", "allreduce=linear"],
            "allreduce already has an algorithm",
        ),
        (["env", "missing"], "program 'missing' not found"),
        (["run", "-n", "99999999999", "true"], "-n 99999999999: at most 2,147,483,647 ranks are possible"),
        (["bench", "-n", "0"], "the number of ranks must be at least 1"),
        (["bench", "-n", "99999999999"], "-n 99999999999: at most 1,048,576 ranks are possible"),
        (
            ["bench", "--iterations", "99999999999"],
            "--iterations 99999999999: it must be from 1 to 1,000,000",
        ),
        (["bench", "--warm-up", "99999999999"], "--warm-up 99999999999: it must be from 0 to 1,000,000,000"),
        (["bench", "--patterns", ""], "unknown arrival pattern ''"),
        (["bench", "--json", "folder"], "--json folder: it is a folder"),
        (["bench", "--json", ""], "--json .: it is a folder"),
        (["calibrate", "-o", ""], "-o .: it is a folder"),
        (["calibrate", "-o", "folder"], "-o folder: it is a folder"),
        (["calibrate", "--hosts", "a:600000,b:600000"], "-n 1200000: at most 1,048,576 ranks are possible"),
        (["calibrate", "-n", "99999999999"], "-n 99999999999: at most 1,048,576 ranks are possible"),
        (["tune", "-o", ""], "-o .: it is a folder"),
        (["tune", "-o", "folder"], "-o folder: it is a folder"),
        (["tune", "-n", "1048577"], "-n 1048577: at most 1,048,576 ranks are possible"),
        (["tune", "-n", 30 * "9"], "not a number of ranks"),
        (["tune", "--simulate", "", "--nodes", "9"], "unknown machine ''"),
        (
            ["tune", "--simulate", "ethernet", "--objective", "trace:folder"],
            "--objective trace:folder: with --simulate write robust or balanced",
        ),
        (["bench", "--algorithms", "native,rng"], "unknown algorithm 'rng'"),
        (["bench", "--algorithms", "native,"], "column 1"),
        (["bench", "--sizes", "4,x"], "'x' is not a size"),
        (["bench", "--sizes", "6"], "not a whole number of floats"),
        (["bench", "--sizes", "0"], "not a whole number of floats"),
        (["bench", "--sizes", "4..8GiB"], "8589934592 bytes are more than the 2147483647 floats"),
        (["bench", "--patterns", "late"], "unknown arrival pattern 'late'"),
        (["bench", "--skew", "soon"], "is not a skew"),
        (["bench", "--budget", "0"], "'0' is not a duration: write seconds above 0"),
        (
            ["bench", "--budget", "nan"],
            "'nan' is not a duration: write seconds above 0, or a number with us, ms, s, min or h",
        ),
        (["bench", "--json", "data"], "data exists; add --force"),
        (["bench", "--json", "nowhere/out.json"], "there is no folder"),
        (["bench", "--mpi", "lam"], "no such MPI here"),
        (["info", "--nonsense"], "No such option"),
        (
            ["simulate", "--machine", "cray"],
            "unknown machine 'cray'; there are blue_waters, cluster, ethernet",
        ),
        (["simulate", "--machine", 5000 * "a"], "unknown machine 'aaa"),
        (["simulate", "--ppn", "70000", "--nodes", "1"], "a board has at most 65536 ranks"),
        (["simulate", "--machine", "./missing.toml"], "cannot read ./missing.toml"),
        (["simulate", "--machine", "./folder"], "cannot read ./folder"),
        (["simulate", "--machine", "./data"], "./data: "),
        (["simulate", "--nodes", "0"], "--nodes 0: write numbers such as 4,16 or a range"),
        (["simulate", "--nodes", "8..4"], "--nodes 8..4: write numbers"),
        (["simulate", "--nodes", "many"], "--nodes many: write numbers"),
        (["simulate", "--ppn", "0"], "a node has at least one rank"),
        (["simulate", "--nodes", "1000000"], "16,000,000 ranks; at most 1,048,576"),
        (["simulate", "--collective", "alltoallw"], "--collective alltoallw: offbeat serves allreduce"),
        (["simulate", "--algorithms", "rng"], "unknown algorithm 'rng' (did you mean 'ring'?)"),
        (["simulate", "--algorithms", "native"], "native on 8 x 16 ranks: it is the host MPI's own"),
        (["simulate", "--algorithms", "arrival_tree"], "it needs all ranks on one node"),
        (["simulate", "--sizes", "6"], "not a whole number of floats"),
        (["simulate", "--patterns", "late"], "unknown arrival pattern 'late'"),
        (["simulate", "--skew", "soon"], "is not a skew"),
        (["simulate", "--draws", "0"], "--draws 0: it must be from 1 to 1,024"),
        (["simulate", "--draws", "1025"], "--draws 1025: it must be from 1 to 1,024"),
        (["simulate", "--json", "nowhere/out.json"], "there is no folder"),
        (["simulate", "-o", "data"], "data exists; add --force"),
        (["pattern", "late", "--skew", "1us"], "unknown arrival pattern 'late'"),
        (["pattern", "ascending"], "say how late the latest rank is"),
        (["pattern", "ascending", "--skew", "1.5"], "a pattern file has times"),
        (["pattern", "ascending", "--skew", "1us", "--mif", "2"], "give one"),
        (["pattern", "ascending", "--mif", "2"], "--mif and --alpha belong together"),
        (["pattern", "ascending", "--mif", "-1", "--alpha", "1us"], "must not be negative"),
        (["pattern", "ascending", "--skew", "1us", "-n", "0"], "at least 1"),
        (["pattern", "ascending", "--skew", "1us", "-n", "99999999999"], "at most 1,048,576 ranks are"),
        (["pattern", "ascending", "--skew", "1us", "-o", "data"], "data exists; add --force"),
        (["pattern", "ascending", "--skew", "1us", "-o", "no/where"], "there is no folder"),
        (["pattern", "./data", "-o", "x"], "no line with a delay"),
        (["report"], "Missing argument"),
        (["report", "nowhere.trace"], "no such trace"),
        (["report", "data"], "data cannot be read: it is not a trace of offbeat"),
        (["report", "folder", "-o", "data"], "data exists; add --force"),
        (["report", "folder", "-o", "folder"], "folder is a folder"),
        (["report", "folder", "--figures", "data"], "it is not a folder"),
        (["report", "folder"], "folder is not a trace"),
        (["export", "folder", "-o", "x.json"], "folder is not a trace"),
        (["export", "folder", "-o", "x.txt"], "must end in one of .json (Perfetto), .csv"),
        (["export", "folder", "-o", "x.csv", "--from", "2", "--to", "1"], "nothing between"),
    ],
)
def test_one_line_and_the_exit_code_of_bad_input(
    offbeat: Offbeat, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "data").write_text("")
    (tmp_path / "folder").mkdir()
    assert_refused(offbeat(*arguments), message)
    assert (tmp_path / "data").read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            ["run", "--allreduce", "ring\nng\x1b[2J", "true"],
            r"expression 'ring\nng\x1b[2J': column 6: unexpected 'ng\x1b[2J'",
        ),
        (["run", "--mpi", "la\rm\x07", "true"], r"--mpi la\rm\x07: no such MPI here"),
        (["run", "--", "mis\udcffsing\u202e"], r"program 'mis\xffsing\xe2\x80\xae' not found"),
        (["bench", "--sizes", "4,\x9b31mx"], r"'\xc2\x9b31mx' is not a size"),
        (["bench", "--algorithms", "native,\x01"], r"found '\x01'"),
        (["fly\x1b"], r"No such command"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(offbeat: Offbeat, arguments: list[str], shown: str) -> None:
    done = offbeat(*arguments)
    assert_refused(done, shown)
    assert done.stderr[:-1].isprintable()


@pytest.mark.parametrize(("verb", "code"), [("info", FAILED), ("run", CANNOT_START)])
def test_what_the_machine_refuses_is_one_line(verb: str, code: int) -> None:
    words = [sys.executable, "-m", "offbeat", verb, *(["true"] if verb == "run" else [])]
    limited = ["sh", "-c", 'ulimit -n 8; exec "$@"', "sh", *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, "offbeat: Too many open files\n")


def test_a_long_text_is_cut(offbeat: Offbeat) -> None:
    done = offbeat("run", "--allreduce", "x" * 100000, "true")
    assert_refused(done, "offbeat: allreduce expression 'xxx")
    assert len(done.stderr) < 1100
    assert "unknown algorithm 'xxx" in done.stderr, "the end says what is wrong"


def assert_refused(done: "subprocess.CompletedProcess[str]", message: str) -> None:
    lines = done.stderr.splitlines()
    # Arguments are python -m offbeat VERB. The codes of run and trace are those of mpirun, except this one.
    starts = done.args[3] in ("run", "trace")
    assert done.returncode == (CANNOT_START if starts else BAD_INPUT), done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("offbeat: ")
    assert message in lines[0]
    # What env prints is evaluated, so that must fail, too.
    assert done.stdout == ("false\n" if done.args[3] == "env" else "")


def test_a_program_of_another_mpi(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    openmpi, mpich = fake_mpi("openmpi"), fake_mpi("mpich")
    program = openmpi.program(tmp_path / "solver")
    assert_refused(offbeat("run", "--mpi", mpich.prefix, program), "so it cannot run with MPICH 4.3.1")


def test_an_mpi_without_mpirun(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    program = fake_mpi("cray", launchers=[]).program(tmp_path / "solver")
    assert_refused(offbeat("run", program), "has no mpirun")


@pytest.mark.parametrize("verb", ["bench", "tune", "calibrate"])
def test_a_launcher_that_is_not_there(offbeat: Offbeat, fake_mpi: MakeMpi, verb: str) -> None:
    done = offbeat(verb, "--mpi", fake_mpi("mpich").prefix, "--launcher", "nowhere")
    assert done.returncode == BAD_INPUT
    assert done.stderr.splitlines()[-1] == "offbeat: cannot execute nowhere: No such file or directory"


def test_an_mpirun_that_cannot_be_executed(offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path) -> None:
    fake = fake_mpi("mpich")
    write_program(fake.prefix / "bin" / "mpirun", "#!/nonexistent/shell\n")
    assert_refused(offbeat("run", fake.program(tmp_path / "solver")), "cannot execute")
