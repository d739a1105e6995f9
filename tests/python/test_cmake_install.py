# SPDX-License-Identifier: BSD-3-Clause
"""What `cmake --install` makes, for people who use no Python: a C program finds, links and preloads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import MakeMpi, compile_c
from offbeat import _core

ROOT = Path(__file__).resolve().parents[2]
MPICH = ROOT / "build" / "mpi" / "mpich" / "bin"
# ./test builds the first, and CONTRIBUTING.md the second.
BUILDS = [ROOT / "build" / name for name in ("wheel", "dev")]
FAMILIES = ("openmpi", "openmpi6", "mpich", "mpiabi")

# It runs with and without offbeat.
ASKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <offbeat/offbeat.h>
#include <stdio.h>

int main(void) {
  offbeat_status (*count)(const char*, offbeat_counters*, size_t) =
      (offbeat_status (*)(const char*, offbeat_counters*, size_t))dlsym(RTLD_DEFAULT, "offbeat_count");
  offbeat_counters counters = {0, 0};
  int rank, sum;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int mine = rank + 5;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (count != NULL) count("allreduce", &counters, sizeof counters);
  if (rank == 0) printf("sum %d served %d\\n", sum, count == NULL ? -1 : (int)counters.served);
  return MPI_Finalize();
}
"""
# It links a preload library, and needs no MPI.
LINKS = """
#include <offbeat/offbeat.h>
#include <stdio.h>

int main(void) {
  const int a[] = {1, 2}, b[] = {10, 20};
  const void* operands[] = {a, b};
  int sums[2];
  if (offbeat_reduce(sums, operands, 2, 2, OFFBEAT_INT32, OFFBEAT_SUM) != OFFBEAT_OK) return 1;
  printf("%s %s %d %d\\n", offbeat_version(), offbeat_family(), sums[0], sums[1]);
  return 0;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(asks LANGUAGES C)
find_package(offbeat 0.1 REQUIRED COMPONENTS mpich)
add_executable(asks asks.c)
target_link_libraries(asks PRIVATE offbeat::header)
add_executable(links links.c)
target_link_libraries(links PRIVATE offbeat::mpich)
file(WRITE "${CMAKE_BINARY_DIR}/preload" "${offbeat_PRELOAD_mpich}")
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run(
    *command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True, text=True, env=environment | (env or {}), cwd=cwd, timeout=120,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation that was moved after it was made."""
    build = next((build for build in BUILDS if (build / "cmake_install.cmake").exists()), None)
    if build is None:
        pytest.skip(f"needs one of {', '.join(map(str, BUILDS))}")
    folder = tmp_path_factory.mktemp("installed")
    said(run("cmake", "--install", build, "--prefix", folder / "first"))
    return (folder / "first").rename(folder / "moved")


def library_folder(prefix: Path) -> Path:
    """lib, lib64 or lib/x86_64-linux-gnu, as GNU's rules say for this machine."""
    return next(prefix.rglob("liboffbeat-mpich.so")).parent


@pytest.fixture
def pkg_config(prefix: Path) -> Run:
    if shutil.which("pkg-config") is None:
        pytest.skip("needs pkg-config")
    path = {"PKG_CONFIG_PATH": str(library_folder(prefix) / "pkgconfig")}
    return lambda *words: run("pkg-config", *words, "offbeat", env=path)


def test_the_files(prefix: Path) -> None:
    lib = library_folder(prefix).relative_to(prefix)
    wanted = {
        "bin/offbeat-env", "include/offbeat/offbeat.h", f"{lib}/pkgconfig/offbeat.pc",
        f"{lib}/cmake/offbeat/offbeat-config.cmake", f"{lib}/cmake/offbeat/offbeat-config-version.cmake",
        f"share/modulefiles/offbeat/{_core.version()}",
        f"{lib}/liboffbeat.so",
        *(f"{lib}/liboffbeat-{family}.so" for family in FAMILIES),
        *(f"{lib}/liboffbeat-trace-{family}.so" for family in FAMILIES),
    }  # fmt: skip
    found = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    assert wanted <= found
    assert not [name for name in found if name.endswith(".py") or "offbeat-python" in name]
    texts = [path for path in prefix.rglob("*") if path.suffix in (".pc", ".cmake", "")]
    assert not [path for path in texts if path.is_file() and str(ROOT).encode() in path.read_bytes()]


@pytest.mark.with_ranks
@pytest.mark.skipif(not MPICH.exists(), reason="needs build/mpi/mpich")
def test_a_c_program_by_find_package(prefix: Path, tmp_path: Path) -> None:
    for name, text in (("CMakeLists.txt", PROJECT), ("asks.c", ASKS), ("links.c", LINKS)):
        (tmp_path / name).write_text(text)
    build = tmp_path / "build"
    said(run(
        "cmake", "-S", tmp_path, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={MPICH / 'mpicc'}",
    ))  # fmt: skip
    said(run("cmake", "--build", build))
    assert said(run(build / "links")) == f"{_core.version()} mpich 11 22"
    mpirun = (MPICH / "mpirun", "-n", "2")
    assert said(run(*mpirun, build / "asks")) == "sum 11 served -1"
    preload = ("-genv", "LD_PRELOAD", (build / "preload").read_text())
    assert said(run(*mpirun, *preload, build / "asks")) == "sum 11 served 1"


def test_a_family_that_is_not_installed(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.replace("COMPONENTS mpich", "COMPONENTS cray"))
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja",
               f"-DCMAKE_PREFIX_PATH={prefix}")  # fmt: skip
    assert done.returncode != 0
    assert "has no library for cray" in " ".join(done.stderr.split())


