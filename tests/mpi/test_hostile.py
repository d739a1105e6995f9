# SPDX-License-Identifier: BSD-3-Clause
"""Programs that do what few do: wrong calls, callbacks that communicate or never return, tools, deaths."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from harness import CPUS, PROGRAMS, Mpi, Result, compile_program, library, number, on_mpis, run

NODES = {"OFFBEAT_NODE_RANKS": "2"}
HIERARCHY = "hierarchy(arrival_tree, ring)"
# Which rank this is, for a shell.
RANK = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}"


# -- wrong calls and error handlers

WRONG_CALLS = (
    "negative_count",
    "null_input",
    "null_output",
    "same_buffer",
    "in_place_output",
    "in_place_both",
    "null_type",
    "null_operation",
    "bits_of_floats",
    "uncommitted_type",
    "free_world",
)
# Without offbeat, too, these crash, or leave a communicator that gives wrong sums.
FATAL = {
    "openmpi": {"null_input", "null_output"},
    "debian-openmpi": {"null_input", "null_output"},
    "mpich": {"negative_count", "null_type"},
    "mpich-abi": {"negative_count", "null_type"},
    "debian-mpich": {"negative_count"},
}


def test_wrong_calls_are_errors_as_without_offbeat(mpi: Mpi) -> None:
    """The same error class on the same rank, by the same handler, and good calls after it are served."""
    program = compile_program(mpi, PROGRAMS / "wrong_calls.c")
    names = [name for name in WRONG_CALLS if name not in FATAL.get(mpi.name, ())]
    command = [program, *(f"{name}:{who}" for name in names for who in ("all", "one"))]
    outcome = re.compile(r"^\w+, (?:all|one), .*$", re.M)
    expected = outcome.findall(run(mpi, 2, command, preload=False, timeout=120).succeeded().stdout)
    assert len(expected) == 8 * len(names)
    result = run(mpi, 2, command, timeout=120)
    assert outcome.findall(result.stdout) == expected, str(result)
    assert result.succeeded().report.served >= number("good", result), str(result)


# Without offbeat, too, these crash or hang, or MPI does not say what they do. offbeat serves an exscan
# without a buffer on the rank that gets no result, which MPI allows.
COMBINING = ("allreduce", "reduce", "reduce_scatter_block", "scan", "exscan")
OF_MPICH = (
    "null_type",
    "no_counts",
    "no_places",
    "no_output_counts",
    "no_output_places",
    *(f"{name}:negative_count" for name in COMBINING),
    *(f"{name}:in_place_input" for name in ("reduce", "alltoall", "gather", "gatherv")),
    *(f"{name}:in_place_output" for name in ("bcast", "scatter", "scatterv")),
    "exscan:null_output",
)
UNDEFINED_ARGUMENTS = {
    "openmpi": (
        "null_input",
        "null_output",
        "allgather:null_communicator",
        "allgatherv:negative_output_entry",
        "allgatherv:no_output_counts",
        "alltoall:in_place_input",
        "alltoallv:in_place_input",
        "scatter:negative_count",
        "scatter:null_type",
        "scatter:uncommitted_type",
        "exscan:in_place_output",
    ),
    "mpich": OF_MPICH,
    "impi": OF_MPICH,
}
BY_MESSAGES = {"OFFBEAT_BOARD_KIB": "0"} | {
    f"OFFBEAT_{name.upper()}": algorithm
    for algorithm, names in {
        "binomial": ("bcast", "gather", "reduce", "scatter"),
        "recursive_doubling": ("allreduce", "exscan", "scan"),
        "ring": ("allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block"),
    }.items()
    for name in names
}


def same_as_natively(mpi: Mpi, ranks: int, settings: dict[str, str], form: str, when: str) -> Result:
    program = compile_program(mpi, PROGRAMS / "wrong_arguments.c")
    command = [program, form, when, 0, *UNDEFINED_ARGUMENTS[mpi.kind]]
    lines = re.compile(r"^\d+: \w+ \w+, rank \d wrong: class [\d ]+$", re.M)
    expected = lines.findall(run(mpi, ranks, command, preload=False).succeeded().stdout)
    assert len(expected) > 250
    result = run(mpi, ranks, command, environment=settings)
    assert lines.findall(result.stdout) == expected, str(result)
    return result.succeeded()


@pytest.mark.in_turn(1, "ranks", "when", "mpi")
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize(
    ("form", "settings"),
    [("blocking", {}), ("blocking", BY_MESSAGES), ("nonblocking", {})],
    ids=["blocking", "blocking by messages", "non-blocking"],
)
def test_wrong_arguments_on_one_rank(
    mpi: Mpi, ranks: int, form: str, settings: dict[str, str], when: str
) -> None:
    """The rank gets the host's answer. If it gets an error, it is left out until it calls again."""
    result = same_as_natively(mpi, ranks, settings, form, when)
    for name in ("allreduce", "reduce", "gather", "scatter", "exscan"):
        assert result.report_of(name).served > 0, str(result)


