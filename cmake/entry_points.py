# SPDX-License-Identifier: BSD-3-Clause
"""Writes the functions that a preload library puts before the host MPI's, from the prototypes in its header.

    entry_points.py preload|tracer mpi.h entry_points.cpp [--older|--newer] [--spawn] [--sessions]

--older leaves out the functions that came with MPI 4 and 4.1 and that a program may look for: those with
large counts, and MPI_Request_get_status_any and the like. --newer writes only these. The header need not
declare them: their prototypes are derived from those of older functions, or written below. --spawn and
--sessions add the functions that make processes and sessions, which a header may lack.

Each function calls a template of src/mpi/interpose/wrapped.hpp or src/mpi/tracer/wrapped.hpp, unless the
MPI of the process is of another family. They are written by a program because C++ cannot give its functions
the names MPI_Bcast, MPI_Ibcast_c, ...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "src" / "base" / "collective.hpp"
LINE = re.compile(r'CollectiveFacts\{\s*"(?P<name>\w+)",\s*"(?P<function>\w+)",\s*"[^"]*"(?P<flags>[^}]*)\}')
FLAGS = ("has_root", "has_operation", "is_served")

# The parameters of each collective, in MPI's order, by their places in a CollectiveCall. Those of FOR_BOTH
# that name no buffer hold for both. The same ones follow for all: the communicator, an info and a request.
FOR_BOTH = ("data", "count", "counts", "type")
ONE = "{0}.data {0}.count {0}.type"
BLOCKS = "{0}.data {0}.counts {0}.displacements {0}.type"
TYPED_BLOCKS = "{0}.data {0}.counts {0}.displacements {0}.types"
REDUCTION = "input.data output.data count type op"


def from_to(sent: str, received: str, *others: str) -> str:
    return " ".join([sent.format("input"), received.format("output"), *others])


PARAMETERS = {
    "Allreduce": REDUCTION,
    "Barrier": "",
    "Bcast": "data count type root",
    "Reduce": f"{REDUCTION} root",
    "Allgather": from_to(ONE, ONE),
    "Allgatherv": from_to(ONE, BLOCKS),
    "Alltoall": from_to(ONE, ONE),
    "Alltoallv": from_to(BLOCKS, BLOCKS),
    "Alltoallw": from_to(TYPED_BLOCKS, TYPED_BLOCKS),
    "Gather": from_to(ONE, ONE, "root"),
    "Gatherv": from_to(ONE, BLOCKS, "root"),
    "Scatter": from_to(ONE, ONE, "root"),
    "Scatterv": from_to(BLOCKS, ONE, "root"),
    "Reduce_scatter": REDUCTION.replace("count", "counts"),
    "Reduce_scatter_block": REDUCTION,
    "Scan": REDUCTION,
    "Exscan": REDUCTION,
    "Neighbor_allgather": from_to(ONE, ONE),
    "Neighbor_allgatherv": from_to(ONE, BLOCKS),
    "Neighbor_alltoall": from_to(ONE, ONE),
    "Neighbor_alltoallv": from_to(BLOCKS, BLOCKS),
    "Neighbor_alltoallw": from_to(TYPED_BLOCKS, TYPED_BLOCKS),
}

# What a new communicator is made from; see Parent in the tracer's wrapped.hpp.
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

# Functions that start, complete and free requests; see src/mpi/host/request_functions.hpp.
REQUESTS = (
    "Start", "Startall", "Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome",
    "Request_free", "Request_get_status",
)  # fmt: skip
# Further ones for the preload; see src/mpi/interpose/request_calls.hpp.
MORE_REQUESTS = {
    "Cancel": "cancel",
    "Request_get_status_all": "request_get_status_of_list",
    "Request_get_status_any": "request_get_status_of_list",
    "Request_get_status_some": "request_get_status_of_list",
}
REQUESTS_OF_MPI_4_1 = {
    "Request_get_status_all": "int count, const MPI_Request requests[], int *flag, MPI_Status statuses[]",
    "Request_get_status_any": (
        "int count, const MPI_Request requests[], int *index, int *flag, MPI_Status *status"
    ),
    "Request_get_status_some": (
        "int count, const MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]"
    ),
}
# MPICH's extensions, which are called MPIX_X. They are there only if the host's header has them.
EXTENSIONS = {"Request_is_complete": "RequestCalls::request_is_complete"}

# The CREATORS that all ranks of the parent call, and that have made the communicator on return.
BLOCKING_CREATORS = (
    "Comm_dup", "Comm_dup_with_info", "Comm_create", "Comm_split", "Comm_split_type", "Cart_create",
    "Cart_sub", "Graph_create", "Dist_graph_create", "Dist_graph_create_adjacent",
)  # fmt: skip

# The CREATORS that make the communicator later.
NONBLOCKING_CREATORS = ("Comm_idup", "Comm_idup_with_info")

# The CREATORS that need no MPI_Init.
SESSION_CREATORS = ("Comm_create_from_group", "Intercomm_create_from_groups")

# Functions that have a wrapper of their own.
LIFE = {
    "Init": "init", "Init_thread": "init", "Finalize": "finalize",
    "Comm_free": "frees_communicator", "Comm_disconnect": "frees_communicator",
}  # fmt: skip
SPAWN = {"Comm_spawn": "spawn", "Comm_spawn_multiple": "spawn_multiple"}
FREE = {"Type_free": "type_free", "Op_free": "op_free"}
# Functions with "..." at the end. A wrapper gets only the parameters before, and knows this type of function.
VARIADIC = {"Pcontrol": ("pcontrol", "int(int)")}

HEAD = """\
// Written by cmake/entry_points.py.
#include "mpi/{folder}/wrapped.hpp"

