# SPDX-License-Identifier: BSD-3-Clause
"""Every MPI x ranks x expression: unmodified programs that check MPI_Allreduce themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import CORES, ON_ONE_MPI, PROGRAMS, Mpi, Result, compile_program, on_mpis, run

RANKS = (1, 2, 3, 4, 5, 8)

EXPRESSIONS = (
    None,  # offbeat's own choice
    "native",
    "arrival_tree",
    "arrival_leader",
    "arrival_chain",
    "recursive_doubling",
    "recursive_multiplying(4)",
    "ring",
    "ring_segmented(8KiB)",
    "rabenseifner",
    "bine",
    "ring_prereduced(1)",
    "straggler(1)",
    "arrival_owners",
    "linear",
    "binomial",
    "pipeline(4, ring)",
    "pipeline(32KiB, ring)",
    "pipeline(4, native)",
    "pipeline(32KiB, native)",
)
# These combine in the order of arrival: the same bits on all ranks of a call, not in every call.
IN_ORDER_OF_ARRIVAL = ("arrival_leader", "arrival_chain")
# Grids fit one number of ranks each.
GRIDS = {
    4: ("grid(2x2, ring)", "grid(2x2, native)"),
    8: ("grid(2x4, recursive_doubling, ring)", "grid(2x2x2, rabenseifner)"),
}


def combinations(
    ranks: tuple[int, ...] = RANKS, expressions: tuple[str | None, ...] = EXPRESSIONS
) -> list[Any]:
    """The (ranks, expression) pairs as pytest parameters; with one rank every algorithm is the same."""
    pairs = []
    for n in ranks:
        grids = GRIDS.get(n, ()) if len(expressions) > 2 else ()
        wanted = [None, "ring"] if n == 1 else [*expressions, *grids]
        for expression in wanted:
            # Offbeat's own choice runs with more numbers of ranks, because users have it.
            marks = [ON_ONE_MPI, pytest.mark.in_turn(3 if expression is None else 1, "ranks", "mpi")]
            pairs.append(pytest.param(n, expression, id=f"{n}-{expression or 'default'}", marks=marks))
    return pairs


def has_the_same_bits(expression: str | None) -> bool:
    """The host promises equal bits on all ranks for none of its own collectives."""
    return expression not in IN_ORDER_OF_ARRIVAL and "native" not in str(expression)


def check(
    mpi: Mpi,
    ranks: int,
    expression: str | None,
    program: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    timeout: float = 120,
) -> Result:
    """Run a test program under the preload; check what offbeat says it did."""
    command = [compile_program(mpi, PROGRAMS / program), *arguments]
    result = run(
        mpi, ranks, command, allreduce=expression, environment=environment, timeout=timeout
    ).succeeded()
    report = result.report
    assert report.intercepted == result.calls, f"the program made {result.calls} calls\n{result}"
    if expression == "native":
        assert report.served == 0, str(result)
    elif expression is not None and ranks > 1:
        assert report.served > 0, f"nothing ran {expression}\n{result}"
    return result


def crowded(mpi: Mpi, ranks: int) -> bool:
    """Ranks share cores and wait for them without yielding: a call costs milliseconds."""
    return mpi.slow_when_oversubscribed and ranks > CORES


@pytest.mark.parametrize(("ranks", "expression"), combinations())
def test_types_and_bits(mpi: Mpi, ranks: int, expression: str | None) -> None:
    # Each expression takes another share of about 4,900 cases. The host's own waiting is the slowest.
    stride = (211 if expression == "native" else 61) if crowded(mpi, ranks) else 31 if ranks > CORES else 7
    longest = 1000 if crowded(mpi, ranks) else 100000
    offset = (EXPRESSIONS.index(expression) if expression in EXPRESSIONS else 3) * stride // len(EXPRESSIONS)
    share = ("--stride", str(stride), "--offset", str(offset), "--max-count", str(longest))
    bits = ("--bits", "1") if has_the_same_bits(expression) else ()
    check(mpi, ranks, expression, "allreduce_types.cpp", *share, *bits)


# Equal nodes, nodes of 3 and 2, a node of one rank: pretended.
@pytest.mark.parametrize(("ranks", "node_ranks"), [(4, 2), (5, 3), (5, 2)])
@pytest.mark.parametrize("expression", ["lanes(arrival_tree, ring)", "lanes(arrival_tree, bine)"])
def test_on_nodes(mpi: Mpi, ranks: int, node_ranks: int, expression: str) -> None:
    share = ("--stride", "211", "--max-count", "1000" if crowded(mpi, ranks) else "100000")
    settings = {"OFFBEAT_NODE_RANKS": str(node_ranks)}
    check(mpi, ranks, expression, "allreduce_types.cpp", *share, "--bits", "1", environment=settings)


@pytest.mark.parametrize(("ranks", "expression"), combinations(RANKS, ("recursive_doubling", "ring")))
def test_pairs(mpi: Mpi, ranks: int, expression: str | None) -> None:
    check(mpi, ranks, expression, "allreduce_pairs.c")


@pytest.mark.parametrize(("ranks", "expression"), combinations(RANKS, (None, "rabenseifner")))
def test_user_defined(mpi: Mpi, ranks: int, expression: str | None) -> None:
    gaps = ["0"] if mpi.kind == "impi" else []  # which its own allreduce on five ranks overwrites
    result = check(mpi, ranks, expression, "allreduce_user.c", *gaps)
    if ranks > 1:
        assert result.report.native > 0, f"a non-commutative operation did not go to the host\n{result}"


@pytest.mark.parametrize(("ranks", "expression"), combinations(RANKS, ("recursive_doubling", "ring")))
def test_communicators(mpi: Mpi, ranks: int, expression: str | None) -> None:
    result = check(mpi, ranks, expression, "allreduce_communicators.c")
    if ranks > 1:
        assert result.report.native > 0, f"the inter-communicator did not go to the host\n{result}"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("expression", [None, "ring"])
@on_mpis(lambda mpi: mpi.has_large_counts)
def test_large_count_interface(mpi: Mpi, ranks: int, expression: str | None) -> None:
    check(mpi, ranks, expression, "large_count.c")


@on_mpis(lambda mpi: mpi.is_open_mpi_6)
def test_open_mpi_6_without_fast_boxes_keeps_messages_of_threads(mpi: Mpi) -> None:
    """With fast boxes it loses some, even without offbeat."""
    program = compile_program(mpi, PROGRAMS / "lost_messages.c")
    run(mpi, 2, [program], preload=False, timeout=90).succeeded()


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("expression", [None, "arrival_tree", "recursive_doubling", "pipeline(4, ring)"])
def test_four_threads(mpi: Mpi, ranks: int, expression: str | None) -> None:
    rounds = "2" if crowded(mpi, ranks) else "10"
    # On the board from a few bytes, beside their sequence number, to several windows.
    largest = "200000" if expression == "arrival_tree" else "5000"
    arguments = ("--rounds", rounds, "--largest", largest)
    result = check(mpi, ranks, expression, "threads.c", *arguments)
    assert result.report.native == 0 or ranks == 1, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_errors_become_mpi_errors(mpi: Mpi, ranks: int) -> None:
    # MPICH itself crashes on a negative count and on a null type.
    arguments = [] if mpi.kind == "mpich" else ["--more", "1"]
    program = compile_program(mpi, PROGRAMS / "errors.c")
    result = run(mpi, ranks, [program, *arguments], allreduce="ring").succeeded()
    assert result.calls <= result.report.intercepted <= result.calls + 1, str(result)
    assert result.report.served > 0, str(result)


def test_one_line_for_each_choice_says_which_algorithm(mpi: Mpi) -> None:
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], allreduce="ring", environment={"OFFBEAT_VERBOSE": "1"}).succeeded()
    lines = [line for line in result.stderr.splitlines() if line.startswith("offbeat: allreduce")]
    named = [line for line in lines if "ring" in line and "intercepted" not in line]
    assert len(named) == 1, str(result)
    assert "allreduce of any length, ranks: 2: ring" in named[0], str(result)


def test_programs_are_in_the_list() -> None:
    """A program that no test runs would check nothing."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    for program in PROGRAMS.iterdir():
        if program.suffix != ".h":
            assert f'"{program.name}"' in text, f"no test runs {program.name}"
