# SPDX-License-Identifier: BSD-3-Clause
"""Every collective in random calls: other roots, communicators, lengths and types, in place or not."""

from __future__ import annotations

import pytest
from exchanges import CALLS, expect_all_served, expect_some_served, hashes, natively
from harness import (
    CPUS,
    INSIDE_OFFBEAT,
    PROGRAMS,
    Mpi,
    compile_program,
    on_mpis,
    only_deep_on,
    run,
)

LONG = {
    "ALLREDUCE": "ring", "BARRIER": "dissemination", "BCAST": "scatter_allgather", "REDUCE": "rabenseifner",
    "ALLGATHER": "bruck", "ALLGATHERV": "ring", "ALLTOALL": "pairwise", "ALLTOALLV": "pairwise",
    "GATHER": "binomial", "SCATTER": "binomial", "REDUCE_SCATTER": "recursive_halving",
    "REDUCE_SCATTER_BLOCK": "pairwise", "SCAN": "recursive_doubling", "EXSCAN": "recursive_doubling",
}  # fmt: skip
SHORT = {
    "ALLREDUCE": "recursive_doubling", "BARRIER": "dissemination", "BCAST": "pipeline(3, chain)",
    "REDUCE": "pipeline(8KiB, binomial)", "ALLGATHER": "neighbor_exchange", "ALLGATHERV": "linear",
    "ALLTOALL": "bruck", "ALLTOALLV": "linear", "GATHER": "linear", "SCATTER": "linear",
    "REDUCE_SCATTER": "ring", "REDUCE_SCATTER_BLOCK": "pipeline(2, ring)",
    "SCAN": "pipeline(3, chain)", "EXSCAN": "chain",
}  # fmt: skip
# They have no hierarchy, and no other algorithm by messages.
LISTS_AT_ROOT = {"OFFBEAT_GATHERV": "linear", "OFFBEAT_SCATTERV": "linear"}
ON_NODE = {
    "ALLREDUCE": "arrival_tree", "BARRIER": "arrival_counter", "REDUCE": "arrival_tree",
    "SCAN": "arrival_prefix", "EXSCAN": "arrival_prefix",
}  # fmt: skip


def hierarchies(leaders: dict[str, str], node_ranks: int) -> dict[str, str]:
    """Settings for pretended nodes of that many ranks, and these algorithms among their leaders."""
    named = {
        f"OFFBEAT_{name}": f"hierarchy({ON_NODE.get(name, 'arrival_direct')}, {expression})"
        for name, expression in leaders.items()
    }
    return {"OFFBEAT_NODE_RANKS": str(node_ranks)} | named | LISTS_AT_ROOT


# The host serves nothing, because no call measures it.
FIRST = {"OFFBEAT_ADAPT": "off"}
HOW = {  # settings
    "by default": FIRST,
    "measuring alternatives": {},
    "in many rounds": FIRST | {"OFFBEAT_BOARD_KIB": "8"},
    "by messages": {f"OFFBEAT_{name}": expression for name, expression in LONG.items()} | LISTS_AT_ROOT,
    "by other messages": {f"OFFBEAT_{name}": expression for name, expression in SHORT.items()}
    | LISTS_AT_ROOT,
    "by the host in segments": FIRST
    | {
        "OFFBEAT_ALLREDUCE": "pipeline(3, native)",
        "OFFBEAT_BCAST": "pipeline(1KiB, native)",
        "OFFBEAT_REDUCE": "pipeline(4, native)",
    },
    "checked": FIRST | {"OFFBEAT_CHECK": "1"},
    "by a thread": FIRST | {"OFFBEAT_PROGRESS_CPUS": CPUS},
}
# Where the host's own is faster, it is chosen; here it would only give the faults of that MPI.
OURS = {
    "impi": {
        f"OFFBEAT_{name}": "arrival_direct"
        for name in ("ALLGATHER", "ALLTOALL", "ALLTOALLV", "GATHER", "SCATTER")
    },
    "mpich": {"OFFBEAT_ALLTOALL": "arrival_direct"},
}
FEW_CALLS = ("12", "120", "3000")


