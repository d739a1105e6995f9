# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune: candidates, rounds, failures, the budget, and the rules that come out, on a made-up bench."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import result_of
from made_traces import iterations
from made_tuning import ABOUT, MadeBench, install, new_course, table, tuned
from offbeat import _core
from offbeat.bench import arrival_patterns, results, runner
from offbeat.bench.plan import Cell, Job, Plan
from offbeat.bench.records import Records
from offbeat.errors import CommandError
from offbeat.machine import load
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice
from offbeat.mpi.launch import Launch
from offbeat.rules import rule_files, spelling
from offbeat.tune import candidates, course, decisions, objectives, recorded
from offbeat.tune.candidates import Place
from offbeat.tune.course import FINAL, Course
from offbeat.tune.decisions import Decision, decide, rows_of
from offbeat.tune.objectives import distinct_patterns
from offbeat.tune.tuning import Tuning

ONE_NODE = Place("Open MPI", 4, 1)


# -- candidates


def test_candidates_come_from_the_registry_and_can_run() -> None:
    plain = candidates.plain("allreduce", ONE_NODE, 1 << 20)
    assert {"arrival_tree", "ring", "recursive_multiplying(4)", "ring_segmented(16KiB)"} <= set(plain)
    assert not {"arrival_leader", "arrival_chain"} & set(plain), "their bits differ from run to run"
    assert not any(name.startswith(("straggler", "native")) for name in plain)
    assert "ring_segmented(16KiB)" not in candidates.plain("allreduce", ONE_NODE, 8 << 10)
    assert "arrival_tree" not in candidates.plain("allreduce", replace(ONE_NODE, nodes=2), 8)
    for collective in [each["name"] for each in _core.collectives() if each["served"]]:
        assert candidates.plain(collective, ONE_NODE, 4096), collective


def test_a_job_measures_grids_of_the_host_with_one_name() -> None:
    two = replace(ONE_NODE, nodes=2)
    assert candidates.may_run("allreduce", "grid(2x2, native(ring))", two)
    assert not candidates.may_run("allgather", "grid(2x2, native(ring))", two)
    assert not candidates.may_run("allreduce", "grid(2x2, native(none_such))", two)
    assert host_algorithms.has_several_names("grid(2x2, native(ring), native(linear))")
    assert host_algorithms.has_several_names("grid(2x2, native, native(ring))")
    assert not host_algorithms.has_several_names("grid(2x2, native(ring), native(ring))")


def test_compound_candidates_are_made_of_the_best() -> None:
    made = candidates.compound("allreduce", ONE_NODE, ["native", "ring", "arrival_tree"], 1 << 20)
    assert {"pipeline(16KiB, ring)", "pipeline(4, native)", "grid(2x2, ring)"} <= set(made)
    assert not any("arrival_tree" in name or "hierarchy" in name for name in made)
    assert not any(
        name.startswith("pipeline") for name in candidates.compound("allreduce", ONE_NODE, ["ring"], 8)
    )
    nodes = candidates.compound("allreduce", replace(ONE_NODE, nodes=2), ["ring"], 1 << 20)
    assert {"hierarchy(arrival_tree, ring)", "lanes(arrival_tree, ring)"} <= set(nodes)
    hosts = candidates.compound("allreduce", replace(ONE_NODE, nodes=2), ["ring"], 64, ["native(ring)"])
    assert "grid(2x2, native(ring))" in hosts
    assert not any("native" in name for name in nodes)
    assert candidates.compound("allreduce", Place("Open MPI", 7, 1), ["ring"], 8) == [], "7 is prime"


def test_a_host_algorithm_is_in_rules_only_where_the_host_can_change_to_it() -> None:
    assert candidates.in_rules("Open MPI", "allreduce", "ring")
    assert not candidates.in_rules("Intel MPI", "allreduce", "native(ring)")
    known = candidates.in_rules("Open MPI", "allreduce", "native(ring)")
    try:
        _core.check_expression("allreduce", "native(ring)")
        assert known
    except ValueError:
        assert not known


