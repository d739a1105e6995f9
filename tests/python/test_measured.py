# SPDX-License-Identifier: BSD-3-Clause
"""Result files of benchmarks, and the tables and figures that the site makes of them."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import chart
import draw_gallery
import measured
import paper_4_ft
import pytest
import result_file
import shell
from offbeat.mpi import discovery

MPIS = (
    {"name": "one", "vendor": "One MPI", "version": "1.0"},
    {"name": "two", "vendor": "Two MPI", "version": "2"},
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of result files that pages are made from."""
    monkeypatch.setattr(result_file, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", [str(result_file.ROOT / "benchmarks" / "board.py"), "--ranks", "2 4"])
    measured.results.cache_clear()
    yield tmp_path
    measured.results.cache_clear()


def write(path: Path, cells: Sequence[Mapping[str, object]], **facts: object) -> None:
    result_file.ResultFile(path).write(cells, MPIS, **facts)


def on_board(mpi: str, algorithm: str, size: int, *passes_us: float, **more: object) -> dict[str, object]:
    return {
        "collective": "allreduce", "ranks": 2, "pattern": "balanced", "skew": 0.0, "size_bytes": size,
        "algorithm": algorithm, "mpi": mpi, "few_samples": False, "passes_us": list(passes_us), **more,
    }  # fmt: skip


def between_nodes(algorithm: str, first: float, *passes_us: float, **more: object) -> dict[str, object]:
    return {
        "collective": "allreduce", "shape": "8x1", "mpi": "one", "late": "", "skew": 0, "size_bytes": 64,
        "algorithm": algorithm, "first_pass_us": first, "passes_us": list(passes_us), **more,
    }  # fmt: skip


def ft(algorithm: str, score: float, balanced_us: float, *runs_s: float) -> dict[str, object]:
    delays_us = dict.fromkeys(paper_4_ft.PATTERNS, 2 * balanced_us) | {"balanced": balanced_us, "FT": 100.0}
    return {
        "algorithm": algorithm, "delays_us": delays_us, "score": score, "computing_s": 0.2, "runs_s": runs_s
    }  # fmt: skip


def test_the_study_of_ft_appears_when_it_was_measured(folder: Path) -> None:
    assert measured.paper_4_ft_study().startswith("Not measured yet")
    cells = [ft("pairwise", 1.5, 40, 0.3, 0.3), ft("bruck", 1.0, 60, 0.25, 0.25)]
    write(folder / "paper_4_ft.json", cells, ranks=4, mean_skews_us=[0, 1, 2, 3])
    text = measured.paper_4_ft_study()
    assert "| `pairwise` | 40.0 | 100 | 1.50 |" in text
    assert "](paper_4_ft.svg)" in text
    assert "fastest by `bruck`" in text
    assert "chooses `bruck`, whose run takes 1.00 times as long" in text
    assert "`pairwise` (1.20)" in text
    bars = measured.paper_4_ft_figure()
    assert bars["bruck"] == {
        "nobody late": pytest.approx((0.2 + 500 * 60e-6) / 0.25),
        "mean of patterns": pytest.approx((0.2 + 500 * 110e-6) / 0.25),
        "as FT arrives": pytest.approx((0.2 + 500 * 100e-6) / 0.25),
    }
    drawing = chart.bars_under(draw_gallery.bars({"FT": bars}), "of the measured one")
    assert drawing.count("<rect") == 1 + 6 + 3  # the ground, bars, and names


def test_a_launcher_names_its_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path, or by a name on PATH, as Debian's mpirun.openmpi has."""
    install = discovery.embedded()
    assert install is not None
    assert install.mpirun is not None
    (tmp_path / "mpirun.some").symlink_to(install.mpirun)
    monkeypatch.setenv("PATH", str(tmp_path))
    for mpirun in (str(install.mpirun), "mpirun.some"):
        found = {"name": "some", "vendor": install.vendor, "version": install.version}
        assert result_file.mpi_of_launcher("some", mpirun) == found


def test_a_benchmark_that_is_terminated_ends_its_ranks() -> None:
    """Ranks end in `finally` blocks, which SIGTERM would otherwise skip."""
    lines = (
        "import result_file, time",
        "result_file.ResultFile(None)",
        "try: print('begun', flush=True); time.sleep(60)",
        "finally: print('ended')",
    )
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=result_file.ROOT / "benchmarks",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        assert process.stdout.read() == "ended\n"


def test_a_file_says_what_was_measured_where_and_how(folder: Path) -> None:
    write(folder / "a.json", [{"size_bytes": 8, "passes_us": [1.5]}], wrong=[])
    found = result_file.read(folder / "a.json")
    assert (found["benchmark"], found["command"]) == ("board", "python benchmarks/board.py --ranks '2 4'")
    assert found["started"] <= found["ended"]
    assert found["machine"]["cores"] > 0
    assert re.fullmatch(r"([0-9a-f]{10}(-changed)?)?", found["offbeat"]["commit"])
    assert found["mpis"] == list(MPIS)
    assert found["cells"] == [{"size_bytes": 8, "passes_us": [1.5]}]
    assert found["wrong"] == []


def test_without_a_path_nothing_is_written(folder: Path) -> None:
    result_file.ResultFile(None).write([{"size_bytes": 8}])
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_missing_is_an_error_before_anything_is_measured(folder: Path) -> None:
    with pytest.raises(SystemExit, match="there is no folder"):
        result_file.ResultFile(folder / "missing" / "a.json")


def test_the_option_has_a_file_of_the_name_of_the_script(folder: Path) -> None:
    parser = argparse.ArgumentParser()
    result_file.add_option(parser)
    assert parser.parse_args([]).json is None
    assert parser.parse_args(["--json"]).json == folder / "board.json"
    assert parser.parse_args(["--json", "b.json"]).json == Path("b.json")


@pytest.mark.parametrize(("key", "value"), [("format", "another"), ("version", 2), ("load", None)])
def test_other_files_are_refused(folder: Path, key: str, value: object) -> None:
    path = folder / "a.json"
    write(path, [])
    document = json.loads(path.read_text())
    if value is None:
        del document[key]
    else:
        document[key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=str(value) if value else key):
        result_file.read(path)


def test_ratios_on_a_board_are_to_the_best_native_of_all_mpis(folder: Path) -> None:
    cells = [
        on_board("one", "native", 64, 9.0, 8.0, 10.0),
        on_board("two", "native", 64, 6.0),
        on_board("one", "default", 64, 3.0, 1.0, 5.0),
        on_board("two", "default", 64, 12.0, few_samples=True),
        on_board("one", "native", 8, 4.0),
        on_board("one", "default", 8, 2.0),
        on_board("one", "arrival_chain", 8, 1.0),
        on_board("one", "default", 8, 1.0, ranks=4),
    ]
    write(folder / "board.json", cells)
    found = measured.board_ratios(2)
    assert found.lines == {"One MPI": [(8, 2.0), (64, 2.0)], "Two MPI": [(64, 0.5)]}
    assert found.few_samples == {("Two MPI", 64)}
    heading, _, *rows = measured.board_table().splitlines()
    assert heading.endswith("| `balanced` | least | One MPI's own | Two MPI's own |")
    # One MPI: 4/2 and 9/3; the best of offbeat is under One MPI at both sizes.
    assert rows[0] == "| allreduce | 2 | 2.00 | 2.00 | 2.45 | 0.50 |"
    assert rows[1] == "| allreduce | 4 | - | - | - | - |", "no native time"
    assert rows[-1] == "1 of 8 medians are of fewer than five calls in some pass."


def test_the_page_names_the_targets_that_the_board_missed(folder: Path) -> None:
    cells = [on_board("one", "native", 64, 9.0), on_board("one", "default", 64, 3.0)]
    where = "bcast, 2 ranks, balanced 0, 64 KiB"
    missed = [
        f"{where}, {mpi}: {ratio} x best native, target 1.00" for mpi, ratio in (("one", 0.8), ("two", 0.9))
    ]
    missed.append("bcast, 2 ranks, balanced 0, 1 KiB, one: 0.7 x best native, target 1.00")
    missed.append("bcast, 2 ranks, balanced, mean of best/one: 1.2, target 1.5")
    missed.append(f"{where}, two: not measured")
    write(folder / "board.json", cells, missed=missed)
    assert measured.board_targets().splitlines()[2:] == [
        "| bcast, 2 ranks, balanced 0 | 1.00 | 1 KiB, 64 KiB | 0.70 | 0.90 |",
        "| bcast, 2 ranks, balanced | 1.5 | mean | 1.20 |  |",
        "",
        "- bcast, 2 ranks, Two MPI: not measured (cells: 1)",
    ]
    measured.results.cache_clear()
    write(folder / "board.json", cells, missed=[])
    assert measured.board_targets() == "No target was missed."


def test_the_figure_over_patterns_takes_one_size(folder: Path) -> None:
    late = {"pattern": "last_delayed", "skew": 1.5}
    cells = [
        on_board(mpi, algorithm, size, us, **more)
        for mpi in ("one", "two")
        for size in (1024, 32768)
        for algorithm, us in (("native", 4.0), ("default", 1.0))
        for more in ({}, late)
    ]
    write(folder / "board.json", cells)
    size, pairs = measured.board_pairs(2)
    assert size == 32768
    pair = {"One MPI": (4.0, 1.0), "Two MPI": (4.0, 1.0)}
    assert pairs == {"balanced": pair, "last_delayed, skew 1.5": pair}


def test_the_best_native_between_nodes_is_that_of_the_first_pass(folder: Path) -> None:
    cells = [
        between_nodes("native", 9.0, 8.0),
        between_nodes("native(ring)", 5.0, 6.0, 8.0),
        between_nodes("native(tree)", 5.5, 5.5),
        between_nodes("default", 1.0, 2.0),
        between_nodes("native", 1.0, 1.0, late="one", skew=1.5),
        between_nodes("arrival_owners", 1.0, 4500.0, late="one", skew=1.5),
        between_nodes("native", 1.0, 9e3, late="half", skew=1.5),
    ]
    write(folder / "nodes.json", cells)
    assert measured.nodes_ratios("8x1").lines == {"One MPI": [(64, 3.5)]}
    assert measured.nodes_ratios("4x2").lines == {}
    assert measured.nodes_table().splitlines()[2:] == [
        "| 8 | 1 | One MPI | 3.50 | 3.50 | 64 B | 3.50 | 64 B |"
    ]
    write(folder / "late_nodes.json", cells)
    assert measured.late_nodes_table().splitlines()[2:] == [
        "| One MPI | one | 1.5 | 64 B | 0.001 | 4.5 |",
        "| One MPI | half | 1.5 | 64 B | 9 | - |",
    ]


def test_tracing_costs_the_differences_of_neighbouring_runs(folder: Path) -> None:
    cell = {"ranks": 1, "size_bytes": 4, "untraced_ns": [10.0, 20.0, 30.0], "traced_ns": [110.0, 100.0, 90.0]}
    write(folder / "tracing.json", [cell])
    assert measured.tracing_table().splitlines()[2:] == ["| 1 | 4 B | 20.0 | 100.0 | 80.0 | 60.0 | 100.0 |"]


def test_the_source_has_the_command_and_the_run(folder: Path) -> None:
    write(folder / "board.json", [])
    command, text = measured.source("board").split("\n\n")
    assert command == "    python benchmarks/board.py --ranks '2 4'"
    assert "`benchmarks/results/board.json`" in text
    assert "One MPI 1.0, Two MPI 2; " in text


def test_long_commands_are_broken_before_an_option() -> None:
    command = "python benchmarks/board.py " + " ".join(f"--option-{number} {'x' * 20}" for number in range(6))
    lines = measured.shown(command).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 110
    assert all(line.startswith("        --option-") for line in lines[1:])
    (words,) = shell.lines("\n" + "\n".join(lines) + "\n")
    assert words.split() == command.split()


def circles(svg: str) -> list[tuple[float, float, bool]]:
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3" (fill="#fff")?', svg)
    return [(float(x), float(y), bool(hollow)) for x, y, hollow in found]


def test_lines_are_drawn_on_logarithmic_axes() -> None:
    lines = {"a": [(8, 1.0), (64, 2.0), (512, 4.0)]}
    svg = chart.lines_over("title", "size_bytes", "ratio", lines, hollow={("a", 64)}, has_one=True)
    (x0, y0, _), (x1, y1, hollow), (x2, y2, _) = circles(svg)
    assert hollow
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y1, "more is higher"
    assert "#57606a" not in chart.lines_over("title", "size_bytes", "ratio", lines)
    above = chart.lines_over("title", "size_bytes", "ratio", {"a": [(8, 3.0), (64, 9.0)]}, has_one=True)
    assert 'stroke="#57606a"' in above, "also if all ratios are above it"
    assert f'<path d="M{chart.LEFT} {y0:.1f}H{chart.WIDTH - chart.RIGHT}" stroke="#57606a"/>' in svg


def test_pairs_have_a_ring_for_the_earlier_value() -> None:
    svg = chart.pairs_under(
        "title", "x", "y", {"one": {"a": (8.0, 2.0), "b": (4.0, 3.0)}, "two": {"a": (5.0, 5.0)}}
    )
    found = circles(svg)
    assert [hollow for _, _, hollow in found] == [False, True] * 3
    (ax, dot, _), (same, ring, _), (bx, _, _) = found[:3]
    assert ax == same < bx
    assert ring < dot, "8 is above 2"
    assert svg.count(">a</text>") == 1