BY_TCP = {"OFFBEAT_NETWORK": "tcp"}
HOW_ON_NODES = {
    "nodes of two": hierarchies(LONG, 2),
    "nodes of two, other leaders": hierarchies(SHORT, 2) | {"OFFBEAT_ALLREDUCE": "nap"},
    "nodes of three in many rounds": hierarchies(LONG, 3) | {"OFFBEAT_BOARD_KIB": "8"},
    "nodes of one": hierarchies(SHORT, 1),
    "nodes of three, in lanes": hierarchies(SHORT, 3)
    | {
        "OFFBEAT_ALLREDUCE": "lanes(arrival_tree, rabenseifner)",
        "OFFBEAT_BCAST": "lanes(arrival_direct, binomial)",
    },
    "nodes of two, non-blocking by TCP": hierarchies(LONG, 2) | BY_TCP,
    "nodes of one, non-blocking by TCP": hierarchies(SHORT, 1) | BY_TCP,
}


def forms(mpi: Mpi, how: str) -> str:
    """Non-blocking ones, too. By messages of theirs these stay with hosts other than Open MPI, which fail."""
    has_messages = "messages" in how or (how in HOW_ON_NODES and "by TCP" not in how)
    return "blocking" if has_messages and mpi.kind != "openmpi" else "any"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("how", HOW)
def test_random_calls_give_what_a_host_gives(mpi: Mpi, ranks: int, how: str) -> None:
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *CALLS, "alike", forms(mpi, how)]
    result = run(mpi, ranks, command, environment=OURS.get(mpi.name, {}) | HOW[how], timeout=120).succeeded()
    found = hashes(result.stdout)
    assert len(found) == ranks, str(result)
    assert found == natively(ranks), str(result)
    if how != "measuring alternatives":
        expect_all_served(result)


@on_mpis(lambda mpi: mpi.has_large_counts)
@pytest.mark.in_turn(1, "how", "mpi")
@pytest.mark.parametrize("how", ["by default", "by messages"])
def test_functions_with_large_counts(mpi: Mpi, how: str) -> None:
    source = PROGRAMS / "exchanges.cpp"
    program = compile_program(mpi, source, "-DLARGE_COUNTS", name="exchanges_large")
    command = [program, *CALLS, "alike", forms(mpi, how)]
    result = run(mpi, 3, command, environment=OURS.get(mpi.name, {}) | HOW[how], timeout=120).succeeded()
    found = hashes(result.stdout)
    assert len(found) == 3, str(result)
    assert found == natively(3), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(2, "how", "mpi")
@pytest.mark.parametrize("how", ["by default", "measuring alternatives", "in many rounds", "by a thread"])
def test_long_calls(mpi: Mpi, how: str) -> None:
    """Long data with gaps are packed bit by bit, as they are copied."""
    calls = ("3", "120", "60000")
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    settings = OURS.get(mpi.name, {}) | HOW[how]
    result = run(mpi, 3, [program, *calls, "alike", "any"], environment=settings, timeout=120).succeeded()
    found = hashes(result.stdout)
    assert len(found) == 3, str(result)
    assert found == natively(3, calls), str(result)
    if how != "measuring alternatives":
        expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize("how", ["by default", "in many rounds"])
def test_threads_call_at_once(mpi: Mpi, how: str) -> None:
    """Three threads of each rank make calls, each on communicators of its own, of which two have one rank."""
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    settings = OURS.get(mpi.name, {}) | HOW[how]
    result = run(mpi, 3, [program, *FEW_CALLS, "alike", "threads"], environment=settings, timeout=120)
    found = hashes(result.succeeded().stdout)
    assert len(found) == 3, str(result)
    assert found == natively(3, FEW_CALLS, "in_turn"), str(result)
    expect_all_served(result)


# Debian's MPICH takes half a minute: it waits for cores that others need.
@INSIDE_OFFBEAT
@on_mpis(lambda mpi: mpi.name != "debian-mpich")
@pytest.mark.in_turn(1, "how", "mpi")
@pytest.mark.parametrize("how", ["by default", "in many rounds"])
def test_many_ranks_of_a_node(mpi: Mpi, how: str) -> None:
    """More ranks than look at the slots and windows of all: their data go along trees."""
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *FEW_CALLS, "alike", forms(mpi, how)]
    result = run(mpi, 20, command, environment=OURS.get(mpi.name, {}) | HOW[how], timeout=120).succeeded()
    found = hashes(result.stdout)
    assert len(found) == 20, str(result)
    assert found == natively(20, FEW_CALLS), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(3, "how", "mpi")
