# SPDX-License-Identifier: BSD-3-Clause
"""``native(NAME)``: the algorithms of an MPI, and how to tell the MPI to use one for a whole job.

The names are those of the preload library: ``src/selection/host_algorithms.txt`` is the only list of them.
An algorithm that offbeat has, too, goes by offbeat's name, any other one by the MPI's. A non-blocking
collective, such as ``iallreduce``, has algorithms of its own.

In a program that runs under offbeat, the preload library tells the MPI. The benchmark instead measures each
name in a job of its own, with environment variables, because it can then name algorithms that the library
cannot, such as those of Intel MPI.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from offbeat import _core
from offbeat.errors import CommandError

_RULE_HOST_OF_VENDOR = {"Open MPI": "openmpi", "MPICH": "mpich", "Intel MPI": "intel"}
_CHECKED_FILE = Path(__file__).with_name("checked_host_algorithms.json")
_NATIVE_NAME = re.compile(r"native\(\s*(\w+)\s*\)")


def is_native(algorithm: str) -> bool:
    """Whether ``algorithm`` is one of the host's own: ``native`` or ``native(NAME)``."""
    return algorithm == "native" or _NATIVE_NAME.fullmatch(algorithm) is not None


def name_in(algorithm: str) -> str | None:
    """The NAME in ``native(NAME)``, such as ``ring`` in ``pipeline(4, native(ring))``, or None."""
    match = _NATIVE_NAME.search(algorithm)
    return match[1] if match else None


def has_several_names(algorithm: str) -> bool:
    """Whether the parts of a grid of the host's differ. One run can give the MPI only one name."""
    names = set(_NATIVE_NAME.findall(algorithm))
    return len(names) > 1 or (bool(names) and "native" in _NATIVE_NAME.sub("", algorithm))


def refuse_several_names(algorithm: str) -> None:
    """Refuse what one run cannot measure."""
    if has_several_names(algorithm):
        raise CommandError(f"{algorithm}: one run measures one native(NAME); rules can have several")


def without_host_name(algorithm: str) -> str:
    """The expression for offbeat, such as ``pipeline(4, native)`` for ``pipeline(4, native(ring))``."""
    return _NATIVE_NAME.sub("native", algorithm)


def host_call_of(algorithm: str, collective: str, *, nonblocking: bool) -> str:
    """The host's collective that runs an algorithm, such as ``allreduce`` or ``iallreduce``.

    The segments of a pipeline are always non-blocking calls. The lines of a grid are blocking ones.
    """
    return f"i{collective}" if nonblocking or algorithm.startswith("pipeline(") else collective


def known_names(vendor: str, collective: str) -> list[str]:
    """The NAMEs that some version of an MPI has for a collective, such as ``allreduce`` or ``iallreduce``."""
    return [algorithm["name"] for algorithm in _host_algorithms_of(vendor, collective)]


def checked_names(vendor: str, version: str) -> dict[str, list[str]] | None:
    """The NAMEs for each call that were run under this version of an MPI, or None if it was not checked.

    Each of them had an effect and gave right results. ``tools/check_host_algorithms.py`` writes the list.
    """
    found: dict[str, dict[str, list[str]]] = json.loads(_CHECKED_FILE.read_text(encoding="utf-8"))
    return found.get(f"{vendor} {version}")


def variables(vendor: str, collective: str, name: str) -> dict[str, str]:
    """The variables that make an MPI use its algorithm ``name``. Empty if it has no such algorithm."""
    found = [algorithm for algorithm in _host_algorithms_of(vendor, collective) if algorithm["name"] == name]
    if not found:
        return {}
    upper = collective.upper()
    number = str(found[0]["number"])
    if vendor == "Open MPI":
        if collective.startswith("i"):
            return {f"OMPI_MCA_coll_libnbc_{collective}_algorithm": number}
        # On some machines han and other components have a higher priority than tuned.
        return {
            "OMPI_MCA_coll_tuned_priority": "100",
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            f"OMPI_MCA_coll_tuned_{collective}_algorithm": number,
        }
    if vendor == "Intel MPI":
        return {f"I_MPI_ADJUST_{upper}": number}
    # On one node MPICH's device has collectives of its own, which come first and ask for no algorithm.
    return {
        f"MPIR_CVAR_{upper}_INTRA_ALGORITHM": found[0]["spelling"],
        f"MPIR_CVAR_{upper}_DEVICE_COLLECTIVE": "0",
    }


def _host_algorithms_of(vendor: str, collective: str) -> list[_core.HostAlgorithm]:
    return [
        algorithm
        for algorithm in _core.host_algorithms()
        if algorithm["host"] == _RULE_HOST_OF_VENDOR.get(vendor) and algorithm["call"] == collective
    ]


def refuse_unknown_names(
    vendor: str, collectives: Sequence[str], algorithm: str, *, nonblocking: bool = False
) -> None:
    """Refuse a ``native(NAME)`` that the MPI has for none of the collectives."""
    name = name_in(algorithm)
    calls = [host_call_of(algorithm, collective, nonblocking=nonblocking) for collective in collectives]
    if name is None or any(name in known_names(vendor, each) for each in calls):
        return
    names = [n for each in calls for n in known_names(vendor, each)]
    listed = ", ".join(dict.fromkeys(names)) or "none"
    raise CommandError(f"{algorithm}: {vendor} has no such {' or '.join(calls)}; it has: {listed}")
