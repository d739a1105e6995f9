# SPDX-License-Identifier: BSD-3-Clause
"""Made-up MPI installations, so that nothing depends on the MPIs of the machine.

One is a prefix with a tiny libmpi that says whose it is, and an mpirun that prints what it is given.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

VERSION_TEXTS = {
    "openmpi": "Open MPI v5.0.9, package: Open MPI builder@host Distribution, ident: 5.0.9",
    "mpich": "MPICH Version:      4.3.1\\nMPICH Release date: ...",
    "intel": "Intel(R) MPI Library 2021.18.1 for Linux* OS",
    "mvapich": "MVAPICH Version      :       4.0",
    "cray": "MPI VERSION    : CRAY MPICH version 8.1.29.27 (ANL base 3.4a2)",
}
SONAMES = {
    "openmpi": "libmpi.so.40",
    "mpich": "libmpi.so.12",
    "intel": "libmpi.so.12",
    "mvapich": "libmpi.so.12",
    "cray": "libmpi_gnu_123.so.12",
}
LIBMPI_SOURCE = """
#include <string.h>
int MPI_Init(int* argc, char*** argv) { (void)argc; (void)argv; return 0; }
int MPI_Get_library_version(char* text, int* length) {
  strcpy(text, VERSION);
  *length = (int)strlen(text);
  return 0;
}
"""
PROGRAM_SOURCE = "int MPI_Init(int*, char***);\nint main(void) { return MPI_Init(0, 0); }\n"
MPIRUN = """#!/bin/sh
echo "mpirun: $0"
for argument in "$@"; do echo "argument: $argument"; done
env | grep -E '^(LD_PRELOAD|OMPI_ALLOW|OFFBEAT|I_MPI|FI_PROVIDER|LD_LIBRARY)' | sed 's/^/variable: /'
exit 7
"""


def compile_c(source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    # The options come last: libraries must follow what needs them.
    command = ["cc", "-x", "c", "-", "-o", str(output), "-x", "none", *options]
    subprocess.run(command, input=source, text=True, check=True)
    return output


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class FakeMpi:
    """A made-up installation."""

    prefix: Path
    libmpi: Path

    def program(self, path: Path, *options: str, rpath: bool = True) -> Path:
        where = [f"-Wl,-rpath,{self.libmpi.parent}"] if rpath else []
        return compile_c(PROGRAM_SOURCE, path, *where, *options, str(self.libmpi))


MakeMpi = Callable[..., FakeMpi]
Offbeat = Callable[..., "subprocess.CompletedProcess[str]"]
