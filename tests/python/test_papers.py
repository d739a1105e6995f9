# SPDX-License-Identifier: BSD-3-Clause
"""The scripts that repeat figures of papers (docs/gallery/index.md), on few ranks."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import measured
import paper_2
import paper_4_ft
import pytest
import smpi
from offbeat.simulate import machine
from offbeat.simulate.simulation import Shape

PAPERS = Path(__file__).resolve().parents[2] / "benchmarks" / "papers"
GALLERY = PAPERS.parents[1] / "docs" / "gallery"
needs_smpi = pytest.mark.skipif(not smpi.is_installed(), reason="SimGrid's SMPI is not installed")
SQUARE = "grid(16x16, ring_segmented(8KiB))"


def results_of(script: str, folder: Path, *arguments: str) -> Any:
    """Run a script. Returns what it writes."""
    file = folder / "results.json"
    command = [sys.executable, str(PAPERS / script), *arguments, "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "\n| --- |" in done.stdout
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    ("script", "stored", "few"),
    [
        ("paper_0.py", "paper_0", "--nodes 2,8 --sizes 8,64KiB,1MiB"),
        ("paper_0.py", "paper_0", "--nodes 2 --sizes 64MiB,35225504"),
        ("paper_1.py", "paper_1", "--sizes 4MiB,1GiB"),
        ("paper_4.py", "paper_4_reduce", "--collectives reduce --sizes 8 --figures 4,5"),
        ("paper_4.py", "paper_4_allreduce", "--collectives allreduce --sizes 8 --figures 4,5,6"),
    ],
)
def test_stored_results_are_what_the_simulator_says_now(
    tmp_path: Path, script: str, stored: str, few: str
) -> None:
    """Some of them. Every other number of a page or figure comes from the same file."""
    is_stored(results_of(script, tmp_path, *few.split()), stored)


def document(name: str) -> Any:
    return json.loads((PAPERS.parent / "results" / f"{name}.json").read_text())


def is_stored(mine: Any, name: str) -> None:
    whole = document(name)
    lists = [key for key, value in mine.items() if isinstance(value, list)]
    assert lists
    for key in lists:
        assert mine[key], "something was simulated"
        assert [each for each in mine[key] if not any(is_like(each, other) for other in whole[key])] == []


def is_like(one: Any, other: Any) -> bool:
    """Compilers may round the simulator's times in different ways."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_like(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_like, one, other))
    return bool(one == (pytest.approx(other, rel=1e-6) if isinstance(other, float) else other))


def test_stored_alltoalls_are_what_the_simulator_says_now() -> None:
    """One algorithm, because others send a million messages."""
    stored = json.loads((PAPERS.parent / "results" / "paper_4_alltoall_short.json").read_text())
    stored["delays"] = [each for each in stored["delays"] if each["size_bytes"] == 8]
    together = delays(stored, "alltoall", 8, "balanced")
    ranks = 32 * 32
    latest = 1.5e-6 * statistics.fmean(together.values())
    cluster = machine.read("ethernet").simulated(32, 32)
    exits = cluster.run("alltoall", "bruck", 8, [0.0] * (ranks - 1) + [latest], None)["exits"]
    delay_us = 1e6 * (max(exits) - latest)
    assert delay_us == pytest.approx(delays(stored, "alltoall", 8, "last_delayed")["bruck"])


def test_paper_0_hierarchies_gain_up_to_1_mib(tmp_path: Path) -> None:
    few = ("--nodes", "8", "--sizes", "256KiB,4MiB")
    found = results_of("paper_0.py", tmp_path, *few)
    mean_us = {
        (each["size_bytes"], each["algorithm"]): each["mean_us"]
        for each in found["times"]
        if each["part"] == "table 3"
    }
    flat, hierarchy = "rabenseifner", "hierarchy(arrival_chain, rabenseifner)"
    assert mean_us[256 << 10, hierarchy] < 0.8 * mean_us[256 << 10, flat]
    assert mean_us[4 << 20, hierarchy] > mean_us[4 << 20, flat]
    assert mean_us[4 << 20, "pipeline(512KiB, bine)"] < 0.9 * mean_us[4 << 20, flat]
    for each in found["times"]:
        assert each["part"] == "reduce" or each["mean_us"] > each["no_less_us"]