def test_what_is_in_force() -> None:
    assert candidates.in_force("allreduce", 8, ONE_NODE, None) == ["arrival_tree"]
    assert candidates.in_force("allreduce", 8, replace(ONE_NODE, nodes=4), None) == [
        "recursive_multiplying(8)"
    ]


def test_patterns_that_are_one_on_two_ranks_are_measured_once() -> None:
    names = ["balanced", "ascending", "descending", "last_delayed", "first_delayed", "random"]
    assert distinct_patterns(names, 2, 1) == ["balanced", "ascending", "descending", "random"]
    assert distinct_patterns(names, 4, 1) == names


# -- races


def test_the_best_algorithms_win_and_the_others_stop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def truth(cell: Cell, name: str) -> float:
        best = "ring" if cell.size_bytes == 1024 else "binomial"
        return {best: 10.0, "native": 20.0, "arrival_tree": 15.0}.get(name, 40.0)

    bench = MadeBench(truth)
    made = tuned(monkeypatch, bench, tmp_path / "t.json")
    chosen = {decision.size_bytes: decision for decision in decide(made)}
    assert {size: each.algorithm for size, each in chosen.items()} == {8: "binomial", 1024: "ring"}
    for each in chosen.values():
        assert each.fresh, "a final round measured it again"
        assert each.of_native == pytest.approx(0.5, rel=0.05)
        assert each.of_before == pytest.approx(10 / 15, rel=0.05)
        assert each.before == "arrival_tree"
    assert bench.samples_of("linear") < bench.samples_of("ring")
    assert {job.variables.get("OMPI_MCA_coll_tuned_allreduce_algorithm") for job, _ in bench.jobs} > {
        "4",
        "6",
    }


def test_a_race_is_robust_not_balanced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ring is best when all arrive together; bine has the best mean over the patterns."""

    def truth(cell: Cell, name: str) -> float:
        if name == "ring":
            return 9.0 if cell.pattern == "balanced" else 30.0
        return 10.0 if name == "bine" else 40.0

    made = tuned(monkeypatch, MadeBench(truth), tmp_path / "t.json", sizes=[8])
    assert [decision.algorithm for decision in decide(made)] == ["bine"]
    made = tuned(monkeypatch, MadeBench(truth), tmp_path / "b.json", sizes=[8], patterns=["balanced"])
    assert [decision.algorithm for decision in decide(made)] == ["ring"]


def test_a_slow_job_does_not_hide_what_the_host_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs differ by up to 2 times; native(linear) is better than native by 1.5 times."""
    delays = {"native": 15.0, "native(linear)": 10.0, "arrival_tree": 20.0}
    bench = MadeBench(table(delays, 40.0), drift=1.0)
    made = tuned(monkeypatch, bench, tmp_path / "t.json", sizes=[8])
    (contest,) = made.contests
    found = made.scores(contest, made.usable(contest))
    assert found["native(linear)"].value == pytest.approx(1.0, rel=0.03)
    assert found["native"].value == pytest.approx(1.5, rel=0.05)


def test_native_wins_a_tie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = MadeBench(table({"native": 10.2, "ring": 10.0}, 40.0))
    made = tuned(monkeypatch, bench, tmp_path / "t.json", sizes=[8])
    assert [decision.algorithm for decision in decide(made)] == ["native"]
    bench = MadeBench(table({"native": 10.6, "ring": 10.0}, 40.0))
    made = tuned(monkeypatch, bench, tmp_path / "u.json", sizes=[8])
    assert [decision.algorithm for decision in decide(made)] == ["ring"]


