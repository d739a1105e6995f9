# SPDX-License-Identifier: BSD-3-Clause
"""The tables of paper 4 against values computed by hand."""

import json
import random
from pathlib import Path

import pytest
from fakes import Offbeat
from made_benches import cell, document, write
from offbeat.bench import bench_file, ranking
from offbeat.bench.ranking import Row
from offbeat.errors import CommandError


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    return bench_file.read(write(tmp_path / "bench.json")).rows


def test_the_best_algorithm_and_its_ratio_to_the_balanced_winner(rows: list[Row]) -> None:
    found = {(row.size_bytes, row.pattern): ranking.winner(row, rows) for row in rows}
    assert found[8, "balanced"] == ranking.Winner("native", 1.0)
    assert found[8, "last_delayed"] == ranking.Winner("tree", 8 / 20)
    assert found[8, "random"] == ranking.Winner("native", 1.0)
    assert found[1024, "random"] == ranking.Winner("ring", 1.0)


def test_algorithms_within_5_percent_of_the_best(rows: list[Row]) -> None:
    assert ranking.nearly_fastest(rows[0]) == {"native", "tree"}
    assert ranking.nearly_fastest(rows[1]) == {"tree"}


def test_robustness(rows: list[Row]) -> None:
    assert ranking.robustness(rows[1], rows) == pytest.approx(
        {"native": 1.0, "ring": -0.5, "tree": 8 / 10.4 - 1}
    )
    assert ranking.robustness(rows[4], rows) == pytest.approx({"native": 0.0, "ring": 0.2})


def test_normalised_rows_and_the_average_as_the_score(rows: list[Row]) -> None:
    assert ranking.normalised(rows[1]) == {"native": 2.5, "ring": 1.25, "tree": 1.0}
    scores = ranking.scores(ranking.rows_at(rows, "allreduce", 8))
    assert scores == pytest.approx(
        {"native": (1 + 2.5 + 1) / 3, "ring": (2 + 1.25 + 2.2) / 3, "tree": (1.04 + 1 + 1.2) / 3}
    )
    assert min(scores, key=scores.__getitem__) == "tree"


def test_an_algorithm_that_did_not_run_everywhere_has_no_score(rows: list[Row]) -> None:
    partial = [rows[0], Row("allreduce", 8, "random", {"native": rows[0].delays["native"]})]
    assert set(ranking.scores(partial)) == {"native"}
    assert ranking.scores([]) == {}


def test_the_tables_in_the_terminal(offbeat: Offbeat, tmp_path: Path) -> None:
    write(tmp_path / "bench.json")
    done = offbeat("report", "bench.json")
    said = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert "last_delayed ▼ tree 0.40 -" in said
    assert "last_delayed ▲ +1.00 ▼ -0.50 -0.23" in said
    assert "average 1.50 1.82 ▼ 1.08" in said
    assert "8 B tree 1.08 native 1.50" in said
    assert "1 KiB ring 1.00 ring 1.00" in said


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    cells = document()["cells"][1:]
    cells[0]["on_time"] = False
    wrong = {"elements": 1, "rank": 0, "index": 2, "expected": 5.0, "got": 4.0}
    cells.append(cell(8, "random", "grid", 1.0, status="wrong", wrong=wrong))
    found = bench_file.read(write(tmp_path / "bench.json", cells=cells))
    assert found.warnings[0] == "1 result of the plan; offbeat bench --resume measures more"
    assert found.warnings[1] == "in 1 of 13 results ranks rarely arrived as the pattern says"
    assert found.warnings[2].startswith("WRONG result, not used: grid at 8 B: 1 element wrong on rank 0")
    assert "grid" not in ranking.algorithms_of(found.rows, "allreduce")


def test_several_skews_are_several_patterns(tmp_path: Path) -> None:
    cells = [cell(8, "random", "native", 1.0), cell(8, "random", "native", 3.0, skew="100us")]
    rows = bench_file.read(write(tmp_path / "bench.json", cells=cells)).rows
    assert [row.pattern for row in rows] == ["random, 1x", "random, 100us"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it is not JSON"),
        ("{}", "is not a file of offbeat bench"),
        (
            '{"format": "offbeat bench", "version": 2}',
            "has version 2 of the format; this offbeat reads version 1",
        ),
        ('{"format": "offbeat bench", "version": 1, "plan": []}', "is damaged"),
        (json.dumps(document(cells=[{"status": "measured"}])), "is damaged"),
        (json.dumps(document(cells=[cell(8, "x", "y", float("inf"))])), "is damaged"),
        ('{"a":' + "[" * 100_000, "it is not JSON"),
    ],
)
def test_what_is_no_result_is_refused(offbeat: Offbeat, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bench.json").write_text(content)
    done = offbeat("report", "bench.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_damage_never_gives_a_traceback(tmp_path: Path) -> None:
    generator = random.Random(5)
    raw = json.dumps(document()).encode()
    path = tmp_path / "bench.json"
    for _ in range(300):
        changed = bytearray(raw)
        for _ in range(generator.choice((1, 1, 20))):
            changed[generator.randrange(len(raw))] = generator.choice(b'"{}[]:,0x\xff')
        path.write_bytes(changed if generator.random() < 0.8 else raw[: generator.randrange(len(raw))])
        try:
            rows = bench_file.read(path).rows
        except CommandError as error:
            if "\n" in str(error):
                raise AssertionError("not one line") from error
            continue
        for row in rows:
            ranking.winner(row, rows), ranking.robustness(row, rows), ranking.normalised(row)