def test_segments_overlap_sending_and_combining(tmp_path: Path) -> None:
    found = results_of("paper_1.py", tmp_path, "--sizes", "4MiB,64MiB")
    rates = {
        (each["nodes"], each["algorithm"]): each["mb_per_s"]
        for each in found["throughput"]
        if (each["figure"], each["size_bytes"]) == ("figure 3", 64 << 20)
    }
    assert rates[8, "ring"] == pytest.approx(3000, rel=0.01), "what the machine was made from"
    for nodes in (8, 9):
        assert 4000 < rates[nodes, "pipeline(4, ring)"] < 1e3 * found["machine"]["between_nodes"][0][
            "bandwidth_gb_per_s"
        ] * nodes / (2 * (nodes - 1))  # fmt: skip
    assert rates[9, "rabenseifner"] < rates[8, "rabenseifner"] / 2, "the ninth rank is folded"
    shares = {(each["nodes"], each["algorithm"]): each["share"] for each in found["arithmetic"]}
    assert shares[8, "ring"] == pytest.approx(0.37, abs=0.01)
    assert shares[8, "pipeline(4, ring)"] < 0.14, "the paper's bound"


@pytest.fixture(scope="module")
def few_grids(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("paper_2")
    return results_of("paper_2.py", folder, "--ranks", "16,256", "--sizes", "1MiB,32MiB")


def test_stored_grids_are_what_the_simulator_says_now(few_grids: Any) -> None:
    is_stored(few_grids, "paper_2")


def test_no_fitted_parameters_make_a_grid_win(few_grids: Any) -> None:
    fits = {each["algorithm"]: each for each in few_grids["fits"]}
    assert min(each["r_squared"] for each in fits.values()) > 0.98
    # Both send whole vectors one after the other, at the rate of the machine.
    for name in ("linear", "binomial"):
        assert fits[name]["bandwidth_gb_per_s"] == pytest.approx(12.1, rel=0.01)
    by_factor = {each["factor"]: each for each in few_grids["choices"]}
    assert (by_factor[1]["grids"], by_factor[1]["most"] < 1) == (0, True)
    assert by_factor[4]["grids"] > 0


def test_a_square_grid_wins_where_latency_counts(few_grids: Any) -> None:
    found = few_grids
    cells = {(each["ranks"], each["size_bytes"] >> 20): each for each in found["cells"]}
    assert list(cells) == [(16, 1), (16, 32), (256, 1), (256, 32)]
    assert cells[256, 1]["best_grid"]["after"] == cells[256, 1]["rings"]["after"] == SQUARE
    assert cells[256, 1]["without_rabenseifner"]["after"] == SQUARE
    assert cells[256, 1]["best_grid"]["before_us"] > 1.5 * cells[256, 1]["best_grid"]["after_us"]
    for cell in (cells[16, 1], cells[16, 32], cells[256, 32]):
        assert cell["best_grid"]["before_us"] < cell["best_grid"]["after_us"]
        assert cell["without_rabenseifner"]["after"] == cell["best_grid"]["before"]
    for cell in cells.values():
        assert not cell["all_six"]["after"].startswith("grid")
    # Equations 13 and 14 for 256 ranks and 1 MiB, in microseconds: 4.15 a segment of 8 KiB.
    segment, latency, byte = 1.5 + 8192 * 2.625e-4, 1.5, 6.25e-5
    flat = (256 + 0.5 - 2) * segment + 255 * (latency + byte * 4096)
    square = 2 * (16 + 8 - 2) * segment + 2 * 15 * (latency + byte * 65536)
    assert cells[256, 1]["published_speedup"] == pytest.approx(flat / square, rel=1e-6)


def delays(found: Any, collective: str, size: int, pattern: str) -> dict[str, float]:
    (row,) = [
        each
        for each in found["delays"]
        if each["skew"] == "1.5 x the mean"
        and (each["collective"], each["size_bytes"], each["pattern"]) == (collective, size, pattern)
    ]
    times: dict[str, float] = row["last_delays_us"]
    return times


def test_who_is_late_changes_the_best_algorithm(tmp_path: Path) -> None:
    few = ("--nodes", "8", "--ppn", "8", "--collectives", "reduce,alltoall", "--sizes", "1KiB,1MiB")
    found = results_of("paper_4.py", tmp_path, *few)
    assert (found["by"], found["nodes"] * found["ranks_per_node"]) == ("offbeat", 64)
    balanced = delays(found, "reduce", 1024, "balanced")
    late = delays(found, "reduce", 1024, "last_delayed")
    assert min(balanced, key=balanced.__getitem__) == "binomial"
    assert min(late, key=late.__getitem__) == "linear"
    assert late["linear"] < 0.5 * late["binomial"]
    together = delays(found, "alltoall", 1 << 20, "balanced")
    late = delays(found, "alltoall", 1 << 20, "last_delayed")
    assert together["pairwise"] < 1.05 * min(together.values())
    assert late["pairwise"] > 1.5 * late["linear"]


def test_a_run_of_ft_is_computing_and_the_delays_of_its_calls() -> None:
    delays_us = dict.fromkeys(paper_4_ft.PATTERNS, 100.0) | {"balanced": 40.0, "FT": 70.0}
    line = paper_4_ft.Line("bruck", delays_us, 1.5, 0.2, [0.5, 0.25, 0.26, 0.27, 0.4])
    assert paper_4_ft.STEPS == 500
    # 0.2 s, and 500 calls of 40 us, or of 90 us as the mean of 40 and five times 100.
    assert paper_4_ft.rows([line]) == [["`bruck`", "40.0", "70.0", "1.50", "0.220", "0.245", "0.260"]]


@needs_smpi
def test_smpi_gives_binomial_trees_the_same_delays(tmp_path: Path) -> None:
    few = ("--nodes", "4", "--ppn", "4", "--collectives", "reduce", "--sizes", "8,1KiB", "--figures", "4")
    ours = results_of("paper_4.py", tmp_path, *few)
    theirs = results_of("paper_4.py", tmp_path, *few, "--by", "smpi")
    for size in (8, 1024):
        for pattern in ("balanced", "last_delayed", "half_step"):
            expected = delays(theirs, "reduce", size, pattern)["ompi_binomial"]
            found = delays(ours, "reduce", size, pattern)["binomial"]
            assert found == pytest.approx(expected, rel=0.01), (size, pattern)


@needs_smpi
def test_stored_allreduces_are_what_smpi_says_now(tmp_path: Path) -> None:
    """One algorithm, under one pattern."""
    stored = document("paper_4_smpi_allreduce")
    latest = 1.5 * statistics.fmean(delays(stored, "allreduce", 1024, "balanced").values())
    ranks = 32 * 32
    late = [0.0] * (ranks - 1) + [latest]
    found = smpi.Smpi(tmp_path, Shape(32, 32)).last_delays_us("allreduce", "rdb", [(1024, late)])
    assert found == [pytest.approx(delays(stored, "allreduce", 1024, "last_delayed")["rdb"], rel=1e-4)]


# -- what the gallery says


def figure_of(name: str) -> dict[str, dict[int, float]]:
    """The last delays of a figure of `offbeat simulate`, by algorithm and place on the axis."""
    lines = json.loads((GALLERY / f"{name}.json").read_text())["last_delay_us"]
    return {algorithm: dict(points) for algorithm, points in lines.items()}


def test_numbers_in_the_text_are_those_of_the_result_files() -> None:
    page = " ".join((GALLERY / "index.md").read_text().split())
    leader, smp = (figure_of("paper_0")[name] for name in ("arrival_leader", "smp"))
    less = [round(100 * (1 - leader[size] / smp[size])) for size in leader]
    ranks, sizes = figure_of("paper_3_ranks"), figure_of("paper_3_sizes")
    others = {size: min(sizes["smp"][size], sizes["recursive_doubling"][size]) for size in sizes["smp"]}
    assert max(size for size, us in sizes["nap"].items() if us < others[size]) == 8 << 10
    cells = document("paper_2")["cells"]
    short = {each["ranks"]: each["best_grid"]["after"] for each in cells if each["size_bytes"] == 1 << 20}
    square = {ranks: paper_2.grid(*paper_2.square_grid(ranks), paper_2.SEGMENTED) for ranks in short}
    assert [ranks for ranks in short if short[ranks] == square[ranks]] == [256, 512, 1024]
    for text in (
        f"`arrival_leader` takes {min(less)} to {max(less)}% less than `smp`",
        f"{ranks['recursive_doubling'][256] / ranks['nap'][256]:.2f} times over `recursive_doubling`",
        f"take {paper_2.SHARE:.0%} of the time",
    ):
        assert text in page


@pytest.mark.parametrize("number", ["0", "1", "2", "4"])
def test_every_number_of_a_paper_has_ours_beside_it(number: str) -> None:
    lines = measured.paper_verdicts(number).splitlines()
    assert len(lines) > 6
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells), line


def test_a_number_is_beaten_if_ours_is_greater() -> None:
    rows = [line.strip("|").split(" | ") for line in measured.paper_verdicts("1").splitlines()[2:]]
    rates = [row for row in rows if row[0].endswith("MB/s") and "nodes" in row[0]]
    assert len(rates) == 6
    for _, paper, here, says in rates:
        theirs, ours = (float(text.removeprefix("below ").replace(",", "")) for text in (paper, here))
        assert says.startswith("beaten") == (ours > theirs)
    found = document("paper_2")["cells"]
    best = max(each["offbeat"]["before_us"] / each["offbeat"]["after_us"] for each in found)
    assert f"{best:.2f} by offbeat's best | beaten |" in measured.paper_verdicts("2")
