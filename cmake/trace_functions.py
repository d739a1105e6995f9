# SPDX-License-Identifier: BSD-3-Clause
"""Writes the functions that liboffbeat-trace puts before the host MPI's, from the prototypes in its header.

    trace_functions.py mpi.h functions.cpp [--no-large-counts]

All that they do is to call a template of src/mpi/tracer/wrapped.hpp. They are written by a program because C++
cannot give a template's functions the names MPI_Bcast, MPI_Ibcast_c, MPI_Bcast_init, ...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "src" / "base" / "collective.hpp"
COLLECTIVES = re.findall(r'CollectiveFacts\{"\w+", "(\w+)"', LIST.read_text())

# What a new communicator is made from; see Parent in wrapped.hpp.
CREATORS = {
    "group": ("Comm_dup", "Comm_dup_with_info", "Comm_idup", "Comm_idup_with_info"),
    "first": (
        "Comm_create", "Comm_create_group", "Comm_split", "Comm_split_type", "Cart_create", "Cart_sub",
        "Graph_create", "Dist_graph_create", "Dist_graph_create_adjacent", "Intercomm_merge",
    ),
    "none": (
        "Comm_create_from_group", "Intercomm_create", "Intercomm_create_from_groups",
        "Comm_accept", "Comm_connect", "Comm_join",
    ),
}  # fmt: skip

# Functions that start, complete and free requests; see src/mpi/request_functions.hpp.
REQUESTS = (
    "Start", "Startall", "Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome",
    "Request_free", "Request_get_status",
)  # fmt: skip

# Functions that have a wrapper of their own.
OTHERS = {
    "Type_free": "type_free", "Op_free": "op_free", "Comm_free": "frees_communicator", "Comm_disconnect": "frees_communicator",
    "Comm_spawn": "spawn", "Comm_spawn_multiple": "spawn_multiple",
    "Init": "init", "Init_thread": "init", "Finalize": "finalize",
}  # fmt: skip

HEAD = """\
// Written by cmake/trace_functions.py.
#include "mpi/tracer/wrapped.hpp"

using offbeat::Collective;
using namespace offbeat::trace;

extern "C" {
"""


def spellings(collective: str) -> dict[str, str]:
    """The names of a collective and its form."""
    nonblocking = f"I{collective[0].lower()}{collective[1:]}"
    forms = {collective: "blocking", nonblocking: "nonblocking", f"{collective}_init": "persistent"}
    return forms | {f"{name}_c": form for name, form in forms.items()}


def wrappers() -> dict[str, str]:
    """The wrapper of each MPI function."""
    found = OTHERS | {name: f"OnRequests::{name.lower()}" for name in REQUESTS}
    for collective in COLLECTIVES:
        for name, form in spellings(collective).items():
            found[name] = f"call<Collective::{collective.lower()}, wrapped::Form::{form}>"
    for parent, names in CREATORS.items():
        found |= {name: f"creates<wrapped::Parent::{parent}>" for name in names}
    return found


def parameters(header: str) -> dict[str, str]:
    """The parameters of each function, as they stand in the header."""
    without_comments = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    found = re.findall(r"\bint\s+PMPI_(\w+)\s*\(([^()]*)\)", without_comments)
    return {name: " ".join(text.split()) for name, text in found}


def arguments(text: str) -> list[str]:
    """The names of parameters."""
    if text in ("", "void"):
        return []
    return [re.sub(r"(\s*\[[^]]*\])+$", "", one).split()[-1].lstrip("*") for one in text.split(",")]


def function(name: str, wrapper: str, declared: str) -> str:
    following = ", ".join([f'next<"{name}", decltype({name})>()', *arguments(declared)])
    return f"int {name}({declared}) {{\n  return wrapped::{wrapper}({following});\n}}\n"


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    large_counts = "--no-large-counts" not in sys.argv
    declared = parameters(source.read_text())
    missing = [name for name in (*COLLECTIVES, *REQUESTS, *OTHERS) if name not in declared]
    if missing:
        sys.exit(f"{source}: no prototype of PMPI_{missing[0]}")
    functions = [
        function(level + name, wrapper, declared[name])
        for name, wrapper in wrappers().items()
        for level in ("MPI_", "PMPI_")
        if name in declared and (large_counts or not name.endswith("_c"))
    ]
    target.write_text(HEAD + "\n" + "\n".join(functions) + '\n}  // extern "C"\n')


if __name__ == "__main__":
    main()
