# SPDX-License-Identifier: BSD-3-Clause
"""The rules that ``offbeat tune`` stores for a machine and an MPI, and which ``offbeat run`` then uses.

They are files in ``~/.config/offbeat/rules``. Each begins with its fingerprint: for which processor, number
of cores, MPI and version it holds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from offbeat import _core, machine
from offbeat.errors import FAILED, CommandError
from offbeat.files import locked_for_writing, write_whole
from offbeat.machine import Fingerprint
from offbeat.mpi import discovery
from offbeat.mpi.install import MpiInstall, rule_host
from offbeat.rules import rule_files, spelling

VARIABLE = "OFFBEAT_RULES"
SIMULATED = "simulated"  # begins the reason of a rule that nobody has measured
_FINGERPRINT_PREFIX = "# fingerprint: "
_TITLE = (
    "# Rules of offbeat tune. `offbeat run` uses them on this machine, unless OFFBEAT_RULES names others."
)


def folder(environment: Mapping[str, str]) -> Path | None:
    """The folder of stored rules. None if the user has no home."""
    configuration = environment.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(configuration):
        return Path(configuration) / "offbeat" / "rules"
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "offbeat" / "rules" if os.path.isabs(home) else None


class StoredRules(NamedTuple):
    """The stored rules for a machine and an MPI, or why there are none."""

    path: Path | None = None
    warning: str | None = None


def find(mpi: str, version: str, environment: Mapping[str, str]) -> StoredRules:
    """Find the stored rules for an MPI here. OFFBEAT_RULES, even an empty one, replaces them."""
    where = folder(environment)
    if VARIABLE in environment or where is None or not where.is_dir():
        return StoredRules()
    here = machine.fingerprint(mpi, version)
    path = where / here.filename
    try:
        if path.exists():
            rule_files.without_errors(str(path))
            return StoredRules(path)
    except CommandError as error:
        return StoredRules(warning=f"stored rules are not used: {error}")
    others = [
        (each, of) for each in sorted(where.glob("*.rules")) if (of := _fingerprint_of(each)) is not None
    ]
    of_mpi = [(each, of) for each, of in others if of.mpi == mpi]
    if not of_mpi:
        return StoredRules()
    other, of = of_mpi[0]
    return StoredRules(
        warning=f"stored rules are not used: {other} is for {of}, not for {here}; offbeat tune makes new ones"
    )


class RulesInForce(NamedTuple):
    """What ``offbeat run`` uses without a program: the MPI as rules name it, and the stored rules."""

    host: str
    install: MpiInstall | None  # None: this MPI is not here
    stored: StoredRules

    @property
    def mpi(self) -> str:
        """The MPI for people."""
        return f"{self.install.vendor} {self.install.version}" if self.install is not None else self.host


def in_force(host: str | None, environment: Mapping[str, str]) -> RulesInForce:
    """Find the MPI that rules call ``host``, and its stored rules.

    If ``host`` is None, this is the default MPI of ``offbeat run``. If several versions are installed, the
    first one that has stored rules is taken.
    """
    if host is None:
        default = discovery.default(environment)
        installs = [default] if default is not None else []
    else:
        found = discovery.discover(environment)
        installs = [each for each in found if rule_host(each.vendor) == host]
    known = [
        RulesInForce(rule_host(each.vendor), each, find(each.vendor, each.version, environment))
        for each in installs
    ]
    first = known[0] if known else RulesInForce(host or rule_host(""), None, StoredRules())
    return next((each for each in known if each.stored.path is not None), first)


def _fingerprint_of(path: Path) -> Fingerprint | None:
    try:
        if not path.is_file():
            return None  # opening a FIFO would block forever
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(_FINGERPRINT_PREFIX):
                    return Fingerprint(**json.loads(line[len(_FINGERPRINT_PREFIX) :]))
                if not line.startswith("#"):
                    return None
    except (OSError, ValueError, TypeError, RecursionError):
        pass
    return None


def store(
    mpi: str,
    version: str,
    rows: Sequence[Sequence[str]],
    reasons: Sequence[str],
    environment: Mapping[str, str],
) -> Path:
    """Store rules for this machine, before those that an earlier tuning stored."""
    return store_for(machine.fingerprint(mpi, version), rows, reasons, environment)


def store_for(
    here: Fingerprint,
    rows: Sequence[Sequence[str]],
    reasons: Sequence[str],
    environment: Mapping[str, str],
) -> Path:
    """Store rules, before those that an earlier tuning stored. Raises CommandError if that is impossible.

    An earlier rule stays unless a new one has the same fields, except for the algorithm: the new ones come
    first, so they decide where both match. Simulated rules come after those that were measured.
    """
    where = folder(environment)
    if where is None:
        raise CommandError("there is no home folder (HOME) to store the rules in", FAILED)
    path = where / here.filename
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot store the rules in {where}: {error.strerror}", FAILED) from None
    with locked_for_writing(path, wait=True):  # two tunings may end at once
        write_whole(path, lambda file: file.write(_text_with_new_rules(path, here, rows, reasons)))
    return path


def _text_with_new_rules(
    path: Path, here: Fingerprint, rows: Sequence[Sequence[str]], reasons: Sequence[str]
) -> str:
    """The text of a stored file with new rules: the measured ones first, and of these the newest."""
    new = list(zip(map(list, rows), reasons, strict=True))
    earlier = [(_fields(rule), rule["reason"]) for rule in _earlier_rules(path)]
    both = sorted([*new, *earlier], key=lambda each: each[1].startswith(SIMULATED))
    kept: dict[tuple[str, ...], tuple[list[str], str]] = {}
    for row, reason in both:
        kept.setdefault(tuple(row[:-1]), (row, reason))
    head = [_TITLE, _FINGERPRINT_PREFIX + json.dumps(here._asdict()), ""]
    lines = spelling.rule_lines([row for row, _ in kept.values()], [reason for _, reason in kept.values()])
    return "\n".join([*head, *lines]) + "\n"


def _earlier_rules(path: Path) -> list[_core.Rule]:
    """The rules of a stored file. A file with errors counts as empty; it was not in use either."""
    try:
        return rule_files.without_errors(str(path)).rules if path.exists() else []
    except (CommandError, OSError):
        return []


def _fields(rule: _core.Rule) -> list[str]:
    return rule["text"].split(" ", len(spelling.FIELDS) - 1)
