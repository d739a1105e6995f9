# SPDX-License-Identifier: BSD-3-Clause
"""Runs predicted from made traces and made delays, against times computed by hand."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import made_benches
import numpy as np
import pytest
from fakes import Offbeat
from made_traces import START_NS, begun
from offbeat import trace
from offbeat.__main__ import main
from offbeat.errors import CommandError
from offbeat.predict import delays, prediction
from offbeat.predict.confirmation import MeasuredRun, confirm
from offbeat.predict.prediction import Prediction, nearest
from offbeat.trace import metrics

RANKS, CALLS, STEP_US = 4, 100, 300
QUICK, STEADY, OWN = "quick", "steady", "native"
# Microseconds: quick is best when nobody is late, steady on average.
DELAYS = {
    ("balanced", QUICK): 10.0, ("balanced", STEADY): 20.0, ("balanced", OWN): 40.0,
    ("last_delayed", QUICK): 100.0, ("last_delayed", STEADY): 20.0, ("last_delayed", OWN): 50.0,
}  # fmt: skip


@pytest.fixture
def offbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offbeat:
    """The command in this process, which loads NumPy once."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return call


def program(
    folder: Path,
    late_us: Callable[[int], int],
    *,
    algorithm: str = OWN,
    delay_us: Callable[[int], int] = lambda call: 40,
    size: Callable[[int], int] = lambda call: 64,
    collective: str = "allreduce",
    ranks: int = RANKS,
    every_call: int = 1,
) -> Path:
    """The last rank is late by ``late_us(call)``; all leave the call ``delay_us(call)`` after it came."""
    files = [begun(rank, ranks, every_call=every_call) for rank in range(ranks)]
    now = START_NS
    for call in range(CALLS):
        now += 1000 * STEP_US
        leave = now + 1000 * (late_us(call) + delay_us(call))
        for rank, made in enumerate(files):
            if not call and algorithm != OWN:
                made.name(3, 2, algorithm)
            arrival = now + 1000 * late_us(call) * (rank == ranks - 1)
            number = 0 if algorithm == OWN else 2
            made.call(call, arrival, leave, size=size(call), collective=collective, algorithm=number)
        now = leave
    for made in files:
        made.write(folder)
    return folder


def bench(
    path: Path,
    medians: Mapping[tuple[str, str], float] = DELAYS,
    *,
    sizes: tuple[int, ...] = (64,),
    skew_us: float = 100.0,
    ranks: int = RANKS,
    collective: str = "allreduce",
    factor: Callable[[int], float] = lambda size: 1.0,
    **values: Any,
) -> Path:
    cells = [
        made_benches.cell(size, pattern, name, factor(size) * us, skew_us=skew_us, collective=collective)
        for size in sizes
        for (pattern, name), us in medians.items()
    ]
    document = made_benches.document(cells=cells)
    document["plan"] |= {"ranks": ranks, "sizes_bytes": list(sizes), "collectives": [collective]}
    path.write_text(json.dumps(document | values))
    return path


def predicted(run: Path, results: Path) -> Prediction:
    calls = metrics.collect(trace.read(run))
    return prediction.predict(calls, delays.read(results, calls.trace.ranks, 1))


def run_s(late_us: Callable[[int], int], delay_us: Callable[[int], float]) -> float:
    return sum(STEP_US + late_us(call) + delay_us(call) for call in range(CALLS)) / 1e6


def test_a_late_program_gets_the_algorithm_that_bears_it(tmp_path: Path) -> None:
    """Every call has a late rank: each algorithm takes what it took under last_delayed."""
    found = predicted(program(tmp_path / "run", lambda call: 120), bench(tmp_path / "bench.json"))
    (each,) = found.collectives
    assert [way.name for way in each.algorithms] == [STEADY, OWN, QUICK]
    for way, delay_us in zip(each.algorithms, (20, 50, 100), strict=True):
        assert way.run_s == pytest.approx(run_s(lambda call: 120, lambda call: 0) + CALLS * delay_us / 1e6)
    assert each.arrivals == {"last_delayed (1x)": CALLS}
    assert (each.best.name, each.by_average.name) == (STEADY, STEADY)
    assert each.by_balanced is not None
    assert each.by_balanced.name == QUICK
    assert each.scores == pytest.approx({QUICK: 3.0, STEADY: 1.5, OWN: (4 + 2.5) / 2})
    assert each.algorithms[0].communicating_s == pytest.approx(CALLS * 20e-6)
    assert found.covered == 1


