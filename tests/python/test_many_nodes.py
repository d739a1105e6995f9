# SPDX-License-Identifier: BSD-3-Clause
"""Simulated rules between nodes beside the defaults of the MPIs (many_nodes.json)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import many_nodes
import pytest
import result_file
from offbeat.simulate.simulation import Shape
from offbeat.tune import candidates
from offbeat.units import parse_size

KEYS = ("nodes", "ranks_per_node", "mpi", "collective", "size_bytes", "machine")


def stored() -> list[many_nodes.Cell]:
    cells: list[many_nodes.Cell] = result_file.read(result_file.FOLDER / "many_nodes.json")["cells"]
    return cells


def shape_of(cell: many_nodes.Cell) -> Shape:
    return Shape(cell["nodes"], cell["ranks_per_node"])


def test_the_result_file_has_the_rules_of_the_tree() -> None:
    """After a change of rules, simulate the calls of these rules again: `--shapes ... --add --json`."""
    for cell in stored():
        shape = shape_of(cell)
        place = candidates.Place(many_nodes.VENDORS[cell["mpi"]], shape.ranks, shape.nodes)
        found = candidates.in_force(cell["collective"], cell["size_bytes"], place, None)
        assert cell["algorithm"] == " | ".join(found), cell


def test_the_result_file_has_what_the_simulator_says_now() -> None:
    before = {tuple(cell[key] for key in KEYS): cell for cell in stored()}
    name = "genoa+infiniband"
    found = 0
    for collective, size in (("allreduce", 8), ("allreduce", 1 << 10), ("bcast", 16 << 10), ("bcast", 8)):
        question = many_nodes.Question(name, Shape(16, 48), collective, size)
        for cell in many_nodes.answer(question, []):
            assert cell == before[tuple(cell[key] for key in KEYS)]
            found += 1
    assert found == 3 + 3 + 3 + 2


def test_rules_are_better_on_the_mean_and_never_5_percent_worse() -> None:
    cells = stored()
    for cell in cells:
        assert max(cell["of_host"]) <= 1.05, cell
        if "native" not in cell["algorithm"]:
            assert fmean(cell["of_host"]) <= 0.96, cell
    assert many_nodes.mean([ratio for cell in cells for ratio in cell["of_host"]]) <= 0.75
    assert {f"{cell['nodes']}x{cell['ranks_per_node']}" for cell in cells} == set(
        many_nodes.SHAPES.split(",")
    )


def test_every_shape_has_rules() -> None:
    shares = {}
    sizes = [parse_size(each) for each in many_nodes.SIZES.split(",")]
    for text in many_nodes.SHAPES.split(","):
        shape = Shape(*map(int, text.split("x")))
        has_rule = [
            many_nodes.has_rule(host, shape, collective, size)
            for host in many_nodes.VENDORS
            for collective in many_nodes.COLLECTIVES.split(",")
            for size in sizes
        ]
        shares[text] = sum(has_rule) / len(has_rule)
    assert min(shares.values()) >= 0.2
    assert fmean(shares.values()) >= 0.5
    assert len(many_nodes.summary(stored())) == len(shares)


def test_the_script_adds_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "many.json"
    options = ["--machines", "rome+slingshot", "--sizes", "8", "--processes", "1", "--json", str(file)]
    many_nodes.main(["--shapes", "16x2", "--collectives", "allreduce", *options])
    many_nodes.main(["--shapes", "12x2", "--collectives", "allreduce", "--add", *options])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| shape | collective | MPI | rule |")
    shapes = [cell["nodes"] for cell in result_file.read(file)["cells"]]
    assert shapes == [12, 12, 12, 16, 16, 16]
    tried = ["--try", "ring", "--try", "no_such", *options]
    many_nodes.main(["--shapes", "9x2", "--collectives", "allreduce", *tried])
    assert {cell["algorithm"] for cell in result_file.read(file)["cells"]} == {"ring"}