def test_one_rank_alone_gives_more_than_it_takes(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "alone_truncated.c")
    run(mpi, 1, [program], environment={}).succeeded()


@on_mpis(lambda mpi: not mpi.name.startswith("debian"))  # MPIs before MPI 4
@pytest.mark.in_turn(1, "ranks", "when", "mpi")
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("when", ["first", "later"])
def test_wrong_arguments_of_persistent_collectives(mpi: Mpi, ranks: int, when: str) -> None:
    result = same_as_natively(mpi, ranks, {}, "persistent", when)
    assert result.report_of("gather").served > 0, str(result)


def test_own_block_is_in_place(mpi: Mpi) -> None:
    """Hosts that compare aliases accept them if types differ, but MPICH then ends the job."""
    result = run(mpi, 3, [compile_program(mpi, PROGRAMS / "own_block.c")]).succeeded()
    for name in ("gather", "scatter", "allgather", "allgatherv", "alltoall"):
        assert result.report_of(name).intercepted == result.report_of(name).served > 0, str(result)


@pytest.mark.in_turn(2, "ranks", "elements", "mpi")
@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("elements", [1, 5000])
def test_a_rank_left_out_of_a_call(mpi: Mpi, ranks: int, elements: int) -> None:
    """What the ranks then call is right, or an error: never wrong data, and nobody waits forever."""
    program = compile_program(mpi, PROGRAMS / "left_out.c")
    result = run(mpi, ranks, [program, elements], timeout=120).succeeded()
    # The two cases in which nobody calls after the call that one rank was left out of.
    assert number("right", result) == 2, str(result)
    assert "mismatched collectives" in result.stderr, str(result)


@pytest.mark.in_turn(2, "ranks", "elements", "mpi")
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("elements", [1, 5000])
def test_a_rank_left_out_of_a_call_that_is_begun(mpi: Mpi, ranks: int, elements: int) -> None:
    program = compile_program(mpi, PROGRAMS / "left_out.c")
    result = run(mpi, ranks, [program, elements, "begun"], timeout=120).succeeded()
    assert number("right", result) == 2, str(result)
    assert "mismatched collectives" in result.stderr, str(result)


