# SPDX-License-Identifier: BSD-3-Clause
"""Fetch ExaML, the program of ./demo, from the distribution's archive, build it unmodified, and run it.

ExaML (Exascale Maximum Likelihood; Kozlov, Aberer and Stamatakis, Bioinformatics 31(15), 2015)
searches the phylogenetic tree that explains an alignment of DNA best. Every rank holds a share of
the alignment's columns and runs the search in step with the others: each likelihood and each
derivative is an MPI_Allreduce of a few doubles. That makes ExaML a demanding client. It calls tens
of thousands of allreduces per second, and ranks that get different bits diverge and hang. Its own
source notes that "the MPI_Allreduce implementation is apparently sometimes not deterministic".
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import debian_source
from setup import BUILD, SetupError, fresh, step

VERSION = "3.0.22"
ARCHIVE = f"examl_{VERSION}.orig.tar.gz"
SHA256 = "802e673b0c2ea83fdbe6b060048d83f22b6978933a04be64fb9b4334fe318ca3"
FOLDER = BUILD / "examl"

# The Makefile appends to these flags. Newer compilers refuse by default what C of 2006 allows.
CFLAGS = "-w -std=gnu11 -fcommon -Wno-error=implicit-function-declaration -Wno-error=implicit-int"
CFLAGS += " -Wno-error=int-conversion -Wno-error=incompatible-pointer-types"


@dataclass(frozen=True)
class Examl:
    """A built ExaML and the input that comes with it."""

    program: Path
    alignment: Path  # 49 taxa, 1,200 columns, as ExaML's parser writes it
    tree: Path  # where the search starts

    def command(self, name: str, mode: str) -> list[str]:
        """The command line. Mode d searches the best tree; e only fits branch lengths and model to `tree`."""
        return [
            str(self.program),
            "-s",
            str(self.alignment),
            "-t",
            str(self.tree),
            "-m",
            "GAMMA",
            "-f",
            mode,
            "-n",
            name,
        ]

    def result(self, folder: Path, name: str, mode: str) -> tuple[str, str]:
        """The log likelihood, and the text of the tree with its branch lengths."""
        info = (folder / f"ExaML_info.{name}").read_text()
        likelihoods = re.findall(r"^Likelihood(?: of best tree| tree 0)?\s*: (-[\d.]+)", info, re.M)
        tree = folder / f"ExaML_{'result' if mode == 'd' else 'TreeFile'}.{name}"
        return likelihoods[-1], tree.read_text()


def build(name: str, mpicc: str) -> Examl:
    """Build ExaML with the compiler of one MPI and its own Makefile, in build/examl/<name>."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise SetupError(f"ExaML is written for x86-64, but this machine is {platform.machine()}")
    archive = debian_source.fetch("examl", ARCHIVE, SHA256)
    folder = FOLDER / name
    vector = "AVX" if " avx " in Path("/proc/cpuinfo").read_text() else "SSE3"
    source = folder / f"ExaML-{VERSION}"
    program = source / "examl" / ("examl-AVX" if vector == "AVX" else "examl")
    examl = Examl(program, folder / "49.binary", source / "testData" / "49.tree")
    stamp = folder / "built"
    key = f"{SHA256} {mpicc} {CFLAGS}"
    if fresh(stamp, key):
        return examl
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = os.environ | {"CFLAGS": CFLAGS}
    step("ExaML: unpack", ["tar", "--extract", "--file", str(archive), "--directory", str(folder)])
    make = ["make", "--directory", str(source / "examl"), "--file", f"Makefile.{vector}.gcc", "--jobs", "2"]
    step(f"ExaML: make with {mpicc}", [*make, f"CC={mpicc}", program.name], environment=environment)
    parser = source / "parser"
    make = ["make", "--directory", str(parser), "--file", "Makefile.SSE3.gcc", "parse-examl"]
    step("ExaML: make its parser", make, environment=environment)
    data = source / "testData"
    convert = [
        str(parser / "parse-examl"),
        "-s",
        str(data / "49"),
        "-q",
        str(data / "49.model"),
        "-m",
        "DNA",
        "-n",
        "49",
    ]
    step("ExaML: its alignment", ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *convert])
    stamp.write_text(key)
    return examl
