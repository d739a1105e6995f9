# SPDX-License-Identifier: BSD-3-Clause
"""Simulated times of collectives on large nodes against those that others measured (published_check.json)."""

from __future__ import annotations

from statistics import median

import published_check
import pytest
import result_file
from offbeat.simulate import agreement

# Their algorithms are not offbeat's, or they may not have used shared memory (docs/explanation/models.md).
NOT_ALIKE = ("rome-mpich-allreduce", "rome-openmpi-allreduce", "grace-mpich-allreduce")


def factor(published_us: float, simulated_us: float) -> float:
    return max(published_us / simulated_us, simulated_us / published_us)


def test_the_result_file_has_what_the_simulator_says_now() -> None:
    """After a change of the model, write the file again, and look whether the errors below have grown."""
    stored = published_check.compared(result_file.read(result_file.FOLDER / "published_check.json")["cells"])
    now = published_check.compared(published_check.check(every=5))
    assert len(now) >= 400
    assert {time: stored[time] for time in now} == pytest.approx(now, rel=2e-3)


def test_the_errors_do_not_grow() -> None:
    cells = result_file.read(result_file.FOLDER / "published_check.json")["cells"]
    assert len({cell["table"] for cell in cells}) >= 10
    several = published_check.compared(cell for cell in cells if cell["nodes"] > 1)
    assert len(several) >= 500
    assert median(factor(time.us, us) for time, us in several.items()) <= 1.8
    cells = [cell for cell in cells if cell["nodes"] == 1]
    alike = published_check.compared(cell for cell in cells if cell["table"] not in NOT_ALIKE)
    assert median(factor(time.us, us) for time, us in alike.items()) <= 1.53
    named = published_check.compared(cell for cell in cells if not published_check.is_default(cell))
    for table, pairs, order in (("bcast", 350, 0.79), ("reduce", 330, 0.71), ("barrier", 0, 0.0)):
        found = agreement.compare({time: us for time, us in named.items() if table in time.pattern})
        assert found.times_share >= 0.25, table
        assert found.pairs >= pairs, table
        assert found.order_share >= order, table


def test_the_script_prints_a_row_for_each_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    published_check.main(["--only", "rome-openmpi-tuned-barrier", "--times"])
    *times, heading, _, default, bruck = capsys.readouterr().out.splitlines()
    assert any(line.startswith("rome-openmpi-tuned-barrier bruck 2 ranks: 0: 0.19, ") for line in times)
    assert heading.startswith("| table | algorithm | most nodes | most ranks | times |")
    assert bruck.startswith("| rome-openmpi-tuned-barrier | bruck | 2 | 256 | 65 |")
    assert bruck.endswith("| 0 | - |")
    assert default.startswith("| rome-openmpi-tuned-barrier | default with dynamic rules | 2 | 256 | ")
