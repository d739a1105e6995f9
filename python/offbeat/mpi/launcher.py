# SPDX-License-Identifier: BSD-3-Clause
"""Launchers that the user names instead of the MPI's own mpirun, such as ``srun --mpi=pmix``.

A launcher is a template. ``{n}`` in it is the number of ranks, and ``{program}`` the program. What the ranks
need in their environment is given by ``env``, so a launcher need not pass its own environment on.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from offbeat.errors import CommandError
from offbeat.mpi.install import MpiInstall

RANKS, PROGRAM = "{n}", "{program}"
NAMES = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "oshrun", "srun", "aprun", "jsrun"}


class Hosts(NamedTuple):
    """The hosts that the user names, for whichever launcher."""

    names: str | None = None  # with commas between, and perhaps with slots, such as a:4,b:4
    file: Path | None = None

    def __bool__(self) -> bool:
        return self.names is not None or self.file is not None


def parse(text: str) -> list[str]:
    """The words of a template."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--launcher {text!r}: {str(error).lower()}") from None
    if not words:
        raise CommandError("--launcher: write a command, such as srun or 'mpiexec -n {n}'")
    return words


def command(
    template: str,
    ranks: int | None,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    program: Sequence[str],
) -> list[str]:
    """The command line of a launcher. ``ranks`` None: the launcher decides how many there are."""
    words = parse(template)
    if ranks is None and any(RANKS in word for word in words):
        raise CommandError(f"--launcher {template!r} asks for a number of ranks; add -n N")
    started = ["env", *(f"{name}={value}" for name, value in variables.items()), *program]
    if ranks is not None and not any(RANKS in word for word in words):
        words[1:1] = ["-n", str(ranks)]
    words = [word.replace(RANKS, str(ranks)) for word in words]
    places = [index for index, word in enumerate(words) if PROGRAM in word]
    if not places:
        return [*words, *arguments, *started]
    place = places[0]
    if words[place] == PROGRAM:
        return [*words[:place], *arguments, *started, *words[place + 1 :]]
    words[place] = words[place].replace(PROGRAM, shlex.join(started))
    return [words[0], *arguments, *words[1:]]


def host_options(hosts: Hosts, install: MpiInstall | None, template: str | None) -> list[str]:
    """How the launcher calls the hosts: the MPI's mpirun, or that of the template."""
    if not hosts:
        return []
    kind = PurePath(parse(template)[0]).name if template is not None else ""
    if kind == "srun":
        return _srun(hosts)
    if kind and kind not in ("mpirun", "mpiexec", "mpiexec.hydra", "prterun"):
        raise CommandError(
            f"--launcher {template!r}: offbeat does not know its option for hosts; write it there"
        )
    is_openmpi = kind == "prterun" or (install is not None and install.vendor == "Open MPI")
    by_name, by_file = ("--host", "--hostfile") if is_openmpi else ("-hosts", "-f")
    return [
        *([by_name, hosts.names] if hosts.names is not None else []),
        *([by_file, str(hosts.file)] if hosts.file is not None else []),
    ]


def ranks_on(names: str) -> int:
    """How many ranks ``--hosts a:2,b:2`` asks for. A name without a number stands for one."""
    counts = [name.rpartition(":")[2] for name in names.split(",")]
    return sum(int(count) if count.isascii() and count.isdecimal() else 1 for count in counts)


def _srun(hosts: Hosts) -> list[str]:
    """Slurm has one option for both, and knows a file by the slash in its name. It decides the slots."""
    found = []
    if hosts.names is not None:
        found.append(f"--nodelist={','.join(name.partition(':')[0] for name in hosts.names.split(','))}")
    if hosts.file is not None:
        found.append(f"--nodelist={hosts.file.absolute()}")
    return found