@pytest.mark.in_turn(2, "mpi")
def test_threads_with_small_stacks(mpi: Mpi) -> None:
    """A thread needs at most 8 KiB more than natively; the least stack that it can have is 16 KiB."""
    program = compile_program(mpi, PROGRAMS / "small_stack.c", "-pthread")
    natively = number("used", run(mpi, 3, [program, 256], preload=False).succeeded())
    kib = max(16, -(-natively // 4096) * 4) + 8
    result = run(mpi, 3, [program, kib]).succeeded()
    for name in ("allreduce", "bcast", "gather", "alltoall", "scan"):
        assert result.report_of(name).served > 0, str(result)


def test_a_rank_left_out_of_a_call_by_messages(mpi: Mpi) -> None:
    """Messages of different collectives are as much apart as in the host MPI."""
    program = compile_program(mpi, PROGRAMS / "left_out.c")
    result = run(mpi, 3, [program, 1], environment=BY_MESSAGES, timeout=120).succeeded()
    assert number("right", result) == 10, str(result)


def test_error_handlers_need_not_return(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "throwing.cpp")
    result = run(mpi, 3, [program, "throw", "jump"], timeout=120).succeeded()
    assert result.report.served == number("good", result), str(result)


# -- callbacks and tools


def test_delete_callbacks_communicate(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "attributes.c")
    rounds = "40" if mpi.name == "debian-mpich" else "200"  # its ranks spin, and here they share cores
    result = run(mpi, 3, [program, rounds], timeout=120).succeeded()
    # The program can no longer print how often it calls in MPI_Finalize, which is twice.
    assert result.report.served == result.calls - number("to the host", result) + 2, str(result)


# Ranks, expression, settings.
FINALIZING = {
    "one node": (3, None, {}),
    "a thread that works": (2, None, {"OFFBEAT_PROGRESS_CPUS": CPUS}),
    "two nodes": (4, HIERARCHY, NODES),
    "messages": (2, "ring", {}),
}


@pytest.mark.in_turn(3, "place", "mpi")
@pytest.mark.parametrize("place", FINALIZING)
def test_collectives_go_on_in_mpi_finalize(mpi: Mpi, place: str) -> None:
    ranks, expression, settings = FINALIZING[place]
    program = compile_program(mpi, PROGRAMS / "finalizing.c")
    result = run(mpi, ranks, [program], allreduce=expression, environment=settings).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    # The host serves the first operation on a communicator, and but for Open MPI all that send messages.
    least = 6 if mpi.kind != "openmpi" and expression is not None else result.calls - 3
    assert result.report.served == least, str(result)


def test_communicators_that_the_host_frees_unseen_are_forgotten(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "inter_attributes.c")
    rounds = "5" if mpi.name == "debian-mpich" else "20"
    result = run(mpi, 4, [program, rounds], timeout=120).succeeded()
    assert result.report.intercepted == result.calls, str(result)
    assert result.report.served > 0, str(result)


TOOL_PLACES = {  # where the tool is: arguments of the program
    "linked": [],
    "preloaded behind offbeat": ["threads"],
    "preloaded before offbeat": [],
}


@pytest.mark.parametrize("place", TOOL_PLACES)
def test_a_tool_sees_the_calls_of_the_program(mpi: Mpi, place: str) -> None:
    tool = compile_program(mpi, PROGRAMS / "tool.c", "-shared", "-fPIC", name="libtool.so")
    if place == "linked":
        with_tool = ("-Wl,--no-as-needed", str(tool))
        program = compile_program(mpi, PROGRAMS / "tooled.c", libraries=with_tool, name="tooled-linked")
    else:
        program = compile_program(mpi, PROGRAMS / "tooled.c")
    ours = library(mpi.preload)
    others = {"linked": f"{ours}", "preloaded behind offbeat": f"{ours}:{tool}"}
    preload = others.get(place, f"{tool}:{ours}")
    result = run(mpi, 2, [program, *TOOL_PLACES[place]], preload=Path(preload), timeout=120).succeeded()
    seen = re.findall(r"^tool: (.*)$", result.stdout, re.M)
    assert seen == ["init 1, allreduce 5, barrier 1, create 0, free 1, disconnect 1"], str(result)
    assert (result.report.intercepted, result.report.served) == (5, 5), str(result)


# -- ranks that die, that are of another job, or that have no offbeat


@on_mpis(lambda mpi: mpi.name == "openmpi")  # in the others MPIX_Comm_revoke is missing or crashes
@pytest.mark.parametrize(
    ("ranks", "expression", "victim"),
    [(3, None, 1), (3, "ring", 2), (4, HIERARCHY, 2), (4, HIERARCHY, 3)],
)
def test_revoked_communicators_and_dead_ranks(
    mpi: Mpi, ranks: int, expression: str | None, victim: int
) -> None:
    mpi = dataclasses.replace(mpi, options=(*mpi.options, "--with-ft", "ulfm"))
    program = compile_program(mpi, PROGRAMS / "revoked.c")
    settings = NODES if expression == HIERARCHY else {}
    result = run(mpi, ranks, [program, str(victim)], allreduce=expression, environment=settings, timeout=120)
    # Not the exit status: see MPI_Finalize in the program.
    assert not re.search(r"^FAIL ", result.stderr, re.M), str(result)
    assert result.calls > number("good", result) == result.report.served, str(result)
    named = re.findall(r"rank (\d) of MPI_COMM_WORLD has failed", result.stderr)
    assert set(named) <= {str(victim)}, f"a rank that lives is said to have failed\n{result}"
    assert named or expression is not None, f"nobody is named\n{result}"


# Without offbeat, too, Intel MPI 2021.18 crashes in MPI_Comm_spawn here, and Debian's MPICH returns an error.
# Debian's Open MPI takes as long as the rest.
@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich", "mpich-abi"))
@pytest.mark.parametrize(("parents", "children"), [(True, True), (True, False), (False, True)])
def test_the_host_serves_communicators_of_several_jobs(mpi: Mpi, parents: bool, children: bool) -> None:
    """Whether the ranks of both jobs have offbeat or not."""
    program = compile_program(mpi, PROGRAMS / "spawned.c")
    if mpi.kind == "openmpi":  # whose shared memory does not connect jobs
        transports = {"OMPI_MCA_btl": f"{mpi.environment['OMPI_MCA_btl']},tcp"}
        mpi = dataclasses.replace(mpi, environment=mpi.environment | transports)
    start = ["env", "-u", "LD_PRELOAD"]
    if children:
        start = ["env", f"LD_PRELOAD={library(mpi.preload)}", "OFFBEAT_REPORT=1"]
    result = run(mpi, 2, [program, "2", *start], preload=parents, timeout=120).succeeded()
    counted = re.findall(r"^counted (\w+ \d): all=3 halves=10 jobs=10 merged=6$", result.stdout, re.M)
    assert sorted(counted) == ["child 0", "child 1", "parent 0", "parent 1"], str(result)
    # Three calls on MPI_COMM_WORLD, two each across halves and jobs, two on the merged communicator.
    reports = [(report.intercepted, report.served) for report in result.reports]
    assert reports == [(9, 3)] * (parents + children), str(result)


@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich"))  # the job lasts until `timeout` ends it
def test_a_rank_without_offbeat_is_named(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    script = f'if [ "{RANK}" = 1 ]; then unset LD_PRELOAD; fi; exec timeout 5 "$@"'
    settings = {"OFFBEAT_STALL_S": "1"}
    result = run(mpi, 2, ["sh", "-c", script, "sh", program], environment=settings, timeout=120)
    assert re.search(r"^offbeat: .*has waited.*without offbeat", result.stderr, re.M), str(result)


# -- too many, too little

MORE_THAN_AN_MPICH_HAS = 4000


@on_mpis(lambda mpi: mpi.name in ("openmpi", "mpich", "impi"))
def test_as_many_communicators_as_without_offbeat(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "many_communicators.c")
    # Without offbeat Intel MPI crashes somewhere above 450, and Open MPI makes 4000, slowly on busy cores.
    wanted = {"impi": 240, "mpich": MORE_THAN_AN_MPICH_HAS}.get(mpi.name, 300)
    alive = wanted
    if wanted == MORE_THAN_AN_MPICH_HAS:
        native = run(mpi, 2, [program, str(wanted)], preload=False, timeout=120).succeeded()
        alive = number("alive", native)
        assert alive < wanted, str(native)
    result = run(mpi, 2, [program, str(wanted)], timeout=120).succeeded()
    assert number("alive", result) >= 0.95 * alive, str(result)
    assert result.report.served >= 0.9 * result.calls, str(result)


# offbeat sees the standard ABI in a library's name, which is another here.
@on_mpis(lambda mpi: mpi.family != "mpiabi")
def test_a_further_communicator_costs_three_small_calls_of_the_host(mpi: Mpi) -> None:
    counting = compile_program(
        mpi, PROGRAMS / "libmpi_counting.c", "-shared", "-fPIC", "-Wl,--no-as-needed", libraries=("-ldl",)
    )
    program = compile_program(mpi, PROGRAMS / "host_calls.c", libraries=("-ldl",))
    preload = Path(f"{library(mpi.preload)}:{counting}")
    result = run(mpi, 2, [program], preload=preload, timeout=120).succeeded()
    assert result.report.served >= 0.9 * result.calls, str(result)
    counted = r"(\d+) allreduces, (\d+) other collectives, (\d+) communicators"
    first = re.search(rf"^first: {counted}$", result.stdout, re.M)
    later = re.search(rf"^later: {counted}, in (\d+) rounds$", result.stdout, re.M)
    assert first, f"no line says what the first communicator cost\n{result}"
    assert later, f"no line says what the later communicators cost\n{result}"
    assert int(first[1]) > 0, f"the host's calls are not counted\n{result}"
    # Two broadcasts and a reduction, of some bytes each.
    assert 0 < int(later[2]) <= 3 * int(later[4]), str(result)
    # The communicators are the program's own.
    assert (later[1], later[3]) == ("0", later[4]), str(result)


@on_mpis(lambda mpi: mpi.name != "debian-mpich")  # which hangs without offbeat, too
def test_ranks_without_address_space_agree(mpi: Mpi) -> None:
    """All have the same limit. MPICH alone gives the right sums from 1.5 MiB, and hangs with less."""
    program = compile_program(mpi, PROGRAMS / "out_of_memory.c")
    result = run(mpi, 2, [program, "2048", "3072"], timeout=120).succeeded()
    assert result.report.intercepted == result.calls, str(result)


def test_different_settings_are_named_once(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "many_communicators.c")
    script = f'if [ "{RANK}" = 1 ]; then export OFFBEAT_ALLREDUCE=ring; fi; exec "$@"'
    result = run(mpi, 2, ["sh", "-c", script, "sh", program, "5"], timeout=120).succeeded()
    assert result.stderr.count("ranks have different OFFBEAT_ settings") == 1, str(result)
    assert result.report.served == 0, str(result)
