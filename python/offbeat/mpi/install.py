# SPDX-License-Identifier: BSD-3-Clause
"""One MPI installation: its library, its vendor and version, and its mpirun."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from offbeat.mpi import libraries

# How MPI_Get_library_version names each vendor. The first group is the version.
_VERSION_TEXTS = {
    "Open MPI": r"Open MPI v([\w.]+)",
    "Intel MPI": r"Intel\(R\) MPI Library ([\w.]+)",
    "MVAPICH": r"MVAPICH\d?-?\w* Version\s*:\s*([\w.]+)",
    "Cray MPICH": r"CRAY MPICH version ([\w.]+)",
    "MPICH": r"MPICH Version:\s*([\w.]+)",
}
SLUGS = {
    "Open MPI": "openmpi",
    "MPICH": "mpich",
    "Intel MPI": "intel",
    "MVAPICH": "mvapich",
    "Cray MPICH": "cray",
}
_RULE_HOSTS = {"Open MPI": "openmpi", "MPICH": "mpich", "Cray MPICH": "mpich", "Intel MPI": "intel"}
# The names of the launcher, best first. Debian keeps several vendors in /usr/bin and adds a suffix. Intel's
# mpirun is a shell script around mpiexec.hydra, and does not pass signals on. Cray has only srun.
_LAUNCHERS = {
    "Open MPI": ("mpirun.openmpi", "mpirun", "mpiexec.openmpi", "mpiexec"),
    "MPICH": ("mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra", "mpiexec", "mpirun"),
    "Intel MPI": ("mpiexec.hydra", "mpirun"),
    "MVAPICH": ("mpiexec.hydra", "mpiexec", "mpirun"),
    "Cray MPICH": (),
}
_OPENMPI_LAUNCHERS = ("orterun", "prterun", "prun", "ompirun", "mpirun.openmpi")

# Matches libmpi itself, but not the Fortran, C++ and Java layers, which need libmpi anyway.
_LIBMPI = re.compile(r"libmpi(ch|_abi|_cray|_(gnu|intel|aocc|amd|nvidia)_?\d*)?\.so(\.\d+)*")
_LIBRARY_FOLDER = re.compile(r"lib(32|64)?|release|debug|openmpi|mpich|mvapich2?|\w+-linux-gnu\w*")


class MpiInstall(NamedTuple):
    """An MPI library and the launcher that belongs to it."""

    vendor: str
    version: str
    family: str  # the ABI family: openmpi, mpich or mpiabi
    libmpi: Path
    mpirun: Path | None
    prefix: Path

    def __str__(self) -> str:
        standard = ", standard ABI" if self.family == "mpiabi" else ""
        return f"{self.vendor} {self.version} ({self.libmpi}{standard})"

    @property
    def name(self) -> str:
        """The name that ``--mpi`` takes, without a version."""
        return "mpiabi" if self.family == "mpiabi" else SLUGS[self.vendor]

    @property
    def preload(self) -> str:
        """Which liboffbeat serves this MPI, of those in ``libraries.PRELOADS``."""
        major = re.match(r"\d+", self.version)
        is_new = self.family == "openmpi" and major is not None and int(major[0]) >= 6
        return "openmpi6" if is_new else self.family

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment variables that this MPI needs to run."""
        return _intel_environment(self, base) if self.vendor == "Intel MPI" else {}


def rule_host(vendor: str) -> str:
    """The MPI as rules name it."""
    return _RULE_HOSTS.get(vendor, "other")


def is_libmpi(filename: str) -> bool:
    """Whether a file name or SONAME belongs to an MPI library."""
    return _LIBMPI.fullmatch(filename) is not None


def prepend(variable: str, folder: Path, base: Mapping[str, str]) -> str:
    """The value of a search path, with ``folder`` moved to the front."""
    rest = [entry for entry in base.get(variable, "").split(os.pathsep) if entry and entry != str(folder)]
    return os.pathsep.join([str(folder), *rest])


def inspect(libmpi: Path) -> MpiInstall | None:
    """The installation to which an MPI library belongs, or None if the file is not an MPI library."""
    # If /lib is a link to /usr/lib, ld.so says /lib. But Open MPI does not accept / as its prefix.
    return _inspect(libmpi.parent.resolve() / libmpi.name)


@cache
def _inspect(libmpi: Path) -> MpiInstall | None:
    vendor, version = _vendor_and_version(libmpi)
    if vendor is None:
        return None
    if libmpi.name.startswith("libmpi_abi"):
        family = "mpiabi"
    else:
        family = "openmpi" if vendor == "Open MPI" else "mpich"
    mpirun = _launcher(libmpi, vendor)
    prefix = mpirun.parent.parent if mpirun is not None else libmpi.parent.parent
    return MpiInstall(vendor, version, family, libmpi, mpirun, prefix)


def same_library(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same libmpi. Wheels hold copies where others have links."""
    return one.resolve() == other.resolve() or (
        one.parent.resolve() == other.parent.resolve()
        and one.name.split(".so")[0] == other.name.split(".so")[0]
    )


def _vendor_and_version(libmpi: Path) -> tuple[str | None, str]:
    # A separate process loads the library, because two MPI libraries in one process disturb each other.
    command = [str(libraries.starter()), str(libmpi)]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    text = answer.stdout.decode(errors="replace")
    for vendor, pattern in _VERSION_TEXTS.items():
        match = re.search(pattern, text)
        if match is not None:
            return vendor, match[1]
    return None, ""


def _launcher(libmpi: Path, vendor: str) -> Path | None:
    for prefix in dict.fromkeys([*_possible_prefixes(libmpi), *_possible_prefixes(libmpi.resolve())]):
        for name in _LAUNCHERS[vendor]:
            path = prefix / "bin" / name
            if os.access(path, os.X_OK) and path.is_file() and _may_start_vendor(path, vendor):
                return path
    return None


def _possible_prefixes(libmpi: Path) -> Iterator[Path]:
    """The folders above a library: out of lib, lib/x86_64-linux-gnu, lib/release or lib64/openmpi/lib."""
    folder = libmpi.parent
    while _LIBRARY_FOLDER.fullmatch(folder.name):
        folder = folder.parent
        yield folder


def _may_start_vendor(launcher: Path, vendor: str) -> bool:
    target = launcher.resolve().name
    if vendor == "Open MPI":
        return "hydra" not in target and "mpich" not in target
    return target not in _OPENMPI_LAUNCHERS


def _intel_environment(install: MpiInstall, base: Mapping[str, str]) -> dict[str, str]:
    root = install.prefix
    environment = {
        "I_MPI_ROOT": str(root),
        "PATH": prepend("PATH", root / "bin", base),
        "LD_LIBRARY_PATH": prepend("LD_LIBRARY_PATH", install.libmpi.parent, base),
    }
    # The places of libfabric and its providers: in new and old releases of oneAPI, and in the PyPI wheel.
    for folder in (root / "opt/mpi/libfabric/lib", root / "libfabric/lib", root / "lib"):
        if (folder / "libfabric.so.1").is_file():
            environment["LD_LIBRARY_PATH"] = prepend("LD_LIBRARY_PATH", folder, environment)
            if "FI_PROVIDER_PATH" not in base:
                providers = folder / "prov"
                environment["FI_PROVIDER_PATH"] = str(providers if providers.is_dir() else folder)
            break
    return environment