def test_each_call_has_its_own_arrival(tmp_path: Path) -> None:
    """Every fourth call has a late rank, the others none."""

    def late_us(call: int) -> int:
        return 120 * (call % 4 == 0)

    found = predicted(program(tmp_path / "run", late_us), bench(tmp_path / "bench.json"))
    (each,) = found.collectives
    assert each.arrivals == {"balanced": 75, "last_delayed (1x)": 25}
    times = {way.name: way.run_s for way in each.algorithms}
    assert times[QUICK] == pytest.approx(run_s(late_us, lambda call: 100 if call % 4 == 0 else 10))
    assert times[STEADY] == pytest.approx(run_s(late_us, lambda call: 20))
    assert each.best.name == STEADY


def test_when_the_average_chooses_wrongly_it_says_by_how_much(offbeat: Offbeat, tmp_path: Path) -> None:
    """Nobody is ever late: quick is best, and the average over the patterns chooses steady."""
    program(tmp_path / "run.trace", lambda call: 0)
    bench(tmp_path / "bench.json")
    (each,) = predicted(tmp_path / "run.trace", tmp_path / "bench.json").collectives
    assert (each.best.name, each.by_average.name) == (QUICK, STEADY)
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert (done.returncode, done.stderr) == (0, "")
    best = "Best for this program: quick for allreduce, a run of 31.0 ms "
    assert f"{best}(-8.8% against native as predicted).\n" in done.stdout
    assert (
        "The best average over the patterns chooses steady: 32.0 ms, 3.2% more than the best.\n"
        in done.stdout
    )
    assert "A benchmark in which no rank is late chooses the same.\n" in done.stdout
    assert "Its run is predicted as 34.0 ms and was recorded as 34.0 ms (+0.0%).\n" in done.stdout
    assert "offbeat trace -n 4 --allreduce quick -o confirm.trace -- ./solver -n 7\n" in done.stdout


def test_a_model_that_is_wrong_says_so(offbeat: Offbeat, tmp_path: Path) -> None:
    """In the program native took twice of what was measured."""
    program(tmp_path / "run.trace", lambda call: 0, delay_us=lambda call: 80)
    bench(tmp_path / "bench.json")
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert "predicted as 34.0 ms and was recorded as 38.0 ms (-10.5%)" in done.stdout
    assert (
        "No choice for allreduce is certain: the recorded run is predicted with an error of 10.5%, and the "
        "best one saves only 8.8%.\n" in done.stdout
    )
    assert "Best for this program" not in done.stdout


def test_a_choice_by_doubtful_cells_is_no_headline(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 0)
    document = json.loads(bench(tmp_path / "bench.json").read_text())
    for each in document["cells"]:
        if each["algorithm"] == QUICK:
            each["last_delays_us"] = [1.0, 5.0, 10.0, 30.0, 90.0]
    (tmp_path / "bench.json").write_text(json.dumps(document))
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert "No choice for allreduce is certain: the measured delays of quick vary too much" in done.stdout
    assert "Best for this program" not in done.stdout


def test_if_what_ran_is_best_it_is_kept(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 0)
    bench(tmp_path / "bench.json", {key: us if key[1] == OWN else us + 50 for key, us in DELAYS.items()})
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert "Keep native for allreduce: no run with another algorithm is predicted to be" in done.stdout
    assert "Best for this program" not in done.stdout
    said = offbeat("report", "run.trace", "bench.json").stdout
    assert "no algorithm is better than native for allreduce" in " ".join(said.split())


