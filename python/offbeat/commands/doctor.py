# SPDX-License-Identifier: BSD-3-Clause
"""offbeat doctor: find out what keeps offbeat from working here."""

from __future__ import annotations

import ctypes.util
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from offbeat import __version__, _core, machine
from offbeat.bench import health
from offbeat.bench.health import Check, Status
from offbeat.bench.probe import probe
from offbeat.commands import launchers
from offbeat.commands.command_line import Argument, Command
from offbeat.commands.options import (
    AsJson,
    HostFile,
    HostNames,
    Launcher,
    Mpi,
    MpirunArgs,
    RanksOfProgram,
    start_options,
)
from offbeat.commands.output import print_json
from offbeat.errors import ANSWER_NO, CommandError
from offbeat.mpi.choice import Choice, choose
from offbeat.mpi.program import find_program
from offbeat.rules import rule_files, stored

_STYLES = {Status.ok: "green", Status.warning: "dark_orange", Status.failed: "bold red"}
_DRIVER_NAMES = {"cuda": "CUDA", "amdhip64": "HIP", "ze_loader": "Level Zero"}


def doctor(
    program: Annotated[
        list[str] | None, Argument(metavar="PROGRAM", help="The program that will be started.")
    ] = None,
    ranks: RanksOfProgram = None,
    mpi: Mpi = None,
    launcher: Launcher = None,
    hosts: HostNames = None,
    hostfile: HostFile = None,
    mpirun_args: MpirunArgs = "",
    as_json: AsJson = False,
) -> int:
    """Find out what keeps offbeat from working here.

    This starts ranks as offbeat run does, and looks: which MPI is it, does the preload reach the ranks, do
    they share memory, do they share cores, which rules hold, is there a GPU driver. PROGRAM itself is not
    started. The exit code is 1 if a check has failed.

    offbeat doctor
    offbeat doctor -n 4 -- ./program
    offbeat doctor -n 64 --launcher srun
    """
    base = dict(os.environ)
    place = start_options(ranks, launcher, hosts, hostfile, mpirun_args)
    checks: list[Check] = []
    try:
        path = find_program(program[0], base) if program else None
        if program and path is not None:
            launchers.refuse("doctor", program, path, base)
        choice = choose(mpi, path, (program or [])[1:], base)
    except CommandError as error:
        checks.append(Check("MPI", Status.failed, str(error)))
    else:
        checks += _check_of_program(path, choice)
        checks += _check_of_load()  # before offbeat's own ranks add to it
        try:
            found = probe(choice, place.number(base), place.arguments(choice.install), launcher)
            checks += health.checks_of_ranks(found)
        except CommandError as error:
            checks.append(
                Check("ranks", Status.failed, str(error), "First start an MPI program without offbeat.")
            )
        checks += _check_of_rules(choice, base)
    checks += [*_check_of_settings(base), *_check_of_devices(base)]
    failed = any(check.status is Status.failed for check in checks)
    if as_json:
        print_json(
            {"offbeat": __version__, "healthy": not failed, "checks": [asdict(each) for each in checks]}
        )
    else:
        _show(checks)
    return ANSWER_NO if failed else 0


def _check_of_program(path: Path | None, choice: Choice) -> Iterator[Check]:
    yield Check("MPI", Status.ok, f"{choice.install}: {choice.why}")
    if path is not None and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        text = f"{path} changes its user or group, so the dynamic linker ignores LD_PRELOAD"
        yield Check("program", Status.failed, text)
    elif path is not None and "PATH" in choice.why:
        text = f"{path} shows no MPI library"
        advice = (
            "That is right for scripts and for programs that load their MPI late. No preload reaches a "
            "program that is linked statically."
        )
        yield Check("program", Status.warning, text, advice)


def _check_of_load() -> Iterator[Check]:
    line = machine.overload_warning()
    if line is not None:
        advice = "End other programs, or wait for them: programs are slower now, and measurements are wrong."
        yield Check("load", Status.warning, line, advice)
    else:
        yield Check("load", Status.ok, f"{machine.load():.1f} on {os.cpu_count()} CPUs")


def _check_of_rules(choice: Choice, base: Mapping[str, str]) -> Iterator[Check]:
    install = choice.install
    users = base.get(stored.VARIABLE)
    if users:
        try:
            rule_files.without_errors(users)
            yield Check("rules", Status.ok, f"those of {stored.VARIABLE}={users}, then the built-in ones")
        except CommandError as error:
            yield Check("rules", Status.failed, str(error))
        return
    found = stored.find(install.vendor, install.version, base)
    if found.warning is not None:
        yield Check("rules", Status.warning, found.warning)
    elif found.path is not None:
        yield Check("rules", Status.ok, f"tuned here: {found.path}, then the built-in ones")
    else:
        yield Check(
            "rules", Status.ok, "the built-in ones; `offbeat tune` makes better ones for this machine"
        )


def _check_of_settings(base: Mapping[str, str]) -> Iterator[Check]:
    known = {setting["name"] for setting in _core.settings()}
    given = {name: value for name, value in base.items() if name.startswith("OFFBEAT_")}
    unknown = sorted(name for name in given if name not in known)
    if unknown:
        advice = "`offbeat info --settings` lists all settings."
        yield Check("settings", Status.warning, f"no settings of offbeat: {', '.join(unknown)}", advice)
    changed = [f"{name}={value}" for name, value in sorted(given.items()) if name in known]
    if changed:
        yield Check("settings", Status.ok, ", ".join(changed))


def _check_of_devices(base: Mapping[str, str]) -> Iterator[Check]:
    found = [name for library, name in _DRIVER_NAMES.items() if ctypes.util.find_library(library)]
    if not found:
        yield Check("GPU driver", Status.ok, "none found")
        return
    policy = base.get("OFFBEAT_GPU") or "stage"
    text = f"{', '.join(found)}; OFFBEAT_GPU is {policy}"
    if "Level Zero" in found and policy == "stage":
        advice = "The MPI serves communicators whose ranks have loaded Level Zero; see docs/how-to/gpu.md."
        yield Check("GPU driver", Status.warning, text, advice)
    else:
        yield Check("GPU driver", Status.ok, text)


def _show(checks: list[Check]) -> None:
    console = Console(highlight=False)
    for check in checks:
        line = Text(f"{check.status.value:<8}", style=_STYLES[check.status])
        console.print(line.append(f" {check.name:<14} {check.text}", style="default"), soft_wrap=True)
        if check.advice:
            console.print(Text(f"{'':<24}{check.advice}", style="dim"), soft_wrap=True)


COMMAND = Command(doctor, interspersed=False)
