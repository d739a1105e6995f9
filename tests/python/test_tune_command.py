# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune, as a user calls it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import Offbeat
from made_traces import iterations
from made_tuning import MadeBench, install, table
from offbeat.__main__ import main
from offbeat.bench import runner
from offbeat.bench.plan import COLLECTIVES, Job
from offbeat.commands import tune as command
from offbeat.commands.progress_line import ProgressLine
from offbeat.errors import FAILED
from offbeat.mpi.choice import Choice
from offbeat.reports import tune_sheets
from offbeat.rules import rule_files
from offbeat.tune.tuning import Progress

Tune = Callable[..., int]


@pytest.fixture
def bench() -> MadeBench:
    return MadeBench(table({"native": 10.0, "bine": 6.0, "arrival_tree": 8.0}, 20.0))


@pytest.fixture
def tune(bench: MadeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tune:
    """The command in this process, on a made-up bench, with a home and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "OFFBEAT_RULES", "OFFBEAT_NODE_RANKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(runner, "run_job", bench.run_job)
    monkeypatch.setattr(command, "choose", lambda *arguments: Choice(install(), "made up"))
    about = {
        "offbeat": {"version": "1", "library": "/l", "sha256": "0"}, "machine": {"host": "h"},
        "mpi": {"vendor": "Open MPI", "version": "5.0.11", "libmpi": "/l"},
        "binding": {}, "environment": {},
    }  # fmt: skip
    monkeypatch.setattr(runner, "describe_run", lambda plan, choice: json.loads(json.dumps(about)))
    return lambda *arguments: main(["tune", *map(str, arguments)])


def stored_in(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "home" / ".config" / "offbeat" / "rules").glob("*"))


def test_the_summary_and_the_files(tune: Tune, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("allreduce", "--bytes", "8,1KiB", "-n", "4", "--rules", "my.rules", "--budget", "1min") == 0
    said, progress = capsys.readouterr()
    assert "Objective: robust (balanced, ascending, descending, last_delayed, random)" in said
    assert "allreduce on 4 ranks" in said
    assert re.search(r"\.\.2KiB +bine +arrival_tree +\S+ µs .* ▼ 0\.60 +▼ 0\.75", said), said
    assert "2 of 2 choices change: there the last delay is 0.75 of what it was (geometric mean)" in said
    assert re.search(
        r"Measured for 0:\d\d of 1:00; cost in all: \d+ core-seconds. Results: offbeat-tune.json", said
    )
    (rule,) = rule_files.without_errors("my.rules").rules
    assert rule["text"] == "allreduce openmpi 1 4 ..2KiB bine"
    assert re.fullmatch(
        r"tuned \d{4}-\d\d-\d\d on 4 ranks: 0\.60 of native's time, 0\.75 of the earlier rule's "
        r"\(2 sizes, 10 cells\)",
        rule["reason"],
    )
    (path,) = stored_in(tmp_path)
    assert f"Stored: {path}; offbeat run uses these rules from now on" in said
    assert [rule["text"] for rule in rule_files.without_errors(str(path)).rules] == [rule["text"]]
    assert progress == "", "a made-up bench takes no time"


def test_a_second_tuning_compares_with_the_stored_rules(
    tune: Tune, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune("--bytes", "8", "-n", "4") == 0
    capsys.readouterr()
    assert tune("--bytes", "8", "-n", "4", "-o", "second.json") == 0
    assert re.search(r"bine +same", capsys.readouterr().out)


def test_several_ranks_and_collectives(
    tune: Tune, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune("allreduce", "bcast,barrier", "--bytes", "8", "-n", "4,2", "--rules", "my.rules") == 0
    found = [rule["text"].split()[:4] for rule in rule_files.without_errors("my.rules").rules]
    assert found == [[name, "openmpi", "1", n] for n in "24" for name in ("allreduce", "bcast", "barrier")]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "offbeat-tune-n2.json",
        "offbeat-tune-n4.json",
    ]
    assert "bcast on 2 ranks" in capsys.readouterr().out
    assert tune("--resume") == 0


def test_resume_measures_no_cell_twice(
    tune: Tune, bench: MadeBench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune("--bytes", "8", "-n", "4", "--no-store") == 0
    jobs = len(bench.jobs)
    first = capsys.readouterr().out
    assert "allreduce     openmpi  1      4    ..16   bine" in first, "rules that are not stored are printed"
    assert tune("--resume", "--no-store") == 0
    assert len(bench.jobs) == jobs
    assert "allreduce     openmpi  1      4    ..16   bine" in capsys.readouterr().out


def test_a_home_that_cannot_be_written_to(
    tune: Tune, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("a file")
    assert tune("--bytes", "8", "-n", "4") == 0
    said, errors = capsys.readouterr()
    assert "..16   bine" in said
    assert len(errors.splitlines()) == 1
    assert errors.startswith("offbeat: cannot store the rules in ")
    assert errors.endswith("; they are printed above\n")
    assert tune("--bytes", "8", "-n", "4", "--force", "--rules", "my.rules") == 0
    assert capsys.readouterr().err.endswith("; they are in my.rules\n")


def test_wrong_algorithms_are_in_the_summary(
    tune: Tune, bench: MadeBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.wrong = ["ring"]
    assert tune("--bytes", "8", "-n", "4") == 0
    said, errors = capsys.readouterr()
    assert "Not used: allreduce by ring: wrong result: 1 element wrong on rank 0" in said
    assert "offbeat: allreduce by ring is out of the race: wrong result" in errors


def test_a_better_algorithm_of_the_host_is_named(
    tune: Tune, bench: MadeBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.truth = table({"native(ring)": 3.0, "bine": 6.0}, 20.0)
    monkeypatch.setattr("offbeat.tune.candidates.in_rules", lambda vendor, collective, name: "(" not in name)
    assert tune("--bytes", "8", "-n", "4") == 0
    said = capsys.readouterr().out
    assert re.search(
        r"no rule can name it: allreduce 8 B: native\(ring\) at 0\.[45]\d of the rule's time", said
    )


def test_the_objective_trace(
    tune: Tune, bench: MadeBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = iterations(tmp_path / "run.trace", 2, 6, lambda rank, call: rank * 30_000, size=lambda call: 64)
    assert tune("--objective", f"trace:{trace}", "--rules", "my.rules") == 0
    assert {(cell.size_bytes, cell.skew) for job, _ in bench.jobs for cell in job.cells} == {(64, "30us")}
    assert [rule["text"] for rule in rule_files.without_errors("my.rules").rules] == [
        "allreduce openmpi 1 2 ..128 bine"
    ]
    assert f"Objective: trace:{trace}" in capsys.readouterr().out
    assert tune("--resume", "--no-store") == 0


def test_progress_goes_to_a_file_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every 15 seconds."""
    times = iter((100.0, 101.0, 114.0, 116.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    line = ProgressLine()
    for _ in range(4):
        line.show(tune_sheets.progress(Progress(65, 300, 0, "measuring 4 KiB, random arrival", 2, 20, 31)))
    said = (
        "offbeat: 1:05 of 5:00: round 1, 2 ranks: measuring 4 KiB, random arrival; "
        "20 of 31 candidates are in the race"
    )
    assert capsys.readouterr().err.splitlines() == [said, said]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alltoallw"], "unknown collective 'alltoallw'"),
        (["-n", "1"], "-n 1: a rank that is alone has nothing to tune"),
        (["-n", "2,x"], "-n x: not a number of ranks"),
        (["--budget", "soon"], "'soon' is not a duration: write seconds above 0, or a number"),
        (["--budget", "0"], "'0' is not a duration"),
        (["--objective", "fast"], "--objective fast: write robust, balanced or trace:FOLDER"),
        (["--objective", "trace:nowhere"], "nowhere"),
        (["--patterns", "sometimes"], "unknown arrival pattern 'sometimes'"),
        (["--algorithms", "rng"], "unknown algorithm 'rng'"),
        (["--algorithms", "native(rng)"], "Open MPI has no such allreduce"),
        (["--rules", "/nowhere/my.rules"], "there is no folder /nowhere"),
        (["--resume"], "there is no offbeat-tune.json to resume"),
        (["--resume", "--bytes", "8"], "--bytes is part of the plan, which --resume takes from the file"),
    ],
)
def test_bad_input_is_one_line(
    tune: Tune, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert tune(*arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_files_are_not_overwritten(tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    Path("offbeat-tune.json").write_text("mine")
    assert tune("--bytes", "8") == 2
    assert (
        "offbeat-tune.json exists; add --force to overwrite it, or --resume to go on"
        in capsys.readouterr().err
    )
    assert Path("offbeat-tune.json").read_text() == "mine"


def test_all_means_all(tune: Tune, bench: MadeBench) -> None:
    assert tune("all", "--bytes", "8", "--patterns", "balanced", "--no-host-algorithms", "--rules", "r") == 0
    assert {cell.collective for job, _ in bench.jobs for cell in job.cells} == set(COLLECTIVES)
    assert not any(
        "(" in name for job, _ in bench.jobs for name in job.algorithms if name.startswith("native")
    )
    rule_files.without_errors("r")


def test_help_names_the_options(offbeat: Offbeat) -> None:
    said = offbeat("tune", "--help").stdout
    for option in ("--bytes", "--objective", "--budget", "--resume", "--rules", "--mpi", "--mpirun-args"):
        assert option in said


def test_a_budget_that_was_too_short_says_what_is_missing(
    tune: Tune, bench: MadeBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_pattern(job: Job, *arguments: Any, **others: Any) -> None:
        cells = [cell for cell in job.cells if cell.pattern == "balanced"]
        bench.run_job(job._replace(cells=cells), *arguments, **others)

    monkeypatch.setattr(runner, "run_job", one_pattern)
    only = ("--algorithms", "bine", "--patterns", "balanced,last_delayed", "--bytes", "8")
    assert tune(*only, "-n", "4", "--budget", "1min") == FAILED
    error = capsys.readouterr().err
    assert re.search(
        r"the budget of 60 s was too short: \d of \d times were measured, so no algorithm", error
    )
    assert error.endswith("to resume: offbeat tune --resume -o offbeat-tune.json --budget 120s\n")