def test_a_model_that_is_far_off_supports_no_choice(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 0, delay_us=lambda call: 180)
    bench(tmp_path / "bench.json")
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert "recorded as 48.0 ms (-29.2%)" in done.stdout
    doubt = "the recorded run is predicted with an error of 29%"
    assert f"No choice for allreduce is certain: {doubt}.\n" in done.stdout
    assert "Best for this program" not in done.stdout
    said = offbeat("report", "run.trace", "bench.json").stdout
    assert "bench.json supports no choice for allreduce: the recorded run is predicted with" in said
    assert "the run would take" not in said


def test_measured_runs_confirm_or_do_not(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 120, delay_us=lambda call: 50)
    bench(tmp_path / "bench.json")
    program(tmp_path / "good.trace", lambda call: 120, algorithm=STEADY, delay_us=lambda call: 20)
    program(tmp_path / "bad.trace", lambda call: 120, algorithm=STEADY, delay_us=lambda call: 113)
    program(tmp_path / "other.trace", lambda call: 120, algorithm="ring")
    arguments = ("predict", "run.trace", "--from", "bench.json", "--measured")
    said = offbeat(*arguments, "good.trace").stdout
    assert "Confirmed: steady is the best, as predicted; the whole order is as predicted.\n" in said
    said = offbeat(*arguments, "bad.trace").stdout
    assert (
        "Not confirmed: steady was predicted to be the best, but native is: steady took 13% more.\n" in said
    )
    said = offbeat(*arguments, "other.trace").stdout
    assert "the traces show fewer than two algorithms that have a prediction" in said


def test_of_several_runs_the_median_counts(tmp_path: Path) -> None:
    (each,) = predicted(program(tmp_path / "run", lambda call: 0), bench(tmp_path / "b.json")).collectives
    runs = [MeasuredRun(Path(), seconds, {"allreduce": name}) for name, seconds in
            ((QUICK, 3.0), (QUICK, 1.0), (QUICK, 1.2), (OWN, 2.0), ("ring", 9.0))]  # fmt: skip
    found = confirm(each, runs)
    assert found is not None
    assert [(line.name, line.measured_s, line.runs) for line in found.lines] == [
        (QUICK, 1.2, 3), (OWN, 2.0, 1), ("ring", 9.0, 1),
    ]  # fmt: skip
    assert (found.loss, found.same_order, found.lines[2].predicted_s) == (0, True, None)
    assert confirm(each, runs[:3]) is None


@pytest.mark.parametrize(
    ("size", "kind", "expected"),
    [(64, "measured", 10), (160, "between", 25), (1024, "outside", 160), (16, "outside", 10)],
)
def test_sizes_between_and_beside_the_measured_ones(
    tmp_path: Path, size: int, kind: str, expected: int
) -> None:
    """Measured: 64 and 256 bytes, which take 10 and 40 us; up to 4 times more or less is known."""
    results = bench(
        tmp_path / "bench.json",
        {("balanced", QUICK): 10.0, ("balanced", STEADY): 20.0},
        sizes=(64, 256),
        factor=lambda size: 1.0 if size == 64 else 4.0,
    )
    (each,) = predicted(program(tmp_path / "run", lambda c: 0, size=lambda c: size), results).collectives
    assert each.sizes == {"measured": 0, "between": 0, "outside": 0, kind: CALLS}
    assert each.algorithms[0].run_s == pytest.approx(run_s(lambda call: 0, lambda call: expected))