@pytest.mark.with_ranks
@pytest.mark.skipif(not MPICH.exists(), reason="needs build/mpi/mpich")
def test_a_c_program_by_pkg_config(prefix: Path, pkg_config: Run, tmp_path: Path) -> None:
    assert said(pkg_config("--modversion")) == _core.version()
    flags = said(pkg_config("--cflags", "--libs")).split()
    preload, libdir = (said(pkg_config(f"--variable={name}")) for name in ("preload_mpich", "libdir"))
    for name, text, compiler, more in (
        ("asks", ASKS, MPICH / "mpicc", ("-ldl",)), ("links", LINKS, "cc", (preload, f"-Wl,-rpath,{libdir}")),
    ):  # fmt: skip
        (tmp_path / f"{name}.c").write_text(text)
        said(run(compiler, tmp_path / f"{name}.c", "-o", tmp_path / name, *flags, *more))
    assert said(run(tmp_path / "links")) == f"{_core.version()} mpich 11 22"
    # The line that offbeat-env prints puts offbeat under the program that it was given.
    shell = f'eval "$({prefix}/bin/offbeat-env {tmp_path}/asks)" && {MPICH}/mpirun -n 2 {tmp_path}/asks'
    assert said(run("sh", "-c", shell)) == "sum 11 served 1"
    assert all(Path(said(pkg_config(f"--variable=preload_{family}"))).is_file() for family in FAMILIES)


@pytest.mark.parametrize("vendor", ["openmpi", "mpich", "intel", "cray"])
def test_offbeat_env_finds_the_family_of_a_program(
    prefix: Path, fake_mpi: MakeMpi, tmp_path: Path, vendor: str
) -> None:
    program = fake_mpi(vendor).program(tmp_path / "program")
    family = "openmpi" if vendor == "openmpi" else "mpich"
    library = library_folder(prefix).resolve() / f"liboffbeat-{family}.so"
    assert said(run(prefix / "bin" / "offbeat-env", program)) == f"export LD_PRELOAD='{library}'"


def test_offbeat_env_finds_open_mpi_6_by_its_second_library(
    prefix: Path, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    second = compile_c("", tmp_path / "libopen_mpi.so.80", "-shared", "-Wl,-soname,libopen_mpi.so.80")
    options = ("-Wl,--no-as-needed", str(second), f"-Wl,-rpath,{tmp_path}")
    program = fake_mpi("openmpi6").program(tmp_path / "program", *options)
    library = library_folder(prefix).resolve() / "liboffbeat-openmpi6.so"
    assert said(run(prefix / "bin" / "offbeat-env", program)) == f"export LD_PRELOAD='{library}'"


def test_offbeat_env_with_a_trace_and_what_is_preloaded_already(prefix: Path, tmp_path: Path) -> None:
    command = (prefix / "bin" / "offbeat-env", "--trace", "it's", "mpich")
    lines = said(run(*command, env={"LD_PRELOAD": "libm.so.6"}, cwd=tmp_path)).splitlines()
    lib = library_folder(prefix).resolve()
    assert lines[0].endswith(f"='libm.so.6:{lib}/liboffbeat-trace-mpich.so:{lib}/liboffbeat-mpich.so'")
    assert said(run("sh", "-c", f"{lines[1]}; printenv OFFBEAT_TRACE")) == f"{tmp_path}/it's"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing-of-this-name"], "program 'nothing-of-this-name' not found"),
        (["sh"], "sh is not linked to an MPI that offbeat knows"),
        (["--fast", "sh"], "no such option: --fast"),
        (["--trace"], "--trace needs a folder"),
        ([], "Print the variables"),
    ],
)
def test_offbeat_env_says_what_is_wrong(prefix: Path, words: list[str], message: str) -> None:
    done = run(prefix / "bin" / "offbeat-env", *words)
    assert (done.returncode, done.stdout) == (2, "false\n")
    assert message in done.stderr


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "bash --posix"])
def test_eval_of_offbeat_env_fails_with_it(prefix: Path, shell: str) -> None:
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"needs {words[0]}")
    for asked, expected in (("mpich", (0, "on\n")), ("no-such-program", (1, ""))):
        script = f'eval "$({prefix}/bin/offbeat-env {asked})"; unset LD_PRELOAD; echo on'
        done = run(*words, "-eu", "-c", script)
        assert (done.returncode, done.stdout) == expected, done.stderr


def test_offbeat_env_does_not_preload_two(prefix: Path) -> None:
    done = run(prefix / "bin" / "offbeat-env", "mpich", env={"LD_PRELOAD": "/x/liboffbeat-openmpi.so"})
    assert (done.returncode, done.stdout) == (2, "false\n")
    assert "\noffbeat-env: LD_PRELOAD has offbeat already" in done.stderr


@pytest.mark.skipif(shutil.which("modulecmd") is None, reason="needs Environment Modules")
def test_the_module_file(prefix: Path) -> None:
    modules = {"MODULEPATH": str(prefix / "share" / "modulefiles")}
    shown = said(run("modulecmd", "sh", "load", f"offbeat/{_core.version()}", env=modules))
    shell = f'{shown}\nprintf "%s\\n" "$PATH" "$PKG_CONFIG_PATH"; type offbeat-env'
    words = run("sh", "-c", shell).stdout
    assert f"{prefix}/bin" in words
    assert f"{library_folder(prefix)}/pkgconfig" in words
    assert "offbeat-env is" in words
    assert not re.search("LD_PRELOAD", shown), "that is for one program, not for a session"
