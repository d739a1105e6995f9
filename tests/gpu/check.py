# SPDX-License-Identifier: BSD-3-Clause
"""Check all collectives with memory of a GPU, on a machine that has one; see prepare.py.

    python3 FOLDER/check.py [--driver FILE] [--times] [--baseline FILE]

prints a line for each check, what a failing one said, and the times of allreduces (times.c). The exit status
is the number of checks that failed. `--driver` names another library than real_gpu.so, for a try without a
GPU. `--times` leaves the checks out. `--baseline` names a liboffbeat-openmpi.so of an earlier version, whose
times are printed, too, in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LIMIT_S = 90
OPENMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    name: str
    options: tuple[str, ...]
    variables: dict[str, str]

    def run(self, ranks: int, command: list[str], settings: dict[str, str]) -> tuple[int, str]:
        """Run a job; return its exit status and output. `settings` are for the ranks only."""
        here = FOLDER / self.name
        environment = os.environ | self.variables
        environment["LD_LIBRARY_PATH"] = f"{here / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        for_ranks = ["env", *(f"{name}={value}" for name, value in settings.items())] if settings else []
        line = [str(here / "bin" / "mpirun"), *self.options, "-n", str(ranks), *for_ranks, *command]
        process = subprocess.Popen(
            line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return 124, f"{output}\nnot finished after {LIMIT_S} s"
        return process.returncode, output

    def program(self, name: str) -> str:
        return str(FOLDER / self.name / name)

    def preload(self, driver: str) -> dict[str, str]:
        library = str(FOLDER / self.name / "liboffbeat.so")
        return {"LD_PRELOAD": library, "OFFBEAT_REPORT": "1", "STUB_GPU": driver}


HOSTS = (
    Host("openmpi", ("--bind-to", "none"), OPENMPI),
    Host("mpich", (), {"FI_PROVIDER": "tcp", "MPIR_CVAR_ENABLE_GPU": "0"}),
)


def hashes(text: str) -> list[str]:
    return sorted(re.findall(r"^rank \d+: [0-9a-f]{16}", text, re.MULTILINE))


class Checks:
    def __init__(self) -> None:
        self.failed = 0

    def say(self, name: str, is_right: bool, start: float, output: str) -> None:
        print(f"{'right' if is_right else 'WRONG'} {time.monotonic() - start:6.1f} s  {name}", flush=True)
        if not is_right:
            self.failed += 1
            print(output[-3000:], flush=True)


def check_values(checks: Checks, driver: str) -> None:
    for ranks in (2, 3):
        # Seed, how many calls, and the longest. Vectors of more than 65,536 ints stay on the device.
        for drawn in (("12", "300", "3000"), ("13", "300", "3000"), ("21", "60", "300000")):
            calls = [*drawn, "alike"]
            status, native = HOSTS[0].run(ranks, [HOSTS[0].program("exchanges"), *calls, "blocking"], {})
            if status != 0:
                checks.say(f"openmpi, natively, {ranks} ranks", False, time.monotonic(), native)
                return
            for host in HOSTS:
                start = time.monotonic()
                command = [host.program("exchanges"), *calls, "any"]
                status, output = host.run(ranks, command, host.preload(driver))
                is_right = status == 0 and hashes(output) == hashes(native)
                unserved = [line for line in re.findall(r"^offbeat: .* native$", output, re.MULTILINE)
                            if not line.endswith(" 0 native")]  # fmt: skip
                name = f"{host.name}: random calls, {ranks} ranks, seed {drawn[0]}, up to {drawn[2]} ints"
                checks.say(name, is_right and not unserved, start, output)
    for host in HOSTS:
        for program, mode, ranks in (
            ("devices", "values", 1),
            ("devices", "values", 3),
            ("interface", "interface", 3),
        ):
            start = time.monotonic()
            command = [host.program(program), driver, mode]
            status, output = host.run(ranks, command, host.preload(driver))
            checks.say(f"{host.name}: {mode}, {ranks} ranks", status == 0, start, output)


def check_tensors(checks: Checks, driver: str) -> None:
    if not all(importlib.util.find_spec(name) for name in ("mpi4py", "torch", "numpy")):
        print("without mpi4py and PyTorch: no tensors")
        return
    host = HOSTS[0]
    start = time.monotonic()
    settings = host.preload(driver) | {
        "MPI4PY_MPIABI": "openmpi",
        "MPI4PY_LIBMPI": host.program("lib/libmpi.so.40"),
    }
    status, output = host.run(2, [sys.executable, str(FOLDER / "torch_tensors.py")], settings)
    is_served = re.search(r"^offbeat: allreduce: .* 0 native$", output, re.MULTILINE) is not None
    checks.say(f"{host.name}: tensors", status == 0 and is_served, start, output)


def print_times(driver: str, baseline: Path | None) -> None:
    for host in HOSTS:
        ways: dict[str, tuple[str, dict[str, str]]] = {
            "natively": ("none", {}),
            "under offbeat": (driver, host.preload(driver)),
        }
        if baseline is not None and host.name == "openmpi":
            before = host.preload(driver) | {"LD_PRELOAD": str(baseline.resolve())}
            for turn in ("", ", again"):
                ways[f"with the baseline{turn}"] = (driver, before)
                ways[f"under offbeat{turn}"] = (driver, host.preload(driver))
        for ranks in (2, 4):
            for what, (driver_or_none, settings) in ways.items():
                _, output = host.run(ranks, [host.program("times"), driver_or_none], settings)
                print(f"\n{host.name}, {ranks} ranks, allreduce {what}, us:\n{output}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=Path, default=FOLDER / "real_gpu.so")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--baseline", type=Path)
    options = parser.parse_args()
    driver = str(options.driver.resolve())
    checks = Checks()
    if not options.times:
        check_values(checks, driver)
        check_tensors(checks, driver)
    print_times(driver, options.baseline)
    print(f"{checks.failed} wrong")
    return checks.failed


if __name__ == "__main__":
    sys.exit(main())