def test_calls_that_nobody_measured_stay_as_recorded(tmp_path: Path) -> None:
    """Half of the calls are 100 times too long."""
    found = predicted(
        program(tmp_path / "run", lambda call: 0, size=lambda call: 64 if call % 2 else 6400),
        bench(tmp_path / "bench.json"),
    )
    (each,) = found.collectives
    assert (each.calls, each.predicted_calls) == (CALLS, CALLS // 2)
    assert found.covered == pytest.approx(0.5)
    assert each.algorithms[0].run_s == pytest.approx(
        run_s(lambda call: 0, lambda call: 10 if call % 2 else 40)
    )


def test_the_choice_size_by_size(offbeat: Offbeat, tmp_path: Path) -> None:
    """Quick is best at 64 bytes, steady at 4 KiB: no single one is best."""
    program(tmp_path / "run.trace", lambda call: 0, size=lambda call: 64 if call % 2 else 4096)
    cells = [
        made_benches.cell(size, "balanced", name, us)
        for (size, name), us in {
            (64, QUICK): 10.0, (64, STEADY): 20.0, (4096, QUICK): 90.0, (4096, STEADY): 60.0,
        }.items()
    ]  # fmt: skip
    bench(tmp_path / "bench.json", cells=cells)
    (each,) = predicted(tmp_path / "run.trace", tmp_path / "bench.json").collectives
    assert [size.best for size in each.by_size] == [QUICK, STEADY]
    assert each.best.run_s == pytest.approx(run_s(lambda call: 0, lambda call: 10 if call % 2 else 60))
    assert each.best.run_s < each.algorithms[0].run_s
    said = offbeat("predict", "run.trace", "--from", "bench.json").stdout
    assert "Best for this program: quick to 64 B, steady from 4 KiB for allreduce" in said


def test_blocks_are_counted_as_the_benchmark_counts_them(tmp_path: Path) -> None:
    """The size of an alltoall is that of all blocks in a trace, and that of one in a benchmark."""
    path = program(tmp_path / "run", lambda call: 0, size=lambda call: 256, collective="alltoall")
    (each,) = predicted(path, bench(tmp_path / "bench.json", collective="alltoall")).collectives
    assert each.sizes["measured"] == CALLS


def test_the_nearest_arrival() -> None:
    """Rank 3 late, all one after the other, another one each time, and nobody; two skews."""
    curve = delays.Curve.of({64: 100.0})
    long = delays.Curve.of({64: 1000.0})
    last, steps = np.array([0.0, 0, 0, 1]), np.array([0, 1 / 3, 2 / 3, 1])
    arrivals = [
        delays.Arrival("balanced", "0us", None, False, delays.Curve.of({64: 0.0}), {}),
        delays.Arrival("last_delayed", "100us", last, False, curve, {}),
        delays.Arrival("last_delayed", "1000us", last, False, long, {}),
        delays.Arrival("ascending", "100us", steps, False, curve, {}),
        delays.Arrival("bimodal(1)", "100us", last, True, curve, {}),
    ]
    late = np.array([[5, 0, 3, 49], [0, 0, 3, 51], [2, 0, 0, 400], [0, 40, 70, 100], [0, 90, 0, 0]])
    found = nearest(late.astype(np.float64), np.full(5, 64), arrivals)
    assert [str(arrivals[number]) for number in found] == [
        "balanced", "last_delayed (100us)", "last_delayed (1000us)", "ascending (100us)",
        "bimodal(1) (100us)",
    ]  # fmt: skip


def test_a_pattern_that_is_a_file_is_in_the_results(tmp_path: Path) -> None:
    """The pattern was recorded from the program; its file is gone."""
    medians = {("balanced", QUICK): 10.0, ("./skew.txt", QUICK): 33.0}
    results = bench(
        tmp_path / "bench.json", medians, patterns={"./skew.txt": {"summary": "", "mean": [0, 0, 0, 1]}}
    )
    (each,) = predicted(program(tmp_path / "run", lambda call: 120), results).collectives
    assert each.arrivals == {"./skew.txt (1x)": CALLS}
    nothing = bench(tmp_path / "nothing.json", medians)
    with pytest.raises(CommandError, match=r"does not say who is late under its pattern \./skew\.txt"):
        predicted(tmp_path / "run", nothing)


def test_what_is_not_measured_everywhere_is_left_out_and_said(tmp_path: Path) -> None:
    """Steady misses a pattern; at 256 bytes only one pattern was reached."""
    cells = [
        made_benches.cell(64, "balanced", QUICK, 10.0), made_benches.cell(64, "balanced", STEADY, 1.0),
        made_benches.cell(64, "random", QUICK, 10.0), made_benches.cell(256, "balanced", QUICK, 9.0),
    ]  # fmt: skip
    found = predicted(program(tmp_path / "run", lambda c: 0), bench(tmp_path / "bench.json", cells=cells))
    assert [way.name for way in found.collectives[0].algorithms] == [QUICK]
    assert found.notes[0] == "allreduce: not used, because some patterns lack a result: 256 B, steady"


def test_a_benchmark_of_a_busy_machine_is_said(tmp_path: Path) -> None:
    cells = [made_benches.cell(64, "balanced", name, 9.0, on_time=name != QUICK) for name in (QUICK, STEADY)]
    found = predicted(program(tmp_path / "run", lambda c: 0), bench(tmp_path / "bench.json", cells=cells))
    assert found.notes[0].startswith(
        f"in 1 of 2 results of {tmp_path / 'bench.json'} the ranks rarely arrived"
    )


def test_sampled_calls_count_as_often_as_they_stand_for(tmp_path: Path) -> None:
    results = bench(tmp_path / "bench.json")
    whole = predicted(program(tmp_path / "a", lambda call: 0), results).collectives[0]
    some = predicted(program(tmp_path / "b", lambda call: 0, every_call=5), results)
    saved = run_s(lambda call: 0, lambda call: 40) - whole.best.run_s
    assert some.recorded_s - some.collectives[0].best.run_s == pytest.approx(5 * saved)
    assert any(note.startswith("one in 5 calls is recorded") for note in some.notes)


def test_delays_from_a_simulation(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 120, size=lambda call: 1024)
    plan = ["--machine", "ethernet", "--nodes", "2,4", "--ppn", "1", "--sizes", "1KiB"]
    plan += ["--algorithms", "ring,recursive_doubling,linear", "--patterns", "balanced,last_delayed,random"]
    assert offbeat("simulate", *plan, "--json", "simulated.json").returncode == 0
    simulated = json.loads((tmp_path / "simulated.json").read_text())
    told = {
        each["algorithm"]: each["last_delay_us"]
        for each in simulated["results"]
        if (each["nodes"], each["pattern"]) == (4, "last_delayed")
    }
    done = offbeat("predict", "run.trace", "--from", "simulated.json", "--json")
    found = json.loads(done.stdout)["collectives"][0]
    assert found["arrivals"] == {"last_delayed (1x)": CALLS}
    for way in found["algorithms"]:
        delay_us = told[way["algorithm"]]
        assert way["run_s"] == pytest.approx(run_s(lambda call: 120, lambda call: 0) + CALLS * delay_us / 1e6)
    assert found["best"]["algorithm"] == min(told, key=told.__getitem__)


def test_algorithms_that_make_no_difference(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 0)
    bench(tmp_path / "bench.json", {("balanced", QUICK): 1.0, ("balanced", STEADY): 1.5})
    said = offbeat("predict", "run.trace", "--from", "bench.json").stdout
    assert "It does not matter which algorithm allreduce uses: the runs differ by at most 0.2%.\n" in said
    assert "offbeat trace" not in said


def test_the_report_says_what_a_benchmark_would_bring(offbeat: Offbeat, tmp_path: Path) -> None:
    program(tmp_path / "run.trace", lambda call: 0)
    bench(tmp_path / "bench.json")
    done = offbeat("report", "run.trace", "bench.json")
    assert (
        "By bench.json, the run would take 31.0 ms (-8.8% against native as predicted) "
        "with quick for allreduce"
    ) in done.stdout
    bench(tmp_path / "many.json", ranks=64)
    done = offbeat("report", "run.trace", "many.json")
    assert "No prediction: many.json has 64 ranks, the trace has 4: offbeat bench -n 4.\n" in done.stdout


def computing(path: Path) -> None:
    bench(path)
    document = json.loads(path.read_text())
    document["plan"]["computing"] = "1x"
    path.write_text(json.dumps(document))


def simulated(path: Path, **values: Any) -> None:
    document = {"format": "offbeat simulate", "version": 1, "collective": "allreduce", "seed": 1,
                "machine": {"name": "m"}, "results": []}  # fmt: skip
    path.write_text(json.dumps(document | values))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "cannot read results.json: No such file"),
        (lambda path: path.mkdir(), "cannot read results.json: Is a directory"),
        (lambda path: path.write_text("{"), "is not a file of offbeat bench or simulate: it is not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe{"), "is not a file of offbeat bench or simulate"),
        (lambda path: path.write_text("[]"), "is not a file of offbeat bench --json"),
        (lambda path: path.write_text('{"format": "other"}'), "is not a file of offbeat bench --json"),
        (lambda path: path.write_text('{"format": "offbeat bench", "version": 1}'), "is damaged"),
        (lambda path: path.write_text('{"format": "offbeat bench", "version": 9}'), "has version 9"),
        (lambda path: bench(path, machine=7), "is damaged"),
        (lambda path: bench(path, cells=[]), "has no measured result"),
        (lambda path: bench(path, ranks=8), "has 8 ranks, the trace has 4: offbeat bench -n 4"),
        (lambda path: bench(path, sizes=(1 << 20,)), "no blocking allreduce on 4 ranks at sizes near those"),
        (lambda path: bench(path, collective="bcast"), "no blocking bcast on 4 ranks"),
        (lambda path: bench(path, skew_us=float("nan")), "is damaged"),
        (computing, "has non-blocking calls"),
        (simulated, "has no simulation of 4 ranks, as in the trace; it has: nothing"),
        (lambda path: simulated(path, version=9), "has version 9 of the format"),
        (lambda path: simulated(path, results=[{"nodes": 4}]), "is damaged"),
        (lambda path: simulated(path, results=7), "is damaged"),
    ],
)
def test_results_that_do_not_fit_are_refused_in_one_line(
    offbeat: Offbeat, tmp_path: Path, write: Callable[[Path], object], message: str
) -> None:
    program(tmp_path / "run.trace", lambda call: 0)
    write(tmp_path / "results.json")
    done = offbeat("predict", "run.trace", "--from", "results.json")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("offbeat: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_traces_that_do_not_fit_are_refused_in_one_line(offbeat: Offbeat, tmp_path: Path) -> None:
    bench(tmp_path / "bench.json")
    program(tmp_path / "run.trace", lambda call: 0)
    program(tmp_path / "two.trace", lambda call: 0, ranks=2)
    for rank in range(RANKS):
        made = begun(rank, RANKS, flags=3 if rank == 1 else 1)
        made.call(0, START_NS, START_NS + 9)
        made.write(tmp_path / "some.trace")
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "rank-000000.trace").write_bytes(b"OFFBEAT\n")
    for arguments, message in (
        (("nowhere",), "nowhere: no such trace"),
        (("empty",), "there is no rank-*.trace in it"),
        (("damaged",), "it is cut off: its header has 8 of 4096 bytes"),
        (("two.trace",), "bench.json has 4 ranks, the trace has 2"),
        (("some.trace",), "some.trace has the calls of 3 of 4 ranks: a prediction needs all of them"),
        (("run.trace", "--measured", "two.trace"), "two.trace has 2 ranks, run.trace has 4"),
        (("run.trace", "--measured", "nowhere"), "nowhere: no such trace"),
    ):
        done = offbeat("predict", *arguments, "--from", "bench.json")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert "Missing option '--from'" in offbeat("predict", "run.trace").stderr


def test_a_rank_that_was_killed_is_said(offbeat: Offbeat, tmp_path: Path) -> None:
    """Its calls are predicted up to there."""
    bench(tmp_path / "bench.json")
    path = program(tmp_path / "run.trace", lambda call: 0) / "rank-000002.trace"
    path.write_bytes(path.read_bytes()[: -64 * 40])
    done = offbeat("predict", "run.trace", "--from", "bench.json")
    assert done.returncode == 0
    assert "note: rank-000002.trace is cut off: 40 of its" in done.stdout
    assert "60 of 60 calls are predicted" in done.stdout
