# SPDX-License-Identifier: BSD-3-Clause
"""Build the command line and the environment that start a program with the preload.

These are pure functions. They depend only on their arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from offbeat.errors import CommandError
from offbeat.mpi import launcher
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.libraries import joined_preload

_PREFIX = "OFFBEAT_"
_TORCH_VARIABLES = (
    "MASTER_ADDR",
    "MASTER_PORT",
)  # where ranks of torch.distributed meet, on several machines
# Options of Open MPI's mpirun that place ranks. If the user gives one, offbeat adds no placement.
_PLACEMENT_OPTIONS = {
    "map-by", "rank-by", "oversubscribe", "nooversubscribe", "hostfile", "machinefile", "host", "H",
    "rankfile", "rf", "npernode", "N", "ppr",
}  # fmt: skip


class Settings(NamedTuple):
    """The command line options that become settings of offbeat."""

    algorithms: Mapping[str, str] = {}  # expressions by collective
    verbose: int = 0
    trace: Path | None = None
    trace_every: int = 1
    trace_ranks_every: int = 1
    trace_collectives: str | None = None
    trace_communicators: str | None = None
    trace_paused: bool = False
    rules: Path | None = None  # the file of rules, if the user's environment names none

    def variables(self) -> dict[str, str]:
        """The settings as the environment variables that liboffbeat reads."""
        chosen = {f"{_PREFIX}{name.upper()}": expression for name, expression in self.algorithms.items()}
        if self.verbose > 0:
            chosen[f"{_PREFIX}VERBOSE"] = "1"
        if self.verbose > 1:
            chosen[f"{_PREFIX}REPORT"] = "1"
        if self.trace is not None:
            chosen[f"{_PREFIX}TRACE"] = str(self.trace)
        if self.trace_every != 1:
            chosen[f"{_PREFIX}TRACE_EVERY"] = str(self.trace_every)
        if self.trace_ranks_every != 1:
            chosen[f"{_PREFIX}TRACE_RANKS_EVERY"] = str(self.trace_ranks_every)
        if self.trace_collectives is not None:
            chosen[f"{_PREFIX}TRACE_COLLECTIVES"] = self.trace_collectives
        if self.trace_communicators is not None:
            chosen[f"{_PREFIX}TRACE_COMMUNICATORS"] = self.trace_communicators
        if self.trace_paused:
            chosen[f"{_PREFIX}TRACE_PAUSED"] = "1"
        if self.rules is not None:
            chosen[f"{_PREFIX}RULES"] = str(self.rules)
        return chosen


class Request(NamedTuple):
    """A program to start, and how."""

    install: MpiInstall
    ranks: int | None  # None: the launcher decides
    program: Sequence[str]
    libraries: Sequence[Path]
    settings: Settings = Settings()
    mpirun_arguments: Sequence[str] = ()
    # Variables for both mpirun and the ranks, such as LD_LIBRARY_PATH.
    variables: Mapping[str, str] = {}
    launcher: str | None = None  # a template, instead of the MPI's own mpirun; see launcher.py


class Launch(NamedTuple):
    """A command line with its environment."""

    command: list[str]
    environment: dict[str, str]


def rank_variables(libraries: Sequence[Path], settings: Settings, base: Mapping[str, str]) -> dict[str, str]:
    """The variables that only the ranks get, not mpirun."""
    inherited = {
        name: value for name, value in base.items() if name.startswith(_PREFIX) or name in _TORCH_VARIABLES
    }
    return {"LD_PRELOAD": joined_preload(libraries, base), **inherited, **settings.variables()}


def build(request: Request, base: Mapping[str, str], *, slots: int | None, is_root: bool) -> Launch:
    """Build the mpirun command. ``slots`` is how many ranks fit here; None: the scheduler decides."""
    install = request.install
    environment = {**base, **request.variables}
    of_install = install.environment(environment)
    environment.update(of_install)
    ranks = rank_variables(request.libraries, request.settings, base)
    if request.launcher is not None:
        if install.vendor == "Open MPI" and is_root:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables = {**request.variables, **of_install, **ranks}
        return Launch(
            launcher.command(
                request.launcher, request.ranks, request.mpirun_arguments, variables, request.program
            ),
            environment,
        )
    if install.mpirun is None:
        raise CommandError(
            f"{install} has no mpirun; name your launcher, as in --launcher srun, or use it with the "
            "variables that `offbeat env` prints"
        )
    command = [str(install.mpirun), *(["-n", str(request.ranks)] if request.ranks is not None else [])]
    if install.vendor == "Open MPI":
        if is_root:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if slots is not None and (request.ranks or 0) > slots and not _places_ranks(request.mpirun_arguments):
            command += ["--map-by", ":OVERSUBSCRIBE"]
        for name, value in {**ranks, **request.variables}.items():
            command += ["-x", f"{name}={value}"]
    else:
        for name, value in ranks.items():
            command += ["-genv", name, value]
    return Launch([*command, *request.mpirun_arguments, *request.program], environment)


def _places_ranks(arguments: Sequence[str]) -> bool:
    return any(
        argument.startswith("-") and argument.lstrip("-") in _PLACEMENT_OPTIONS for argument in arguments
    )
