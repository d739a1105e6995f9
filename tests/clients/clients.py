# SPDX-License-Identifier: BSD-3-Clause
"""Where the source distributions of the clients come from."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

from harness import BUILD, VENV

FOLDER = BUILD / "clients"


def mpi4py_source() -> Path:
    """The source of the mpi4py that is installed in build/venv."""
    python = str(VENV / "bin" / "python")
    ask = [python, "-c", "from importlib.metadata import version; print(version('mpi4py'))"]
    version = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    folder = FOLDER / f"mpi4py-{version}"
    if (folder / "test" / "main.py").exists():
        return folder
    FOLDER.mkdir(parents=True, exist_ok=True)
    download = [python, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary", "mpi4py"]
    subprocess.run([*download, f"mpi4py=={version}", "--dest", str(FOLDER)], timeout=300, check=True)
    with tarfile.open(FOLDER / f"mpi4py-{version}.tar.gz") as archive:
        archive.extractall(FOLDER, filter="data")
    return folder
