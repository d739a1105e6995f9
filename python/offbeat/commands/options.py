# SPDX-License-Identifier: BSD-3-Clause
"""Options that several verbs share, and the checks of their values."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from offbeat import _core, machine
from offbeat.commands.command_line import Option
from offbeat.errors import CommandError
from offbeat.expressions import canonical
from offbeat.mpi import launcher as launcher_
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.launcher import Hosts

Ranks = Annotated[int, Option("-n", "-np", "--ranks", metavar="N", help="Number of ranks.")]
RanksOfProgram = Annotated[
    int | None,
    Option(
        "-n",
        "-np",
        "--ranks",
        metavar="N",
        help="Number of ranks. Default: one for each core; in a batch job, or with --hosts, --hostfile or "
        "--launcher, as many as the launcher starts by itself.",
    ),
]
Launcher = Annotated[
    str | None,
    Option(
        "--launcher",
        metavar="'COMMAND'",
        help="Start the ranks by this command instead of the MPI's mpirun, such as srun or "
        "'flux run -n {n}'. {n} stands for the number of ranks (otherwise -n N is added) and {program} for "
        "the program (otherwise it comes last).",
    ),
]
HostNames = Annotated[
    str | None,
    Option("--hosts", metavar="HOST,...", help="The hosts to use, in the form of the MPI's mpirun."),
]
HostFile = Annotated[
    Path | None,
    Option("--hostfile", metavar="FILE", help="A file of the hosts to use, in the form of the MPI's mpirun."),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Mpi = Annotated[
    str | None,
    Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to use: a prefix, or a name as in `offbeat info` (openmpi, mpich-5, intel, mpiabi, "
        "embedded). Default: the one that the program is linked to.",
    ),
]
MpiOfNoProgram = Annotated[
    str | None,
    Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to use: a prefix, or a name as in `offbeat info` (openmpi, mpich-5, intel, mpiabi, "
        "embedded). Default: the one of the mpirun on PATH, otherwise embedded.",
    ),
]
MpiOfExport = Annotated[
    str | None,
    Option(
        "--mpi",
        metavar="NAME|PREFIX",
        help="The MPI to check with: a prefix, or a name as in `offbeat info`. Default: the one of RESULTS.",
    ),
]
Allreduce = Annotated[
    str | None,
    Option("--allreduce", metavar="EXPR", help="Algorithm of MPI_Allreduce, such as 'pipeline(4, ring)'."),
]
Algorithm = Annotated[
    list[str] | None,
    Option(
        "--algorithm",
        metavar="COLLECTIVE=EXPR",
        help="Algorithm of another collective, such as 'bcast=pipeline(8, chain)'; may be repeated.",
    ),
]
Trace = Annotated[
    Path | None,
    Option(
        "--trace",
        metavar="FOLDER",
        variable="OFFBEAT_TRACE",
        help="Also record a trace of the run, under offbeat's algorithms, into FOLDER.",
    ),
]
MpirunArgs = Annotated[
    str,
    Option(
        "--mpirun-args", metavar="'ARGS'", help="Arguments for mpirun or the launcher, before the program."
    ),
]
Skews = Annotated[
    str,
    Option(
        "--skew",
        metavar="FACTOR|TIME,...",
        help="Lateness of the latest rank: a multiple of native's balanced median, or a time like 100us.",
    ),
]
Budget = Annotated[
    str,
    Option("--budget", metavar="TIME", help="Time limit of the whole command, such as 90s, 5min or 1h."),
]
Verbose = Annotated[
    int,
    Option(
        "-v",
        "--verbose",
        counted=True,
        help="Say which MPI and which algorithms are chosen, and why. -vv also counts the calls.",
    ),
]


class StartOptions(NamedTuple):
    """How and where the user wants ranks to run."""

    ranks: int | None = None
    hosts: Hosts = Hosts()
    launcher: str | None = None
    mpirun_args: str = ""

    def arguments(self, install: MpiInstall) -> list[str]:
        """The arguments of the launcher."""
        return [
            *launcher_.host_options(self.hosts, install, self.launcher),
            *split_arguments(self.mpirun_args),
        ]

    def number(self, environment: Mapping[str, str]) -> int | None:
        """How many ranks to start; None: the launcher decides."""
        if self.ranks is not None:
            return checked_ranks(self.ranks)
        return None if self.launcher or self.hosts else machine.default_rank_count(environment)


def start_options(
    ranks: int | None, launcher: str | None, hosts: str | None, hostfile: Path | None, mpirun_args: str
) -> StartOptions:
    """The options of a verb that starts ranks, checked."""
    if launcher is not None:
        launcher_.parse(launcher)
    if hostfile is not None and not hostfile.is_file():
        raise CommandError(f"--hostfile {hostfile}: there is no such file")
    return StartOptions(ranks, Hosts(hosts, hostfile), launcher, mpirun_args)


_MOST_STARTED = (1 << 31) - 1  # MPI counts ranks in an int


def checked_ranks(ranks: int, *, most: int = _MOST_STARTED) -> int:
    """Refuse fewer than one rank, and more than ``most``."""
    if ranks < 1:
        raise CommandError(f"-n {ranks}: the number of ranks must be at least 1")
    if ranks > most:
        raise CommandError(f"-n {ranks}: at most {most:,} ranks are possible")
    return ranks


def parse_range(text: str) -> tuple[int, int]:
    """The ends that ``4..64`` or ``4`` means; (0, 0) for anything else."""
    match = re.fullmatch(r"\s*(\d{1,9})(?:\.\.(\d{1,9}))?\s*", text)
    return (int(match[1]), int(match[2] or match[1])) if match else (0, 0)


def parse_numbers(option: str, text: str, *, least: int = 1, most: int | None = None) -> list[int]:
    """The numbers in a list such as ``1,16``, each once. Raises CommandError, which names the option."""
    found = []
    for word in text.split(","):
        number = int(word) if re.fullmatch(r"\s*\d{1,18}\s*", word) else -1
        if number < least or (most is not None and number > most):
            upto = f"from {least}" if most is None else f"from {least} to {most:,}"
            raise CommandError(f"{option} {text}: write whole numbers {upto}, separated by commas")
        found.append(number)
    return list(dict.fromkeys(found))


def new_trace_folder(folder: Path | None, *, force: bool | None = None) -> Path | None:
    """The absolute path of the folder for a trace. Refuses a file, and a folder that already has a trace.

    ``force`` allows an earlier trace; None: the verb has no such option. Whether a trace can be written there
    is not asked here: a program runs even if it cannot be traced.
    """
    if folder is None:
        return None
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise CommandError(f"{folder} is not a folder")
    if not force and (any(folder.glob("rank-*.trace")) or any(folder.glob("spawned-*"))):
        remedy = "remove it" if force is None else "add --force"
        raise CommandError(f"{folder} already has a trace; name another folder or {remedy}")
    return Path(os.path.realpath(folder))


def split_arguments(text: str) -> list[str]:
    """The words of ``--mpirun-args``, quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--mpirun-args {text!r}: {str(error).lower()}") from None


def chosen_algorithms(allreduce: str | None, others: list[str] | None) -> dict[str, str]:
    """The canonical expression for each collective that was named."""
    chosen = {"allreduce": canonical(allreduce)} if allreduce is not None else {}
    for text in others or []:
        collective, equals, expression = text.partition("=")
        if not equals:
            raise CommandError(f"--algorithm {text}: write COLLECTIVE=EXPR, such as bcast=binomial")
        if collective not in _core.served_collectives():
            known = ", ".join(_core.served_collectives())
            raise CommandError(f"--algorithm {text}: offbeat does not serve '{collective}', only {known}")
        if collective in chosen:
            raise CommandError(f"--algorithm {text}: {collective} already has an algorithm")
        chosen[collective] = canonical(expression, collective)
    return chosen