@pytest.mark.parametrize("how", HOW_ON_NODES)
def test_hierarchies_give_what_a_host_gives(mpi: Mpi, how: str) -> None:
    """Nodes of 2, 2 and 1 of the five ranks, or of 3 and 2; other communicators have their ranks mixed."""
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *CALLS, "alike", forms(mpi, how)]
    result = run(mpi, 5, command, environment=HOW_ON_NODES[how], timeout=240).succeeded()
    found = hashes(result.stdout)
    assert len(found) == 5, str(result)
    assert found == natively(5), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(1, "node_ranks", "mpi")
@pytest.mark.parametrize("node_ranks", [1, 2])
def test_threads_call_at_once_and_tcp_carries(mpi: Mpi, node_ranks: int) -> None:
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    settings = hierarchies(LONG, node_ranks) | BY_TCP
    result = run(mpi, 3, [program, *FEW_CALLS, "alike", "threads"], environment=settings, timeout=120)
    assert hashes(result.succeeded().stdout) == natively(3, FEW_CALLS, "in_turn"), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@only_deep_on(lambda mpi: mpi.kind == "impi")  # where it takes five times as long
@pytest.mark.in_turn(1, "node_ranks", "mpi")
@pytest.mark.parametrize("node_ranks", [1, 2])
def test_the_defaults_between_nodes_give_what_a_host_gives(mpi: Mpi, node_ranks: int) -> None:
    """Nodes of 2, 2 and 1 of the five ranks, or of one each; vectors of up to 1.2 MB."""
    calls = ("5", "120", "300000")
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    settings = FIRST | {"OFFBEAT_NODE_RANKS": str(node_ranks)}
    if mpi.kind == "impi":  # its own, the default for short blocks, gives wrong data for types with gaps
        settings["OFFBEAT_ALLGATHER"] = "ring"
    if mpi.name == "debian-mpich":  # MPICH 4.0.2 crashes in a long in-place reduce whose root is not rank 0
        settings["OFFBEAT_REDUCE"] = "binomial"
    result = run(mpi, 5, [program, *calls, "alike", "blocking"], environment=settings, timeout=240)
    found = hashes(result.succeeded().stdout)
    assert len(found) == 5, str(result)
    assert found == natively(5, calls), str(result)
    expect_some_served(result, {"allreduce", "allgather", "bcast", "reduce_scatter"})


# The others have no such limit.
@on_mpis(lambda mpi: mpi.kind == "openmpi")
@pytest.mark.in_turn(1, "how", "mpi")
@pytest.mark.parametrize("how", ["nodes of one", "by messages", "by other messages"])
def test_messages_that_are_cut(mpi: Mpi, how: str) -> None:
    """Vectors of up to 1.2 MB for each rank, of which TCP would send 60 KiB at once."""
    calls = ("12", "60", "300000")
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    over_tcp = {"OMPI_MCA_btl": "self,tcp", "OFFBEAT_NODE_RANKS": "1", "OFFBEAT_VERBOSE": "1"}
    environment = (HOW | HOW_ON_NODES)[how] | over_tcp
    result = run(mpi, 3, [program, *calls, "alike", "any"], environment=environment, timeout=120)
    assert "offbeat: messages between nodes are at most 61440 B" in result.succeeded().stderr, str(result)
    found = hashes(result.stdout)
    assert len(found) == 3, str(result)
    assert found == natively(3, calls), str(result)
    expect_all_served(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(4, "how", "mpi")
@pytest.mark.parametrize("how", [how for how in HOW if how != "measuring alternatives"])
def test_ranks_may_have_different_types(mpi: Mpi, how: str) -> None:
    """The program checks what it gets. Hosts fail it: the ialltoallv of Open MPI 5.0.11 gives wrong data."""
    program = compile_program(mpi, PROGRAMS / "exchanges.cpp")
    command = [program, *CALLS, "different", forms(mpi, how)]
    environment = OURS.get(mpi.name, {}) | HOW[how]
    expect_all_served(run(mpi, 4, command, environment=environment, timeout=120).succeeded())
