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

import hashlib
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from setup import BUILD, SetupError, fresh, has_command, step

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


def fetch() -> Path:
    """Download the source archive of ExaML with apt-get. Its package lists are kept in build/."""
    archive = FOLDER / ARCHIVE
    if archive.exists() and hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256:
        return archive
    if not has_command("apt-get"):
        raise SetupError("ExaML's source comes from a Debian or Ubuntu archive, and there is no apt-get here")
    for name in ("lists/partial", "cache/archives/partial"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    sources = FOLDER / "sources.list"
    sources.write_text("".join(f"{line}\n" for line in source_lines()))
    options = [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=/dev/null", "Acquire::Retries=3"]
    options += [f"Dir::State::Lists={FOLDER / 'lists'}", f"Dir::Cache={FOLDER / 'cache'}"]
    options += ["APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    get = ["apt-get", "--quiet", *(f"--option={option}" for option in options)]
    step("list of source packages", [*get, "update"])
    script = 'cd "$0" && exec "$@"'
    source = ["source", "--download-only", "--tar-only", "examl"]
    step("ExaML: source archive", ["sh", "-c", script, str(FOLDER), *get, *source])
    if not archive.exists() or hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise SetupError(f"apt-get source examl did not download the expected {ARCHIVE} (SHA-256 {SHA256})")
    return archive


def source_lines() -> list[str]:
    """The deb-src line for the archive that this machine's own package sources name."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.M))
    system, codename = release.get("ID", ""), release.get("VERSION_CODENAME", "")
    component = "universe" if system == "ubuntu" else "main"
    targets = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI) $(CODENAME) $(COMPONENT)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    found = [target.split() for target in targets if target.split()[1:] == [codename, component]]
    mirrors = [target[0] for target in found]
    mirrors += [
        "http://archive.ubuntu.com/ubuntu/" if system == "ubuntu" else "http://deb.debian.org/debian/"
    ]
    keyring = Path(f"/usr/share/keyrings/{system}-archive-keyring.gpg")
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    return [f"deb-src {signed}{mirrors[0]} {codename} {component}"]


def build(name: str, mpicc: str) -> Examl:
    """Build ExaML with the compiler of one MPI and its own Makefile, in build/examl/<name>."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise SetupError(f"ExaML is written for x86-64, but this machine is {platform.machine()}")
    archive = fetch()
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