{prototypes}
namespace offbeat {{

{signatures}
}}  // namespace offbeat

using offbeat::Collective;
using offbeat::Entry;
using offbeat::Form;
using offbeat::Word;
namespace wrapped = offbeat::{namespace};

{functions}"""


def collectives(flag: str | None = None) -> list[str]:
    """The functions of all collectives, or of those that have a flag in the list."""
    found = []
    for line in LINE.finditer(LIST.read_text()):
        values = [value == "true" for value in re.findall(r"true|false", line["flags"])]
        if flag is None or dict(zip(FLAGS, values, strict=False)).get(flag, False):
            found.append(line["function"])
    return found


def buffer(side: str, fields: list[str]) -> str:
    """The type of one of the buffers of a CollectiveCall."""
    own = {field.removeprefix(f"{side}.") for field in fields if field in FOR_BOTH or field.startswith(side)}
    known_by = {"types": "TypedBlocks", "counts": "Blocks", "count": "Elements"}
    kind = next((kind for field, kind in known_by.items() if field in own), "Nothing")
    return f"{kind}<{'const void' if side == 'input' else 'void'}>"


def signature(collective: str) -> str:
    """The description of a collective's parameters; see Signature in src/mpi/host/collective_call.hpp."""
    fields = f"{PARAMETERS[collective]} communicator".split()
    declared = ", ".join(f"auto {field.replace('.', '_')}" for field in fields)
    assigned = [
        f"    call.{place} = {field.replace('.', '_')};\n"
        for field in fields
        for place in ([f"input.{field}", f"output.{field}"] if field in FOR_BOTH else [field])
    ]
    return (
        f"template <>\nstruct Signature<Collective::{collective.lower()}> {{\n"
        f"  static auto read({declared}, auto...) {{\n"
        f"    CollectiveCall<{buffer('input', fields)}, {buffer('output', fields)}> call;\n"
        f"{''.join(assigned)}    return call;\n  }}\n}};\n"
    )


def parameters(header: str, prefix: str = "PMPI_") -> dict[str, str]:
    """The parameters of each function, as they stand in the header."""
    without_comments = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    found = re.findall(rf"\bint\s+{prefix}(\w+)\s*\(([^()]*)\)", without_comments)
    return {name: " ".join(text.split()) for name, text in found}


def arguments(text: str) -> list[str]:
    """The names of parameters."""
    if text in ("", "void"):
        return []
    return [re.sub(r"(\s*\[[^]]*\])+$", "", one).split()[-1].lstrip("*") for one in text.split(",")]


def spellings(collective: str) -> dict[str, str]:
    """The names of a collective and its form."""
    nonblocking = f"I{collective[0].lower()}{collective[1:]}"
    forms = {collective: "blocking", nonblocking: "nonblocking", f"{collective}_init": "persistent"}
    return forms | {f"{name}_c": form for name, form in forms.items()}


# The type of a parameter of MPI_X_c, where MPI_X has int.
WIDE = {"count": "MPI_Count", "counts": "MPI_Count", "displacements": "MPI_Aint"}


def with_large_counts(collective: str, parameters: str) -> str:
    """The parameters of MPI_X_c, from those of MPI_X or another form of it."""
    types = [WIDE.get(field.rpartition(".")[2], "int") for field in PARAMETERS[collective].split()]
    declared = parameters.split(",")
    wide = [re.sub(r"\bint\b", type, text) for text, type in zip(declared, types, strict=False)]
    return ",".join(wide + declared[len(wide) :])


def newer_functions(declared: dict[str, str]) -> dict[str, str]:
    """The parameters of the functions for --newer, from those of older ones."""
    newer = dict(REQUESTS_OF_MPI_4_1)
    for collective in collectives():
        for name in spellings(collective):
            if name in declared and not name.endswith("_c") and "count" in PARAMETERS[collective]:
                newer[f"{name}_c"] = with_large_counts(collective, declared[name])
    return newer


