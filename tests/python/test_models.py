# SPDX-License-Identifier: BSD-3-Clause
"""The cost formulas from Python, against the simulator (tests/unit/cost_test.cpp compares them all)."""

from __future__ import annotations

import pytest
from offbeat import _core
from offbeat.simulate import machine

A, B, C = 2e-6, 1e-9, 3e-10


def simulated(collective: str, expression: str, ranks: int, size_bytes: int) -> float:
    machine = _core.SimulatedMachine(
        ranks, 1, within_node=[(0, 0.0, 0.0, 0.0, 0.0, 0.0)],
        between_nodes=[(0, A, B, 0.0, 0.0, 0.0)],
        injection_rate=float("inf"), gamma=C, copy=0.0, envelope_bytes=0, eager_bytes=8192, board=None,
    )  # fmt: skip
    return max(machine.run(collective, expression, size_bytes, [], None)["exits"])


def cost(collective: str, expression: str, ranks: int, size_bytes: int) -> float | None:
    return _core.cost(collective, expression, ranks, size_bytes, a=A, b=B, c=C)


@pytest.mark.parametrize("ranks", [2, 7, 16])
@pytest.mark.parametrize("size_bytes", [7 * 16 * 4, 7 << 16])
@pytest.mark.parametrize(
    ("collective", "expression"),
    [
        ("allreduce", "ring"),
        ("allreduce", "ring_segmented(1KiB)"),
        ("bcast", "binomial"),
        ("bcast", "pipeline(8, chain)"),
        ("reduce", "linear"),
        ("alltoall", "bruck"),
    ],
)
def test_a_cost_is_the_simulated_time(collective: str, expression: str, ranks: int, size_bytes: int) -> None:
    assert cost(collective, expression, ranks, size_bytes) == pytest.approx(
        simulated(collective, expression, ranks, size_bytes), rel=0.01
    )


def test_a_grid_is_the_sum_of_its_dimensions() -> None:
    parts = [cost("allreduce", "ring", 8, 1 << 20), cost("allreduce", "rabenseifner", 4, 1 << 20)]
    assert None not in parts
    assert cost("allreduce", "grid(8x4, ring, rabenseifner)", 32, 1 << 20) == pytest.approx(
        sum(part for part in parts if part is not None)
    )


def test_words_have_no_cost() -> None:
    for expression in ("arrival_tree", "native"):
        assert cost("allreduce", expression, 4, 8) is None


def test_a_hierarchy_has_the_cost_of_its_leaders() -> None:
    found = _core.cost("allreduce", "hierarchy(arrival_tree, ring)", 32, 1 << 20, a=A, b=B, c=C, nodes=8)
    assert found == cost("allreduce", "ring", 8, 1 << 20)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(_core.UsageError, match="at least one rank"):
        cost("allreduce", "ring", 0, 8)
    with pytest.raises(_core.UsageError, match="as many nodes as ranks"):
        _core.cost("allreduce", "ring", 4, 8, a=A, b=B, c=C, nodes=5)
    with pytest.raises(ValueError, match="unknown algorithm"):
        cost("allreduce", "rng", 4, 8)


def test_the_cheapest_grid_is_an_expression_with_its_time() -> None:
    expression, seconds = _core.cheapest_grid(1000, 8 << 20)
    assert expression.startswith("grid(10x100, ring_segmented")
    assert _core.check_expression("allreduce", expression) == expression
    time = _core.cost("allreduce", expression, 1000, 8 << 20, a=1.5e-6, b=6.25e-11, c=2e-10)
    assert time == pytest.approx(seconds)
    for ranks in (10, 1, (1 << 30) + 4):
        with pytest.raises(ValueError, match="nodes of equally many"):
            _core.cheapest_grid(ranks, 8, ranks_per_node=4)


@pytest.mark.parametrize("name", ["cluster", "ethernet", "ethernet_tcp", "infiniband", "slingshot"])
@pytest.mark.parametrize(
    ("shapes", "limit"),
    [
        ([(2, 8), (4, 4), (8, 8), (16, 2), (2, 16)], 1.1),
        ([(3, 16), (6, 16), (7, 4), (12, 8), (33, 4), (13, 6)], 1.2),
    ],
    ids=["powers of two", "others"],
)
def test_on_nodes_of_several_ranks_a_grid_is_no_worse_than_a_plain_algorithm(
    name: str, shapes: list[tuple[int, int]], limit: float
) -> None:
    path = machine.path_of(name)
    for nodes, ppn in shapes:
        simulated = machine.read(name).simulated(nodes, ppn)

        def seconds(expression: str, size: int, simulated: _core.SimulatedMachine = simulated) -> float:
            return max(simulated.run("allreduce", expression, size, [], None)["exits"])

        for size in (8, 1024, 8192, 65536, 1 << 20):
            chosen, _ = _core.cheapest_grid(nodes * ppn, size, ranks_per_node=ppn, machine=path)
            best = min(seconds(each, size) for each in ("ring", "rabenseifner", "recursive_doubling"))
            assert seconds(chosen, size) <= limit * best, f"{nodes} x {ppn}, {size} bytes: {chosen}"
