# SPDX-License-Identifier: BSD-3-Clause
"""Files of rules, the algorithms of the MPIs, and the plans that follow from them."""

from __future__ import annotations

import ctypes
import weakref
from typing import TypedDict

from offbeat._core.library import Text, as_int, as_text, ask, library

library.offbeat_python_free_rules.restype = None


class HostAlgorithm(TypedDict):
    """A name that native(NAME) can have, with the versions of the MPI under which it was checked."""

    host: str
    call: str  # such as allreduce or iallreduce
    name: str
    spelling: str  # the MPI's own name
    number: int  # in the MPI's list, from 1
    ranks: int | None  # the only number of ranks that it runs on


class Rule(TypedDict):
    """One line of a file of rules."""

    line: int
    text: str  # the canonical spelling
    collective: str
    nonblocking: bool  # it is for non-blocking calls only
    host: str
    nodes: tuple[int, int]  # least and most
    ppn: tuple[int, int]
    reason: str
    first: str  # the first alternative
    never_tried: list[str]  # alternatives that may combine in another order than the first one


class PlanRow(TypedDict):
    """A range of lengths in the plan of a collective, and what runs there."""

    least_bytes: int
    most_bytes: int | None  # included; None: no upper end
    expression: str
    form: str
    needs: str
    alternatives: list[str]
    reason: str
    origin: str


class Rules:
    """The contents of a file of rules: its rules, and its errors."""

    def __init__(self, function: str, *arguments: Text) -> None:
        self._handle = ctypes.c_void_p()
        ask(function, *arguments, ctypes.byref(self._handle))
        weakref.finalize(self, library.offbeat_python_free_rules, self._handle)

    @property
    def errors(self) -> list[str]:
        """One line for each error, as FILE:LINE: FIELD: MESSAGE."""
        lines: list[str] = ask("rule_errors", self._handle)
        return lines

    @property
    def rules(self) -> list[Rule]:
        """The rules without an error."""
        found: list[Rule] = ask("rule_list", self._handle)
        for rule in found:
            rule["nodes"] = (rule["nodes"][0], rule["nodes"][1])
            rule["ppn"] = (rule["ppn"][0], rule["ppn"][1])
        return found


def read_rules(path: str) -> Rules:
    """Read a file of rules, which must be a regular file. Raises UsageError if it cannot be read."""
    return Rules("read_rules", as_text(path))


def built_in_rules() -> Rules:
    """Return the rules that are built into offbeat."""
    return Rules("built_in_rules")


def hosts() -> list[str]:
    """Return the names of the MPIs that rules can tell apart."""
    names: list[str] = ask("hosts")
    return names


def host_algorithms() -> list[HostAlgorithm]:
    """Return the algorithms of the MPIs that native(NAME) can name."""
    found: list[HostAlgorithm] = ask("host_algorithms")
    return found


def plan(
    calls: str,
    host: str,
    nodes: int,
    ranks_per_node: int,
    board: bool,
    users_rules: Rules | None,
    fixed: str,
    origin: str,
    machine: str = "",
    adapt: str = "on",
) -> list[PlanRow]:
    """Return the plan of ``calls``, such as bcast, or ibcast for its non-blocking calls; shortest first.

    The communicator has ``nodes`` times ``ranks_per_node`` ranks.
    ``board`` says whether the ranks of a node share memory. If ``fixed`` is not empty, calls of every length
    run that expression, and ``origin`` says who chose it. Otherwise ``users_rules`` decide, and after them
    the built-in rules. ``machine`` is the path of the machine file that gives grid(auto) its shape; empty:
    the built-in one. ``adapt`` is a value of OFFBEAT_ADAPT.
    """
    rows: list[PlanRow] = ask(
        "plan", as_text(calls), as_text(host), as_int(nodes), as_int(ranks_per_node),
        ctypes.c_bool(board), None if users_rules is None else users_rules._handle, as_text(fixed),
        as_text(origin), as_text(machine), as_text(adapt),
    )  # fmt: skip
    return rows
