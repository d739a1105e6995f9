# SPDX-License-Identifier: BSD-3-Clause
"""The preload library for AArch64 in jobs of MPICH, under qemu. `./test aarch64` compiles it first."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mpi"))

from exchanges import expect_all_served, hashes, natively
from harness import BUILD, MPIS, PROGRAMS, Result, compile_program, run
from test_exchanges import HOW

PREFIX = BUILD / "mpi" / "mpich-aarch64"
LIBRARY = BUILD / "aarch64" / "liboffbeat-mpich.so"
SYSTEM = Path("/usr/aarch64-linux-gnu")
MPICH = dataclasses.replace(
    MPIS["mpich"],
    name="mpich-aarch64",
    cc=f"aarch64-linux-gnu-gcc -I{PREFIX}/include",
    cxx=f"aarch64-linux-gnu-g++ -I{PREFIX}/include",
    # qemu knows neither process_vm_readv nor XPMEM.
    environment={
        **MPIS["mpich"].environment, "MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0",
    },
)  # fmt: skip
LIBRARIES = (f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-Wl,--allow-shlib-undefined", "-lmpi", "-lm")
CALLS = ("12", "60", "3000")  # seed, how many, the longest


def emulated(program: str, ranks: int, *arguments: str, settings: dict[str, str] | None = None) -> Result:
    """Run a program of tests/mpi with the preload library, which qemu gives to the program only."""
    compiled = compile_program(MPICH, PROGRAMS / program, libraries=LIBRARIES)
    qemu = ["qemu-aarch64", "-L", SYSTEM, "-E", f"LD_PRELOAD={LIBRARY}"]
    environment = {"OFFBEAT_REPORT": "1", **(settings or {})}
    return run(
        MPICH, ranks, [*qemu, compiled, *arguments], preload=False, environment=environment
    ).succeeded()


@pytest.mark.parametrize("ranks", [2, 4])
def test_sums(ranks: int) -> None:
    result = emulated("sum_once.c", ranks)
    assert result.report.served == result.report.intercepted == result.calls, str(result)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("how", ["by default", "by messages"])
def test_random_calls_give_what_a_host_gives(ranks: int, how: str) -> None:
    result = emulated("exchanges.cpp", ranks, *CALLS, "alike", "blocking", settings=HOW[how])
    assert hashes(result.stdout) == natively(ranks, CALLS), str(result)
    expect_all_served(result)
