# SPDX-License-Identifier: BSD-3-Clause
"""What an MPI library is, and which mpirun belongs to it."""

from pathlib import Path

import pytest
from fakes import MakeMpi, write_program
from offbeat.mpi.install import inspect, is_libmpi, prepend, same_library


@pytest.mark.parametrize(
    ("vendor", "name", "version", "family"),
    [
        ("openmpi", "Open MPI", "5.0.9", "openmpi"),
        ("openmpi6", "Open MPI", "6.0.0a1", "openmpi"),
        ("mpich", "MPICH", "4.3.1", "mpich"),
        ("intel", "Intel MPI", "2021.18.1", "mpich"),
        ("mvapich", "MVAPICH", "4.0", "mpich"),
        ("cray", "Cray MPICH", "8.1.29.27", "mpich"),
    ],
)
def test_vendor_version_and_family(
    fake_mpi: MakeMpi, vendor: str, name: str, version: str, family: str
) -> None:
    install = inspect(fake_mpi(vendor).libmpi)
    assert install is not None
    assert (install.vendor, install.version, install.family) == (name, version, family)


def test_the_standard_abi_is_a_family_of_its_own(fake_mpi: MakeMpi) -> None:
    install = inspect(fake_mpi("mpich", soname="libmpi_abi.so.1").libmpi)
    assert install is not None
    assert (install.vendor, install.family, install.name) == ("MPICH", "mpiabi", "mpiabi")


def test_open_mpi_6_has_a_library_of_its_own(fake_mpi: MakeMpi) -> None:
    for vendor, preload in (("openmpi", "openmpi"), ("openmpi6", "openmpi6"), ("intel", "mpich")):
        install = inspect(fake_mpi(vendor).libmpi)
        assert install is not None
        assert install.preload == preload
    standard = inspect(fake_mpi("openmpi6", soname="libmpi_abi.so.1").libmpi)
    assert standard is not None
    assert standard.preload == "mpiabi"


def test_what_is_no_mpi_library_is_none(tmp_path: Path) -> None:
    linker_script = tmp_path / "libmpi.so"
    linker_script.write_text("INPUT(libmpi.so.40)\n")
    assert inspect(linker_script) is None
    assert inspect(tmp_path / "missing.so") is None


@pytest.mark.parametrize(
    ("vendor", "libraries", "launchers", "expected"),
    [
        ("openmpi", "lib", ["mpirun"], "mpirun"),
        ("openmpi", "lib/x86_64-linux-gnu", ["mpirun", "mpirun.openmpi", "mpirun.mpich"], "mpirun.openmpi"),
        ("mpich", "lib/x86_64-linux-gnu", ["mpirun", "mpirun.openmpi", "mpiexec.mpich"], "mpiexec.mpich"),
        ("mpich", "lib", ["mpiexec", "mpirun"], "mpiexec"),
        ("intel", "lib/release", ["mpirun", "mpiexec.hydra"], "mpiexec.hydra"),
        ("openmpi", "lib64/openmpi/lib", ["mpirun"], "mpirun"),
    ],
)
def test_the_launcher_of_a_library(
    fake_mpi: MakeMpi, vendor: str, libraries: str, launchers: list[str], expected: str
) -> None:
    fake = fake_mpi(vendor, libraries=libraries, launchers=launchers)
    install = inspect(fake.libmpi)
    assert install is not None
    assert install.mpirun == fake.prefix / "bin" / expected
    assert install.prefix == fake.prefix


def test_an_mpirun_that_is_a_link_to_another_vendors_is_not_taken(fake_mpi: MakeMpi) -> None:
    fake = fake_mpi("mpich", launchers=[])
    write_program(fake.prefix / "bin" / "orterun", "#!/bin/sh\n")
    (fake.prefix / "bin" / "mpirun").symlink_to("orterun")
    install = inspect(fake.libmpi)
    assert install is not None
    assert install.mpirun is None


def test_a_prefix_without_mpirun_does_not_borrow_one_from_further_up(
    fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    write_program(tmp_path / "bin" / "mpirun", "#!/bin/sh\n")
    install = inspect(fake_mpi("openmpi", "mine", launchers=[]).libmpi)
    assert install is not None
    assert install.mpirun is None


def test_intel_needs_its_root_and_providers(fake_mpi: MakeMpi) -> None:
    fake = fake_mpi("intel", launchers=["mpiexec.hydra"])
    (fake.prefix / "lib" / "libfabric.so.1").write_text("")
    install = inspect(fake.libmpi)
    assert install is not None
    environment = install.environment({"PATH": "/bin", "LD_LIBRARY_PATH": "/x"})
    assert environment == {
        "I_MPI_ROOT": str(fake.prefix),
        "PATH": f"{fake.prefix}/bin:/bin",
        "LD_LIBRARY_PATH": f"{fake.prefix}/lib:/x",
        "FI_PROVIDER_PATH": f"{fake.prefix}/lib",
    }
    assert "FI_PROVIDER_PATH" not in install.environment({"FI_PROVIDER_PATH": "/mine"})


def test_other_vendors_need_nothing(fake_mpi: MakeMpi) -> None:
    install = inspect(fake_mpi("openmpi").libmpi)
    assert install is not None
    assert install.environment({"PATH": "/bin"}) == {}


def test_names_of_mpi_libraries() -> None:
    yes = [
        "libmpi.so",
        "libmpi.so.40",
        "libmpi.so.40.30.4",
        "libmpich.so.12",
        "libmpi_abi.so.1",
        "libmpi_gnu_123.so.12",
    ]
    no = [
        "libmpi_mpifh.so.40",
        "libmpi_cxx.so.40",
        "libmpifort.so.12",
        "libmpi_usempif08.so.40",
        "libmpichcxx.so.12",
    ]
    assert all(map(is_libmpi, yes))
    assert not any(map(is_libmpi, no))


def test_copies_in_one_folder_are_the_same_library(tmp_path: Path) -> None:
    for name in ("libmpi.so", "libmpi.so.12", "libmpi_abi.so.1"):
        (tmp_path / name).write_text("")
    assert same_library(tmp_path / "libmpi.so", tmp_path / "libmpi.so.12")
    assert not same_library(tmp_path / "libmpi.so.12", tmp_path / "libmpi_abi.so.1")


def test_prepend_puts_a_folder_first_once() -> None:
    assert prepend("P", Path("/a"), {}) == "/a"
    assert prepend("P", Path("/a"), {"P": "/b:/a:/c"}) == "/a:/b:/c"
