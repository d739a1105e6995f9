# SPDX-License-Identifier: BSD-3-Clause
"""Download the source archives of programs that nobody here wrote from the distribution's archive."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
from pathlib import Path

from setup import BUILD, SetupError, has_command, step

FOLDER = BUILD / "debian-sources"


def fetch(package: str, archive: str, sha256: str) -> Path:
    """Download the `archive` of a source package with apt-get, unless that was done before."""
    path = FOLDER / archive
    if is_complete(path, sha256):
        return path
    if not has_command("apt-get"):
        raise SetupError(
            f"the source of {package} comes from a Debian or Ubuntu archive, and there is no apt-get here"
        )
    script = 'cd "$0" && exec "$@"'
    source = [*apt_get(), "source", "--download-only", "--tar-only", package]
    step(f"{package}: source archive", ["sh", "-c", script, str(FOLDER), *source])
    if not is_complete(path, sha256):
        raise SetupError(
            f"apt-get source {package} did not download the expected {archive} (SHA-256 {sha256})"
        )
    return path


def is_complete(path: Path, sha256: str) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


@functools.cache
def apt_get() -> tuple[str, ...]:
    """apt-get with lists of source packages, which it keeps in build/."""
    for name in ("lists/partial", "cache/archives/partial"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    sources = FOLDER / "sources.list"
    sources.write_text("".join(f"{line}\n" for line in source_lines()))
    options = [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=/dev/null", "Acquire::Retries=3"]
    options += [f"Dir::State::Lists={FOLDER / 'lists'}", f"Dir::Cache={FOLDER / 'cache'}"]
    options += ["APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    get = ("apt-get", "--quiet", *(f"--option={option}" for option in options))
    step("list of source packages", [*get, "update"])
    return get


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
