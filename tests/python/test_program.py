# SPDX-License-Identifier: BSD-3-Clause
"""Which libmpi a program uses: compiled programs, scripts, Python."""

import sys
from pathlib import Path

import pytest
from fakes import PROGRAM_SOURCE, MakeMpi, compile_c, write_program
from offbeat.errors import CommandError
from offbeat.mpi import interpreter
from offbeat.mpi.program import find_program, linkage

Environment = dict[str, str]


def test_a_program_that_is_linked(fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path) -> None:
    fake = fake_mpi("openmpi")
    found = linkage(fake.program(tmp_path / "solver"), [], clean_environment)
    assert found.libmpi == fake.libmpi
    assert found.how == "solver is linked to it"


def test_ld_library_path_counts(fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path) -> None:
    fake = fake_mpi("mpich")
    program = fake.program(tmp_path / "solver", rpath=False)
    without = linkage(program, [], clean_environment)
    # A machine may have a libmpi.so.12 where ld.so looks by itself.
    assert without.missing == "libmpi.so.12" or without.libmpi is not None
    found = linkage(program, [], clean_environment | {"LD_LIBRARY_PATH": str(fake.libmpi.parent)})
    assert found.libmpi == fake.libmpi


def test_a_library_that_is_nowhere_is_named(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    fake = fake_mpi("openmpi", soname="libmpi.so.4711")
    assert (
        linkage(fake.program(tmp_path / "p", rpath=False), [], clean_environment).missing == "libmpi.so.4711"
    )


def test_libmpi_behind_another_library(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    """As in Fortran programs: they need libmpi_mpifh, which needs libmpi."""
    fake = fake_mpi("openmpi")
    where = f"-Wl,-rpath,{fake.libmpi.parent}"
    layer = compile_c(
        "int MPI_Init(int*, char***);\nint mpi_init_(void) { return MPI_Init(0, 0); }\n",
        fake.libmpi.parent / "libmpi_mpifh.so.40",
        "-shared", "-fPIC", "-Wl,-soname,libmpi_mpifh.so.40", where, str(fake.libmpi),
    )  # fmt: skip
    source = "int mpi_init_(void);\nint main(void) { return mpi_init_(); }\n"
    program = compile_c(source, tmp_path / "fortran", where, str(layer))
    assert linkage(program, [], clean_environment).libmpi == fake.libmpi


def test_programs_without_mpi_and_shell_scripts_say_nothing(
    clean_environment: Environment, tmp_path: Path
) -> None:
    plain = compile_c("int main(void) { return 0; }\n", tmp_path / "plain")
    script = write_program(tmp_path / "job", "#!/bin/sh\nexec ./solver\n")
    for program in (plain, script):
        found = linkage(program, [], clean_environment)
        assert (found.libmpi, found.missing, found.python) == (None, None, False)


def make_mpi4py(folder: Path, libmpi: Path) -> None:
    """An mpi4py that loads a given library, as the real one does when it is imported."""
    package = folder / "mpi4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class rc: initialize = True\n")
    (package / "MPI.py").write_text(
        "import ctypes, mpi4py\n"
        "assert not mpi4py.rc.initialize, 'MPI must not be started'\n"
        f"ctypes.CDLL({str(libmpi)!r})\n"
    )


def python_environment(environment: Environment, folder: Path) -> Environment:
    return environment | {"PYTHONPATH": str(folder)}


def test_python_follows_mpi4py(fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path) -> None:
    fake = fake_mpi("mpich")
    make_mpi4py(tmp_path / "site", fake.libmpi)
    found = linkage(
        Path(sys.executable),
        ["-c", "from mpi4py import MPI"],
        python_environment(clean_environment, tmp_path / "site"),
    )
    assert found.libmpi == fake.libmpi
    assert found.how.startswith("mpi4py of ")
    assert found.python


def test_a_python_script_by_its_first_line(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    fake = fake_mpi("mpich")
    make_mpi4py(tmp_path / "site", fake.libmpi)
    environment = python_environment(clean_environment, tmp_path / "site")
    script = write_program(tmp_path / "train", f"#!{sys.executable} -u\nimport mpi4py.MPI\n")
    assert linkage(script, [], environment).libmpi == fake.libmpi
    (tmp_path / "tools" / "python3").symlink_to(sys.executable)
    through_env = write_program(tmp_path / "train2", "#!/usr/bin/env python3\nimport mpi4py.MPI\n")
    # A link to the interpreter of a virtual environment is that of its base: PYTHONPATH still holds.
    assert linkage(through_env, [], environment).libmpi == fake.libmpi


def test_other_modules_are_followed_by_their_extension(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    """petsc4py is linked to one MPI, whatever mpi4py would load."""
    openmpi, mpich = fake_mpi("openmpi"), fake_mpi("mpich")
    make_mpi4py(tmp_path / "site", mpich.libmpi)
    package = tmp_path / "site" / "petsc4py"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    compile_c(
        PROGRAM_SOURCE, package / "lib" / "PETSc.so",
        "-shared", "-fPIC", f"-Wl,-rpath,{openmpi.libmpi.parent}", str(openmpi.libmpi),
    )  # fmt: skip
    environment = python_environment(clean_environment, tmp_path / "site")
    script = tmp_path / "solve.py"
    script.write_text("import sys\nfrom petsc4py import PETSc\n")
    assert linkage(Path(sys.executable), [str(script)], environment).libmpi == openmpi.libmpi
    script.write_text("from mpi4py import MPI\n")
    assert linkage(Path(sys.executable), [str(script)], environment).libmpi == mpich.libmpi


def test_python_without_any_mpi(clean_environment: Environment, tmp_path: Path) -> None:
    for name in ("mpi4py", "petsc4py"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").write_text("raise ImportError('broken')\n")
    found = linkage(
        Path(sys.executable), ["-c", "pass"], python_environment(clean_environment, tmp_path / "site")
    )
    assert (found.libmpi, found.missing, found.python) == (None, None, True)


def test_the_source_that_python_runs(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("import petsc4py\n")
    assert interpreter.source_of(["-u", "-X", "dev", str(script), "-c", "no"]) == "import petsc4py\n"
    assert interpreter.source_of(["-c", "import x", "y"]) == "import x"
    assert interpreter.source_of(["-m", "mpi4py.futures", "a.py"]) == "import mpi4py.futures"
    assert interpreter.source_of([]) == interpreter.source_of(["missing.py"]) == ""


def test_imports_are_found_anywhere_in_a_source() -> None:
    source = (
        "import os, mpi4py.MPI as M\ndef f():\n    from petsc4py.PETSc import Mat\n    from . import local\n"
    )
    assert interpreter.imported_modules(source) == {"os", "mpi4py", "petsc4py"}
    assert interpreter.imported_modules("this is no Python") == set()


def test_programs_are_found_on_path_and_in_this_folder(
    clean_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = write_program(tmp_path / "solver", "#!/bin/sh\n")
    assert find_program("solver", clean_environment) == program
    assert find_program("./solver", clean_environment) == program
    assert find_program("sh", clean_environment) == tmp_path / "tools" / "sh"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "program 'missing' not found on PATH or in this folder"),
        ("./missing", "program './missing' not found$"),
        ("./folder", "./folder is a folder, not a program"),
        ("./data", "./data is not executable$"),
        ("./train.py", r"./train.py is not executable; a Python script is run as: python ./train.py"),
    ],
)
def test_programs_that_cannot_run(
    clean_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "data").write_text("")
    (tmp_path / "train.py").write_text("")
    with pytest.raises(CommandError, match=message):
        find_program(name, clean_environment)
