# SPDX-License-Identifier: BSD-3-Clause
"""The JSON of a report and of a prediction has the fields that docs/reference/report-format.md shows."""

import json
import re
from pathlib import Path
from typing import Any

import made_benches
import pytest
from fakes import Offbeat
from made_traces import begun, iterations
from offbeat import _core

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "report-format.md"
BY_NAME = ("arrivals", "sizes", "delays_s", "scores")  # objects whose keys are not fixed


def shown(format_name: str) -> Any:
    """The example on the page."""
    blocks = re.findall(r"^((?:    .*\n|\n)+)", PAGE.read_text(), re.MULTILINE)
    (block,) = (block for block in blocks if f'"format": "{format_name}"' in block)
    return json.loads(block)


def shape(value: Any, name: str = "") -> Any:
    """The names and types of the fields; of a list those of its first element."""
    if isinstance(value, dict) and name not in BY_NAME:
        return {key: shape(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def late_every_tenth(folder: Path) -> Path:
    return iterations(
        folder, 4, 200, lambda rank, call: 2_000_000 * (rank == 3 and call % 10 == 9), duration_ns=500
    )


def test_a_report_has_the_fields_of_the_page(offbeat: Offbeat, tmp_path: Path) -> None:
    late_every_tenth(tmp_path / "run.trace")
    made_benches.write(tmp_path / "bench.json")
    done = offbeat("report", "run.trace", "bench.json", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert shape(document) == shape(shown("offbeat report"))
    found = document["traces"][0]
    assert found["stakes"]["verdict"] == "even out the arrivals"
    assert [finding["ranks"] for finding in found["findings"]] == [[3]]
    assert found["findings"][0]["places"][0]["every_such_call"] == 10
    assert found["findings"][0]["waited_s"] == pytest.approx(20 * 3 * 2e-3, rel=0.01)
    assert document["benchmarks"][0]["choices"][0]["best_average"] == "tree"


def test_a_prediction_has_the_fields_of_the_page(offbeat: Offbeat, tmp_path: Path) -> None:
    late_every_tenth(tmp_path / "run.trace")
    for rank in range(4):
        made = begun(rank, 4)
        made.name(3, 2, "tree")
        made.call(0, 7_000_000_100_000, 7_000_000_200_000, algorithm=2)
        made.write(tmp_path / "tree.trace")
    cells = [
        made_benches.cell(8, pattern, name, us)
        for pattern in ("balanced", "last_delayed")
        for name, us in (("tree", 3.0), ("hierarchy(arrival_tree, ring)", 5.0))
    ]
    plan = made_benches.document()["plan"] | {"ranks": 4}
    made_benches.write(tmp_path / "bench.json", cells=cells, plan=plan)
    done = offbeat("predict", "run.trace", "--from", "bench.json", "--measured", "tree.trace", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert shape(json.loads(done.stdout)) == shape(shown("offbeat predict"))


def test_a_trace_without_calls_has_the_same_fields(offbeat: Offbeat, tmp_path: Path) -> None:
    made = begun(0, 1)
    made.call(0, 7_000_000_000_000, 7_000_000_000_001)
    made.write(tmp_path / "run.trace")
    found = json.loads(offbeat("report", "run.trace", "--json").stdout)["traces"][0]
    assert list(found) == list(shown("offbeat report")["traces"][0])
    assert (found["stakes"], found["findings"], found["collectives"]) == (None, [], [])


def test_files_are_written_beside_the_json(offbeat: Offbeat, tmp_path: Path) -> None:
    late_every_tenth(tmp_path / "run.trace")
    done = offbeat("report", "run.trace", "--json", "-o", "page.html", "--pattern", "skew.txt")
    assert json.loads(done.stdout)["format"] == "offbeat report"
    assert done.stderr == "Wrote page.html\nWrote skew.txt\n"
    assert "<title>" in (tmp_path / "page.html").read_text()


def test_every_value_that_the_page_lists_exists() -> None:
    """Kinds and verdicts, as the code has them."""
    from offbeat.trace.findings import Kind
    from offbeat.trace.stakes import Verdict

    page = " ".join(PAGE.read_text().split())
    for kind in Kind:
        assert f"`{kind.name.lower()}`" in page
    for verdict in Verdict:
        assert f"`{verdict.value}`" in page
    assert _core.version() in page
