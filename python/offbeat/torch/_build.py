# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the extension when it is first used, because torch has no stable ABI for backends.

The result is cached for each version of offbeat, torch and Python, and each state of the sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

import torch

import offbeat
from offbeat.errors import CommandError, printable
from offbeat.mpi import libraries

NAME = "offbeat_torch_extension"
SOURCES = Path(__file__).parent / "extension"
COMPILES_IN = "half a minute"


def say(text: str) -> None:
    """Print one line on standard error."""
    print(f"offbeat: {text}", file=sys.stderr, flush=True)


def header_folder() -> Path:
    """The folder with ``offbeat/offbeat.h``."""
    folders = [Path(part) / "include" for part in offbeat.__path__]
    for folder in folders:
        if (folder / "offbeat" / "offbeat.h").is_file():
            return folder
    raise CommandError("this installation of offbeat has no offbeat.h, which the torch backend needs")


def compiler() -> list[str]:
    """The command of the C++ compiler."""
    command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    try:
        subprocess.run([*command, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise CommandError(
            "the torch backend is compiled when it is first used, and there is no C++ compiler: "
            f"{command[0]}; install g++ 12 or clang 14 or later, or set CXX"
        ) from None
    return command


def command_line(target: Path) -> list[str]:
    """The command that compiles the extension."""
    root = Path(torch.__file__).parent
    headers = [root / "include", root / "include/torch/csrc/api/include", sysconfig.get_path("include")]
    options = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DNDEBUG"]
    options += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{header_folder()}"]
    for folder in headers:
        options += ["-isystem", str(folder)]
    linked = [f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    return [*compiler(), *options, str(SOURCES / "module.cpp"), "-o", str(target), *linked]


def cached_file() -> Path:
    """Where the extension for this torch, this Python and these sources belongs."""
    digest = hashlib.sha256(f"{sys.version}\0{torch.__file__}\0{os.environ.get('CXX', '')}".encode())
    for path in [*sorted(SOURCES.iterdir()), header_folder() / "offbeat" / "offbeat.h"]:
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"torch-{torch.__version__}-offbeat-{offbeat.__version__}-{digest.hexdigest()[:12]}"
    return cache / "offbeat" / version / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"


def build() -> Path:
    """Compile the extension, unless it is in the cache. Only one process compiles; the others wait for it."""
    target = cached_file()
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    log = target.parent / "error.log"
    asked = time.time()
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if log.is_file() and log.stat().st_mtime > asked:
            raise failure(log)  # another rank has just tried
        if not target.is_file():
            compile_to(target, log)
    return target


def failure(log: Path) -> CommandError:
    """What to tell the user about a compilation that failed."""
    errors = [line for line in log.read_text().splitlines()[1:] if "error" in line]
    first = printable(errors[0] if errors else "no error in its output")
    return CommandError(f"the torch backend does not compile: {first} (complete output in {log})")


def compile_to(target: Path, log: Path) -> None:
    """Compile the extension. No other process ever sees an incomplete file."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = command_line(made)
        say(f"compiling the backend for torch {torch.__version__}, once; this takes about {COMPILES_IN}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            log.write_text(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
            raise failure(log)
        made.replace(target)
    say(f"compiled the backend in {time.monotonic() - started:.0f} s: {target}")


def load() -> ModuleType:
    """Load the extension and liboffbeat.so, which it calls."""
    path = build()
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.load(str(libraries.library_without_mpi()))
    return module