def entry_point(function: str, wrapper: str, parameters: str, *first: str, kind: str | None = None) -> str:
    """Returns the code of a function that programs see; see src/mpi/host/entry.hpp."""
    names = arguments(parameters)
    words = ", ".join(f"Word {name}" for name in names)
    passed = "".join(f", {name}" for name in names)
    to_wrapper = ", ".join([*first, "arguments..."])
    return (
        f'int entry_{function}({words}) __asm__("{function}");\n'
        f"int entry_{function}({words}) {{\n"
        f"  const auto wrapper = [](auto... arguments) {{ return wrapped::{wrapper}({to_wrapper}); }};\n"
        f'  using Here = Entry<"{function}", wrapped::Library, {kind or f"decltype({function})"}>;\n'
        f"  return Here::call(entry_{function}, wrapper{passed});\n"
        "}\n"
    )


def before_next(
    wrappers: dict[str, str], declared: dict[str, str], prefixes: tuple[str, ...] = ("MPI_", "PMPI_")
) -> list[str]:
    """Functions whose wrappers get the function that comes next."""
    return [
        entry_point(function, wrapper, declared[name], f'wrapped::next<"{function}", decltype({function})>()')
        for name, wrapper in wrappers.items()
        for function in (prefix + name for prefix in prefixes)
        if name in declared
    ]


def traced(declared: dict[str, str]) -> list[str]:
    wrappers = LIFE | SPAWN | FREE | {name: f"RequestCalls::{name.lower()}" for name in REQUESTS}
    for collective in collectives():
        for name, form in spellings(collective).items():
            wrappers[name] = f"call<Collective::{collective.lower()}, Form::{form}>"
    for parent, names in CREATORS.items():
        wrappers |= dict.fromkeys(names, f"creates<wrapped::Parent::{parent}>")
    return before_next(wrappers, declared) + [
        entry_point(
            function,
            wrapper,
            declared[name].removesuffix("...").rstrip(", "),
            f'wrapped::next<"{function}", decltype({function})>()',
            kind=kind,
        )
        for name, (wrapper, kind) in VARIADIC.items()
        for function in (f"MPI_{name}", f"PMPI_{name}")
        if name in declared
    ]


def served(
    declared: dict[str, str], extensions: dict[str, str], *, with_spawn: bool, with_sessions: bool
) -> list[str]:
    own = [
        entry_point(
            function,
            f"{wrapper}<Collective::{collective.lower()}, Form::{form}, offbeat::CountKind::{counts}>",
            declared[name],
        )
        for collective in collectives("is_served")
        for name, form in spellings(collective).items()
        for counts in ("large" if name.endswith("_c") else "int_counts",)
        if name in declared
        for function, wrapper in ((f"PMPI_{name}", "call"), (f"MPI_{name}", "call_of_program"))
    ]
    others = LIFE | (SPAWN if with_spawn else {}) | dict.fromkeys(BLOCKING_CREATORS, "creates")
    if with_sessions:
        others |= dict.fromkeys(SESSION_CREATORS, "creates_from_groups")
        others |= dict.fromkeys(("Comm_create_group", "Intercomm_merge"), "creates_for_some")
    others |= dict.fromkeys(NONBLOCKING_CREATORS, "begins_communicator")
    others["Win_test"] = "win_test"
    others |= {name: f"RequestCalls::{name.lower()}" for name in REQUESTS}
    others |= {name: f"RequestCalls::{wrapper}" for name, wrapper in MORE_REQUESTS.items()}
    return (
        own
        + before_next(others, declared)
        + before_next(EXTENSIONS, extensions, prefixes=("MPIX_", "PMPIX_"))
    )


def main() -> None:
    library, header, target, *options = sys.argv[1:]
    text = Path(header).read_text()
    declared = parameters(text)
    extensions = parameters(text, prefix="PMPIX_")
    missing = [
        name for name in (*PARAMETERS, *REQUESTS, *LIFE, *SPAWN, *FREE, *VARIADIC) if name not in declared
    ]
    if missing:
        sys.exit(f"{header}: no prototype of PMPI_{missing[0]}")
    prototypes = ""
    newer = newer_functions(declared)
    if "--older" in options:
        declared = {name: text for name, text in declared.items() if name not in newer}
    if "--newer" in options:
        declared, extensions = newer, {}
        prototypes = "".join(
            f'extern "C" int {prefix}MPI_{name}({text});\n'
            for name, text in declared.items()
            for prefix in ("", "P")
        )
    if library == "tracer":
        folder, namespace, described, functions = "tracer", "trace::wrapped", collectives(), traced(declared)
    else:
        folder, namespace, described = "interpose", "wrapped", collectives("is_served")
        functions = served(
            declared, extensions, with_spawn="--spawn" in options, with_sessions="--sessions" in options
        )
    text = HEAD.format(
        folder=folder,
        prototypes=prototypes,
        namespace=namespace,
        signatures="\n".join(map(signature, described)),
        functions="\n".join(functions),
    )
    Path(target).write_text(text)


if __name__ == "__main__":
    main()