def test_algorithms_with_wrong_results_are_dropped_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = MadeBench(table({"ring": 5.0}, 10.0), wrong=["ring"], unserved=["bine"])
    said: list[str] = []
    made = tuned(monkeypatch, bench, tmp_path / "t.json", said=said)
    assert [line for line in said if line.startswith("allreduce by ring is out of the race: wrong result: ")]
    assert all("ring" not in made.racing(contest) for contest in made.contests)
    assert all("bine" not in made.racing(contest) for contest in made.contests)
    assert not any("bine" in line for line in said), "to be unserved is no fault"
    assert {decision.algorithm for decision in decide(made)} == {"native"}


@pytest.mark.parametrize("how", ["crash_in_check", "crash_in_measure"])
@pytest.mark.parametrize("culprit", ["ring", "native(linear)"])
def test_an_algorithm_that_crashes_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, culprit: str
) -> None:
    values: dict[str, Any] = {how: [culprit]}
    bench = MadeBench(table({"native": 10.0, "bine": 5.0}, 20.0), **values)
    said: list[str] = []
    made = tuned(monkeypatch, bench, tmp_path / "t.json", said=said)
    assert [key for key in made.dropped if key != ("allreduce", culprit)] == []
    assert said == [f"allreduce by {culprit} is out of the race: the benchmark job ended with exit code 139"]
    assert {decision.algorithm for decision in decide(made)} == {"bine"}
    assert {decision.size_bytes for decision in decide(made)} == {8, 1024}


def test_an_algorithm_that_crashes_for_one_collective_races_for_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = MadeBench(table({"ring": 5.0}, 10.0), crash_in_check=["allreduce ring"])
    made = tuned(monkeypatch, bench, tmp_path / "t.json", collectives=["allreduce", "allgather"])
    assert list(made.dropped) == [("allreduce", "ring")]
    assert bench.crashes == 1, "no later job runs it for allreduce"
    chosen = {(found.collective, found.algorithm) for found in decide(made)}
    assert ("allgather", "ring") in chosen
    assert ("allreduce", "ring") not in chosen


def test_an_mpi_that_does_not_start_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_job(*arguments: Any, **others: Any) -> None:
        raise CommandError("no such host", 1)

    monkeypatch.setattr(runner, "run_job", run_job)
    with pytest.raises(CommandError, match="no such host"):
        Tuning([new_course(tmp_path / "t.json")], Choice(install(), "why"), 60, None).run()


def test_ranks_that_start_slower_than_the_budget_allows_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run_job(*arguments: Any, until: float, **others: Any) -> None:
        time.sleep(until - time.time() + 0.01)
        raise CommandError("nothing happened for 1 s while starting", 3)

    monkeypatch.setattr(runner, "run_job", run_job)
    monkeypatch.setattr(
        "offbeat.machine.overload_warning", lambda: "the load of this host is 9.0, more than twice its 2 CPUs"
    )
    words = r"did not start within \d s of a budget of 0\.5 s \(the load .* 2 CPUs\); give a longer --budget"
    with pytest.raises(CommandError, match=words):
        Tuning([new_course(tmp_path / "t.json")], Choice(install(), "why"), 0.5, None).run()


def test_only_the_algorithms_that_the_user_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = MadeBench(table({"linear": 1.0, "ring": 5.0}, 10.0))
    names = ["native", "ring", "native(ring)", "native(nothing)"]
    made = tuned(monkeypatch, bench, tmp_path / "t.json", algorithms=names)
    assert {name for job, _ in bench.jobs for name in job.algorithms} == {
        "native", "ring", "native(ring)", "arrival_tree",
    }  # fmt: skip
    assert {decision.algorithm for decision in decide(made)} == {"ring"}


def test_ranks_on_several_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = MadeBench(table({"hierarchy(arrival_tree, ring)": 5.0, "ring": 8.0}, 20.0), hosts=2)
    made = tuned(monkeypatch, bench, tmp_path / "t.json", sizes=[4096])
    (decision,) = decide(made)
    assert (decision.algorithm, decision.place) == ("hierarchy(arrival_tree, ring)", Place("Open MPI", 4, 2))
    (row,) = rows_of([decision], [4096])
    assert row.fields()[:4] == ["allreduce", "openmpi", "2", "2"]


