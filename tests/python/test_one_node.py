# SPDX-License-Identifier: BSD-3-Clause
"""Simulated defaults on one node beside the fastest algorithms (one_node.json)."""

from __future__ import annotations

from statistics import median

import one_node
import pytest
import result_file

# How much longer the default may take at most, and in how many of 100 cells more than a tenth longer.
LIMITS = {
    "allreduce": (1.4, 3),
    "reduce": (1.15, 1),
    "bcast": (1.9, 4),
    "allgather": (1.1, 0),
    "alltoall": (1.35, 6),
    "reduce_scatter": (1.55, 10),
    "barrier": (1.01, 0),
}


def stored() -> list[one_node.Cell]:
    cells: list[one_node.Cell] = result_file.read(result_file.FOLDER / "one_node.json")["cells"]
    return cells


def test_the_result_file_has_what_the_simulator_says_now() -> None:
    """After a change of rules or of the model, write the file again by the command in it."""
    cells = stored()
    now = one_node.simulate(["rome"], ["allreduce", "reduce", "bcast"], [16], [8, 64 << 10])
    assert len(now) == 3 * 2 * len(one_node.PATTERNS)
    keys = ("machine", "collective", "ranks", "size_bytes", "pattern")
    before = {tuple(cell[key] for key in keys): cell for cell in cells}
    for cell in now:
        old = before[tuple(cell[key] for key in keys)]
        assert (old["default"], old["best"]) == (cell["default"], cell["best"])
        assert cell["default_us"] == pytest.approx(old["default_us"], rel=2e-3)
        assert cell["best_us"] == pytest.approx(old["best_us"], rel=2e-3)


def test_defaults_do_not_fall_behind() -> None:
    cells = stored()
    assert {cell["machine"] for cell in cells} == set(one_node.MACHINES)
    assert {cell["collective"] for cell in cells} == set(LIMITS)
    for collective, (most, share) in LIMITS.items():
        ratios = [one_node.ratio(cell) for cell in cells if cell["collective"] == collective]
        assert median(ratios) <= 1.05, collective
        assert max(ratios) <= most, collective
        assert sum(each > one_node.LIMIT for each in ratios) <= share * len(ratios) / 100, collective


def test_the_bound_has_three_parts() -> None:
    cells = stored()
    rows = one_node.bound_rows(cells)
    assert [row[0] for row in rows] == [f"`{name}`" for name in one_node.MACHINES]
    for row in rows:
        bound, us, ratio, late_bound, late_us, late_ratio = map(float, row[1:])
        assert late_bound < bound < us
        assert us / bound == pytest.approx(ratio, abs=0.1)
        assert late_us / late_bound == pytest.approx(late_ratio, abs=0.1)


def test_the_script_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    one_node.main(["--machines", "grace", "--collectives", "barrier", "--ranks", "4", "--calls"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| collective | machine | cells |")
    assert lines[2].startswith("| `barrier` | `grace` | 5 | 0 | 1.00 | 1.0 |")
