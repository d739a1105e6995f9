# SPDX-License-Identifier: BSD-3-Clause
"""Take the C headers out of an MPI's PyPI wheel: fetch_headers.py REQUIREMENT FOLDER.

The wheels of Open MPI and MPICH both install an mpi.h into the same place of an environment, so they cannot
both be build requirements; and the headers are all that the build needs.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import zipfile


def main(requirement: str, folder: pathlib.Path) -> int:
    with tempfile.TemporaryDirectory() as download:
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*fetch, "--dest", download, requirement], check=False)
        wheels = list(pathlib.Path(download).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            print(f"cannot download {requirement}: is PyPI reachable and pip installed?", file=sys.stderr)
            return 1
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                # Both wheels keep them in *.data/data/include/.
                _, found, inside = name.partition(".data/data/include/")
                if found and inside.endswith(".h"):
                    target = folder / inside
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(wheel.read(name))
    if not (folder / "mpi.h").exists():
        print(f"the wheel of {requirement} has no mpi.h", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