def test_a_collective_whose_rules_have_no_lengths_has_one_race(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    delays = {"arrival_direct": 5.0}
    made = tuned(
        monkeypatch, MadeBench(table(delays, 20.0)), tmp_path / "t.json", collectives=["alltoallv", "barrier"]
    )
    found = decide(made)
    assert [(d.collective, d.algorithm, d.cells) for d in found] == [
        ("alltoallv", "arrival_direct", 6), ("barrier", "native", 3),
    ]  # fmt: skip
    assert [row.fields()[4] for row in rows_of(found[:1], [8])] == ["*"]


# -- the budget


def fake_ranks(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Processes instead of mpirun, which measure 10 us for everything and hang where the script says."""

    def build(job: Job, plan: Plan, choice: Choice, files: dict[str, Path], *, deadline: float) -> Launch:
        arguments = [str(files["output"]), str(files["cells"]), json.dumps(job.algorithms)]
        return Launch([sys.executable, "-c", f"import sys, time, json\n{script}{RANKS}", *arguments], {})

    monkeypatch.setattr(runner, "job_command", build)


RANKS = """
with open(sys.argv[1], "a", buffering=1) as out:
    def write(**record): out.write(json.dumps(record) + "\\n")
    write(record="header", hosts=1, cpus=[], clock_residual_ns=0)
    for line in open(sys.argv[2]):
        collective, size, pattern, skew, *_ = line.split()
        where = dict(collective=collective, size_bytes=int(size), pattern=pattern)
        for algorithm in json.loads(sys.argv[3]):
            write(record="begin", what="check", algorithm=algorithm, **where)
            check(algorithm)
        write(record="begin", what="measure", algorithm="", **where)
        for algorithm in json.loads(sys.argv[3]):
            us = 5.0 if algorithm == "bine" else 10.0
            write(record="result", skew=skew, algorithm=algorithm, status="measured", skew_us=0.0,
                  native_us=10.0, on_time=True, stopped="precision", last_delays_us=[us] * 60,
                  total_delays_us=[us] * 60, **where)
    write(record="end")
"""


def test_the_budget_is_kept_although_a_job_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_ranks(monkeypatch, "def check(algorithm):\n    if algorithm == 'ring': time.sleep(60)\n")
    made = new_course(tmp_path / "t.json", algorithms=["native", "ring", "bine"])
    said: list[str] = []
    seen: list[float] = []
    budget = 12 * max(1, load() / (os.cpu_count() or 1))  # processes start later on a busy machine
    began = time.monotonic()
    Tuning(
        [made], Choice(install(), "why"), budget, None,
        say=said.append, on_progress=lambda progress: seen.append(progress.passed_s),
    ).run()  # fmt: skip
    assert time.monotonic() - began < budget + 1
    assert [
        line for line in said if line.startswith("allreduce by ring is out of the race: nothing happened")
    ]
    assert {decision.algorithm for decision in decide(made)} == {"bine"}
    assert seen
    assert not runner.path_of_partial_records(made.path).exists()


def test_a_budget_that_is_spent_leaves_the_rest_for_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the cells of 8 bytes are measured in time; a second session measures the others, and no more."""

    def slow(*arguments: Any, **others: Any) -> None:
        job, plan, choice, records = arguments
        keep = [cell for cell in job.cells if cell.size_bytes == 8]
        bench.run_job(job._replace(cells=keep), plan, choice, records, **others)

    path = tmp_path / "t.json"
    bench = MadeBench(table({"bine": 5.0}, 10.0))
    monkeypatch.setattr(runner, "run_job", slow)
    made = new_course(path, algorithms=["native", "bine"])
    Tuning([made], Choice(install(), "why"), 60, None).run()
    assert [decision.size_bytes for decision in decide(made)] == [8]

    bench = MadeBench(table({"bine": 5.0}, 10.0))
    again = tuned(monkeypatch, bench, path, course=course.read(path))
    assert {decision.size_bytes: decision.algorithm for decision in decide(again)} == {
        8: "bine",
        1024: "bine",
    }
    assert {cell.size_bytes for job, _ in bench.jobs for cell in job.cells} == {1024}


@pytest.mark.parametrize(("measured", "decided"), [(("bine",), []), (("bine", "native"), ["bine", "bine"])])
def test_an_algorithm_is_not_chosen_before_it_was_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: tuple[str, ...], decided: list[str]
) -> None:
    bench = MadeBench(table({"bine": 5.0}, 10.0))

    def some(*arguments: Any, **others: Any) -> None:
        job, plan, choice, records = arguments
        keep = [name for name in job.algorithms if name in measured]
        bench.run_job(job._replace(algorithms=keep), plan, choice, records, **others)

    monkeypatch.setattr(runner, "run_job", some)
    made = new_course(tmp_path / "t.json", algorithms=["native", "bine"])
    Tuning([made], Choice(install(), "why"), 4, None).run()
    assert [decision.algorithm for decision in decide(made)] == decided


def test_nothing_that_was_measured_is_lost_in_a_kill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    made = new_course(path, algorithms=["native", "bine"])
    made.benchmark.write(path)
    made.begin(0)  # a kill -9 while this job runs leaves the file and what the ranks wrote beside it
    lines = [
        {"record": "header", "hosts": 1, "cpus": []},
        *(
            {"record": "result", **result_of(name, 10.0, pattern=pattern, size=8).to_json()}
            for name in ("native", "arrival_tree", "bine")
            for pattern in ("balanced",)
        ),
    ]
    with runner.path_of_partial_records(path).open("a") as part:
        part.write("\n".join(map(json.dumps, lines)) + '\n{"record": "resu')
    again = course.read(path)
    assert again.take_part() == 3
    assert not runner.path_of_partial_records(path).exists()
    assert again.was_measured(Cell("allreduce", 8, "balanced", "0us"), "bine", 0)
    assert len(results.read(path).results) == 3
    bench = MadeBench(table({"bine": 5.0}, 10.0))
    tuned(monkeypatch, bench, path, course=again)
    first = {cell for job, samples in bench.jobs for cell in job.cells if samples == 60}
    assert Cell("allreduce", 8, "balanced", "0us") not in first
    assert {decision.size_bytes for decision in decide(again)} == {8, 1024}


def test_a_file_is_that_of_a_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """offbeat report and offbeat compare read it; samples of all rounds are there."""
    path = tmp_path / "t.json"
    bench = MadeBench(table({"native": 9.0, "bine": 8.5}, 10.0))
    tuned(monkeypatch, bench, path, sizes=[8], algorithms=["native", "bine"])
    found = results.read(path)
    assert found.missing() == []
    cell = Cell("allreduce", 8, "balanced", "0us")
    (bine,) = [r for r in found.results if (r.cell, r.algorithm) == (cell, "bine")]
    asked = sum(samples for job, samples in bench.jobs if "bine" in job.algorithms and cell in job.cells)
    assert len(bine.last_delays_us) == asked > 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("tune"), "is a file of offbeat bench, not of offbeat tune"),
        (lambda d: d["tune"].pop("jobs"), "is damaged: its field tune"),
        (lambda d: d["tune"].update(goal={"x": 1}), "is damaged: its field tune"),
        (lambda d: d["tune"].update(jobs=[{"round": 0, "cells": [[1]]}]), "is damaged: its field tune"),
    ],
)
def test_other_files_are_not_resumed(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "t.json"
    new_course(path).benchmark.write(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CommandError, match=message):
        course.read(path)


def test_each_number_of_ranks_has_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    assert course.path_for(path, 2, [2]) == path
    paths = [course.path_for(path, ranks, [2, 16]) for ranks in (2, 16)]
    assert [each.name for each in paths] == ["t-n2.json", "t-n16.json"]
    for each in paths:
        each.touch()
    (tmp_path / "t-n2x.json").touch()
    assert course.files_of(path) == paths
    with pytest.raises(CommandError, match=r"there is no .*u\.json to resume"):
        course.files_of(tmp_path / "u.json")


# -- rules


def decision(size: int, algorithm: str, collective: str = "allreduce", **values: Any) -> Decision:
    fields = {"of_native": 0.5, "of_before": 0.8, "us": 3.0, "cells": 4, "fresh": True, **values}
    return Decision(collective, size, ONE_NODE, algorithm, "arrival_tree", **fields)


def test_ranges_meet_at_the_geometric_middle() -> None:
    found = rows_of(
        [decision(8, "ring"), decision(64, "ring"), decision(1024, "bine"), decision(4096, "native")],
        [8, 64, 1024, 4096],
    )
    assert [row.fields()[4:] for row in found] == [
        ["..255", "ring"],
        ["256..<2KiB", "bine"],
        ["2KiB..8KiB", "native"],
    ]
    assert [len(row.decisions) for row in found] == [2, 1, 1]


def test_a_size_that_was_not_measured_has_no_rule() -> None:
    found = rows_of([decision(128, "ring"), decision(2048, "ring")], [128, 512, 2048])
    assert [row.fields()[4] for row in found] == ["64..255", "1KiB..4KiB"]
    assert rows_of([], [8]) == []


def test_an_allgatherv_is_as_long_as_all_its_blocks() -> None:
    (row,) = rows_of([decision(1024, "ring", "allgatherv")], [1024])
    assert row.fields()[4] == "2KiB..8KiB"


def test_reasons_have_figures_and_a_date() -> None:
    (row,) = rows_of([decision(8, "ring"), decision(64, "ring")], [8, 64])
    assert row.reason("2026-11-26") == (
        "tuned 2026-11-26 on 4 ranks: 0.50 of native's time, 0.80 of the earlier rule's (2 sizes, 8 cells)"
    )
    (row,) = rows_of([decision(8, "native", of_native=1.0)], [8])
    assert (
        row.reason("2026-11-26")
        == "tuned 2026-11-26 on 4 ranks: 0.80 of the earlier rule's (1 size, 4 cells)"
    )
    (row,) = rows_of([decision(8, "arrival_tree", of_native=None)], [8])
    assert row.reason("2026-11-26") == "tuned 2026-11-26 on 4 ranks: as before (1 size, 4 cells)"


def test_the_rules_choose_what_won(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def truth(cell: Cell, name: str) -> float:
        best = {8: "bine", 1024: "native", 65536: "pipeline(16KiB, ring)"}[cell.size_bytes]
        return {best: 5.0, "ring": 8.0}.get(name, 20.0)

    made = tuned(monkeypatch, MadeBench(truth), tmp_path / "t.json", sizes=[8, 1024, 65536])
    found = rows_of(decide(made), [8, 1024, 65536])
    path = tmp_path / "my.rules"
    lines = spelling.rule_lines([row.fields() for row in found], [row.reason("2026-11-26") for row in found])
    path.write_text("\n".join(lines) + "\n")
    rules = rule_files.without_errors(str(path))
    chosen = [candidates.in_force("allreduce", size, ONE_NODE, rules) for size in (8, 1024, 65536, 1 << 20)]
    assert chosen == [["bine"], ["native"], ["pipeline(16KiB, ring)"], ["arrival_tree", "arrival_shares"]]
    assert candidates.in_force("allreduce", 8, Place("MPICH", 4, 1), rules) == ["arrival_tree"]


def test_one_of_the_alternatives_in_force_is_no_change() -> None:
    both = replace(decision(8, "ring"), before="arrival_tree | ring")
    assert not both.changes
    assert replace(both, algorithm="bine").changes
    assert "earlier rule" not in rows_of([both], [8])[0].reason("2026-11-26")


def test_means_of_ratios() -> None:
    assert decisions.mean_ratio([0.5, 2.0, None]) == pytest.approx(1.0)
    assert decisions.mean_ratio([None]) is None


# -- the objective trace:FOLDER


def test_the_cells_of_a_recorded_program(tmp_path: Path) -> None:
    """Rank 1 is late by 30 us, then by 50 us; 8 and 7 bytes are one cell, 4 KiB another one."""
    trace = iterations(
        tmp_path / "trace", 2, 10, lambda rank, call: rank * (30_000 if call < 5 else 50_000),
        size=lambda call: (8, 7, 4096)[call % 3],
    )  # fmt: skip
    found = {cell.size_bytes: cell for cell in recorded.cells_of(trace)}
    assert sorted(found) == [8, 4096]
    assert (found[8].calls, found[4096].calls) == (7, 3)
    assert found[4096].arrivals_us == [[0.0, 30.0], [0.0, 50.0], [0.0, 50.0]]
    by_ranks = recorded.with_patterns(list(found.values()), tmp_path / "arrivals")
    assert list(by_ranks) == [2]
    short, long = by_ranks[2]
    assert (short.size_bytes, long.size_bytes, long.skew) == (8, 4096, "50us")
    rounds = arrival_patterns.rounds(long.pattern, 2, 1)
    assert rounds == [[0.0, 0.6], [0.0, 1.0], [0.0, 1.0]]


def test_the_calls_in_which_ranks_are_most_late_are_left_out(tmp_path: Path) -> None:
    trace = iterations(
        tmp_path / "trace", 2, 40, lambda rank, call: rank * (9_000_000 if call in (0, 7) else 30_000)
    )
    (cell,) = recorded.cells_of(trace)
    assert cell.calls == 40
    assert cell.arrivals_us == 38 * [[0.0, 30.0]]


def test_only_the_cells_of_the_program_are_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = iterations(tmp_path / "trace", 2, 6, lambda rank, call: rank * 30_000, size=lambda call: 64)
    cells = recorded.with_patterns(recorded.cells_of(trace), tmp_path / "arrivals")[2]
    plan = objectives.plan_of(2, cells, Plan(2, [8], ["native"]))
    assert plan.cells == cells
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))).cells == cells
    bench = MadeBench(table({"bine": 5.0}, 10.0))
    goal = course.Goal(f"trace:{trace}", [2])
    made = Course(goal, results.Benchmark(plan, {**ABOUT, "binding": {}}), tmp_path / "t.json")
    tuned(monkeypatch, bench, made.path, course=made)
    assert {cell for job, _ in bench.jobs for cell in job.cells} == set(cells)
    assert [(d.size_bytes, d.algorithm) for d in decide(made)] == [(64, "bine")]


def test_a_trace_without_calls(tmp_path: Path) -> None:
    trace = iterations(tmp_path / "trace", 1, 3, lambda rank, call: 0)
    with pytest.raises(CommandError, match="has no blocking call of a collective that offbeat serves"):
        recorded.cells_of(trace)


def test_final_rounds_are_no_part_of_a_race(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = tuned(monkeypatch, MadeBench(table({"bine": 5.0}, 10.0)), tmp_path / "t.json", sizes=[8])
    (contest,) = made.contests
    assert any(job["round"] == FINAL for job in made.jobs)
    assert "linear" not in made.rows(contest, final=True)[0]
    assert "linear" in made.rows(contest)[0]


def test_records_know_what_was_begun() -> None:
    records = Records()
    records.add(json.dumps({"record": "begin", "what": "check", "collective": "bcast", "size_bytes": 4,
                            "pattern": "", "algorithm": "ring"}))  # fmt: skip
    assert (records.last_begin["what"], records.last_begin["algorithm"]) == ("check", "ring")
