# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench: how the ranks are started and followed, and one real measurement."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Offbeat, benchmark_of, result_of
from offbeat.bench import rank_processes, results, runner
from offbeat.bench.plan import (
    COLLECTIVES,
    Cell,
    Job,
    Plan,
    parse_algorithms,
    parse_collectives,
    parse_sizes,
)
from offbeat.bench.results import Benchmark
from offbeat.bench.runner import rank_arguments
from offbeat.commands.bench import Format
from offbeat.commands.bench import _measure as measure_and_show
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import host_algorithms
from offbeat.mpi.choice import Choice
from offbeat.mpi.install import MpiInstall
from offbeat.mpi.launch import Launch
from offbeat.units import Skew

PLAN = Plan(2, [4, 1024], ["native", "pipeline(4, ring)", "native(ring)"], ["balanced"], budget_s=8.0)
CHOICE = Choice(MpiInstall("Open MPI", "5", "openmpi", Path("l"), Path("m"), Path("p")), "why")
ABOUT = benchmark_of().about


def new_benchmark(plan: Plan = PLAN) -> Benchmark:
    return Benchmark(plan, {**ABOUT, "binding": {}})


def test_what_the_ranks_are_told() -> None:
    files = {name: Path("/f") / name for name in ("output", "arrivals", "cells", "gate")}
    told = rank_arguments(PLAN.jobs("Open MPI")[0], PLAN, files, deadline=12.5, share_cores=True)
    assert told == [
        "--output", "/f/output", "--arrivals", "/f/arrivals", "--cells", "/f/cells", "--gate", "/f/gate",
        "--algorithm", "native", "--algorithm", "pipeline(4, ring)",
        "--deadline", "12.500", "--max-iterations", "1000", "--yield",
    ]  # fmt: skip


def test_ranks_are_told_how_long_to_compute() -> None:
    files = {name: Path("/f") / name for name in ("output", "arrivals", "cells", "gate")}
    plan = replace(PLAN, computing=Skew(factor=1.5))
    told = rank_arguments(plan.jobs("Open MPI")[0], plan, files, deadline=12.5, share_cores=False)
    assert told[-2:] == ["--computing", "1.5 0.0"]
    assert Plan.from_json(plan.to_json()).computing == Skew(factor=1.5)
    plan = replace(plan, asleep=True)
    told = rank_arguments(plan.jobs("Open MPI")[0], plan, files, deadline=12.5, share_cores=False)
    assert told[-3:] == ["--computing", "1.5 0.0", "--asleep"]
    assert Plan.from_json(plan.to_json()).asleep


def test_cells_are_collectives_by_sizes_by_patterns_by_skews() -> None:
    skews = [Skew(factor=1.0), Skew(microseconds=50.0)]
    plan = Plan(2, [4, 8], ["native"], ["balanced", "random"], skews, ["allreduce", "barrier"])
    arrivals = [("balanced", "0us"), ("random", "1x"), ("random", "50us")]
    assert plan.cells == [
        *(Cell("allreduce", size, *arrival) for size in (4, 8) for arrival in arrivals),
        *(Cell("barrier", 0, *arrival) for arrival in arrivals),
    ]


def test_a_named_algorithm_of_the_host_is_a_job_of_its_own() -> None:
    plan = Plan(2, [4], ["native", "ring", "native(ring)"], collectives=["allreduce", "bcast"])
    first, second = plan.jobs("Open MPI")
    assert first == Job(["native", "ring"], plan.cells, {})
    assert second.algorithms == ["native(ring)"]
    assert second.cells == plan.cells[:1], "Open MPI has no ring for bcast"
    assert second.variables["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "4"
    assert plan.jobs("MPICH")[1].variables == {
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring",
        "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "0",
    }
    assert plan.jobs("Intel MPI")[1].variables["I_MPI_ADJUST_ALLREDUCE"] == "8"


def test_segments_are_non_blocking_calls_of_the_host() -> None:
    names = parse_algorithms("pipeline(4,native( ring ))", ["allreduce", "bcast"])
    assert names == ["native", "pipeline(4, native(ring))"]
    plan = Plan(2, [4], names, collectives=["allreduce", "bcast"])
    _, named = plan.jobs("Open MPI")
    assert named.algorithms == ["pipeline(4, native(ring))"]
    assert named.cells == plan.cells[:1], "Open MPI has no ring for ibcast"
    assert named.variables == {"OMPI_MCA_coll_libnbc_iallreduce_algorithm": "1"}
    assert plan.jobs("MPICH")[1].variables == {
        "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": "tsp_ring",
        "MPIR_CVAR_IALLREDUCE_DEVICE_COLLECTIVE": "0",
        "MPIR_CVAR_IBCAST_INTRA_ALGORITHM": "tsp_ring",
        "MPIR_CVAR_IBCAST_DEVICE_COLLECTIVE": "0",
    }
    assert plan.jobs("Intel MPI")[1].variables["I_MPI_ADJUST_IALLREDUCE"] == "4"
    with pytest.raises(CommandError, match="Open MPI has no such iallreduce; it has: ring, binomial"):
        host_algorithms.refuse_unknown_names("Open MPI", ["allreduce"], "pipeline(4, native(linear))")


def test_a_grid_of_the_host_has_one_name_and_blocking_calls() -> None:
    grid = "grid(4x2, native(ring))"
    assert parse_algorithms("grid( 4x2,native(ring) )") == ["native", grid]
    assert host_algorithms.host_call_of(grid, "allreduce", nonblocking=False) == "allreduce"
    plan = Plan(8, [4], ["native", grid], collectives=["allreduce"])
    (_, named) = plan.jobs("Open MPI")
    assert named.variables["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "4"
    for several in ("grid(4x2, native(ring), native(linear))", "grid(4x2, native, native(ring))"):
        with pytest.raises(CommandError, match="one run measures one native"):
            parse_algorithms(several)


def test_a_name_means_the_non_blocking_call_where_that_is_measured() -> None:
    plan = Plan(2, [4], ["native", "native(binomial)"], computing=Skew(factor=1.0))
    assert plan.jobs("Open MPI")[1].variables == {"OMPI_MCA_coll_libnbc_iallreduce_algorithm": "2"}


def test_what_may_be_named() -> None:
    assert parse_algorithms("pipeline(4,ring), native( ring )") == [
        "native", "pipeline(4, ring)", "native(ring)",
    ]  # fmt: skip
    with pytest.raises(CommandError, match="unknown collective 'alltoallw'"):
        parse_collectives("allreduce,alltoallw")
    with pytest.raises(CommandError, match="bcast expression 'ring': column 1: unknown algorithm 'ring'"):
        parse_algorithms("ring", ["bcast"])
    with pytest.raises(CommandError, match=r"gather expression 'arrival_tree': .*mean 'arrival_direct'"):
        parse_algorithms("arrival_tree", ["gather", "bcast"])
    assert parse_algorithms("arrival_tree", ["bcast", "reduce"]) == ["native", "arrival_tree"]
    assert parse_algorithms("dissemination", ["barrier"]) == ["native", "dissemination"]
    assert parse_algorithms("ring,dissemination", ["allreduce", "barrier"]) == [
        "native", "ring", "dissemination",
    ]  # fmt: skip
    with pytest.raises(CommandError, match="barrier expression 'ring'"):
        parse_algorithms("ring", ["barrier"])


@pytest.mark.parametrize("vendor", ["Open MPI", "MPICH", "Intel MPI"])
def test_every_collective_that_is_benchmarked_has_algorithms_of_the_host(vendor: str) -> None:
    without = [
        collective for collective in COLLECTIVES if not host_algorithms.known_names(vendor, collective)
    ]
    # No rule can tell lengths of gatherv and scatterv apart. Intel's reference numbers those of
    # reduce_scatter_block and does not name them.
    unnamed = ["reduce_scatter_block"] if vendor == "Intel MPI" else []
    assert set(without) == {"gatherv", "scatterv", *unnamed}


def test_sizes_are_floats_that_an_mpi_call_can_count() -> None:
    most = ((1 << 31) - 1) * 4
    assert parse_sizes(f"4,{most},4") == [4, most]
    for text in (str(most + 4), "8GiB", "1GiB..64GiB"):
        with pytest.raises(CommandError, match="more than the 2147483647 floats that an MPI call counts"):
            parse_sizes(text)


# -- following a job


def fake_job(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """In place of mpirun: a Python program that has the arguments of the ranks."""

    def build(job: Job, plan: Plan, choice: Choice, files: dict[str, Path], *, deadline: float) -> Launch:
        variables = " ".join(job.variables)
        arguments = [str(files["output"]), str(files["cells"]), " ".join(job.algorithms[:1]), variables]
        return Launch([sys.executable, "-c", f"import sys, time, json\n{script}", *arguments], {})

    monkeypatch.setattr(runner, "job_command", build)


BEGIN = json.dumps(
    {"record": "begin", "what": "check", "collective": "allreduce", "size_bytes": 4, "pattern": ""}
    | {"algorithm": "ring"}
)
# Measures all cells that it is asked for, at 10 µs.
MEASURE = """
first, *rest = ("native", "pipeline(4, ring)") if sys.argv[3] == "native" else ("native(ring)",)
with open(sys.argv[1], "a", buffering=1) as out:
    def write(**record): out.write(json.dumps(record) + "\\n")
    for line in open(sys.argv[2]):
        collective, size, pattern, skew, factor, us, native, *data = line.split()
        stop_at(int(size))
        for algorithm in (first, *rest):
            write(record="result", collective=collective, size_bytes=int(size), pattern=pattern, skew=skew,
                  algorithm=algorithm, status="measured", skew_us=0.0, native_us=float(native) or 10.0,
                  on_time=True, stopped="precision", last_delays_us=[10.0], total_delays_us=[10.0])
    write(record="end")
"""
ALL_IS_WELL = "def stop_at(size): pass\n"


def test_records_are_followed_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_job(
        monkeypatch,
        f"""
file = open(sys.argv[1], "w", buffering=1)
file.write({BEGIN!r} + "\\n")
time.sleep(0.5)
file.write('{{"record": ')
file.flush()
time.sleep(0.5)
file.write('"end"}}\\n')
""",
    )
    seen: list[str] = []
    runner.run(new_benchmark(), CHOICE, on_change=lambda records, deadline: seen.append(records.doing))
    assert "checking ring at 4 B" in seen


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"open(sys.argv[1], 'w').write({BEGIN!r} + '\\n'); sys.exit('segmentation fault')",
         "ended with exit code 1 while checking ring at 4 B: segmentation fault"),
        ("pass", "ended with exit code 0 while starting"),
        ("""open(sys.argv[1], 'w').write('{"record": "error", "message": "two hosts"}\\n')""", "^two hosts$"),
    ],
)  # fmt: skip
def test_a_job_that_fails_says_where(monkeypatch: pytest.MonkeyPatch, script: str, message: str) -> None:
    fake_job(monkeypatch, script)
    with pytest.raises(CommandError, match=message) as caught:
        runner.run(new_benchmark(), CHOICE)
    assert caught.value.exit_code == FAILED


def test_a_job_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_GRACE_AFTER_DEADLINE_S", 0.5)
    fake_job(monkeypatch, f"open(sys.argv[1], 'w').write({BEGIN!r} + '\\n'); time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(CommandError, match=r"nothing happened for .* while checking ring at 4 B"):
        runner.run(new_benchmark(), CHOICE, budget_s=2)
    assert time.monotonic() - began < 30


def test_what_was_measured_before_a_failure_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crash = "def stop_at(size):\n    if size == 1024: sys.exit('crash')\n"
    fake_job(monkeypatch, crash + MEASURE)
    with pytest.raises(CommandError, match="crash"):
        measure_and_show(new_benchmark(), CHOICE, None, 8.0, Format.csv, verbose=False)
    shown = capsys.readouterr()
    assert shown.out.count("allreduce,4,") == 2
    assert "2 of 2 cells are missing: the job did not end in order" in shown.err


# -- going on after an interruption


def test_what_is_finished_is_kept_and_only_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "b.json"
    crash = "def stop_at(size):\n    if size == 1024: sys.exit('crash')\n"
    fake_job(monkeypatch, crash + MEASURE)
    with pytest.raises(CommandError, match="crash"):
        runner.run(new_benchmark(), CHOICE, path=path)
    found = results.read(path)
    assert [(r.cell.size_bytes, r.algorithm) for r in found.results] == [
        (4, "native"), (4, "pipeline(4, ring)"),
    ]  # fmt: skip
    assert not found.to_json()["complete"]
    assert not runner.path_of_partial_records(path).exists()

    once = "def stop_at(size):\n    assert size == 1024 or sys.argv[3] == 'native(ring)'\n"
    fake_job(monkeypatch, once + MEASURE)
    runner.run(found, CHOICE, path=path)
    again = results.read(path)
    assert again.missing() == []
    assert len(again.results) == 6
    assert again.to_json()["complete"]


def test_after_a_kill_the_part_is_joined(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    new_benchmark().write(path)
    lines = tmp_path / "cells"
    lines.write_text("allreduce 4 balanced 0us 0 0 0\n")
    arguments = [str(runner.path_of_partial_records(path)), str(lines), "native"]
    script = f"import sys, json\n{ALL_IS_WELL}{MEASURE}"
    subprocess.run([sys.executable, "-c", script, *arguments], check=True)
    with runner.path_of_partial_records(path).open("a") as file:
        file.write('{"record": "result", "coll')  # cut by the kill
    found = results.read(path)
    runner.add_results_of_killed_run(found, path)
    assert len(found.results) == 2
    assert not runner.path_of_partial_records(path).exists()
    assert len(results.read(path).results) == 2


def test_a_file_of_elsewhere_is_not_resumed() -> None:
    path = Path("b.json")
    runner.refuse_other(ABOUT, ABOUT, path)
    for field, name, value, message in (
        ("machine", "host", "other", "another machine.* host was h, now it is other"),
        ("mpi", "version", "4", "another MPI.* version was 5, now it is 4"),
        ("offbeat", "sha256", "1", "b.json was measured with another build of offbeat"),
        ("environment", "OMPI_MCA_btl", "tcp", "another environment.* OMPI_MCA_btl was unset, now it is tcp"),
    ):
        with pytest.raises(CommandError, match=message):
            runner.refuse_other(ABOUT, {**ABOUT, field: {**ABOUT[field], name: value}}, path)


# -- the file


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    wrong = results.WrongData(3, 1, 7, 5.0, None)
    found = benchmark_of(
        result_of("native", 3.0),
        result_of("ring", status="wrong", wrong_data=wrong),
        result_of("grid(2x2, ring)", status="not served"),
        result_of("binomial", 2.0, computing_us=5.0, waiting_delays_us=[8.0, 9.0, 8.5]),
    )
    path = tmp_path / "b.json"
    found.write(path)
    again = results.read(path)
    assert again.results == found.results
    assert again.to_json() == json.loads(path.read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="trace"), "is not a file of offbeat bench$"),
        (lambda d: d.update(version=2), "has version 2 of the format; this offbeat reads version 1"),
        (lambda d: d.pop("plan"), "is damaged: no 'plan'"),
        (lambda d: d["cells"][0].pop("algorithm"), "is damaged: no 'algorithm'"),
        (lambda d: d["cells"][0].update(last_delays_us=[]), "is damaged: a measured cell has no samples"),
        (lambda d: d["cells"][0].update(computing_us=1.0), "is damaged: a cell of calls that compute has no"),
        (lambda d: d["plan"].update(skews=["soon"]), "'soon' is not a skew"),
        (lambda d: d["plan"].update(computing="soon"), "'soon' is not a skew"),
        (lambda d: d.update(mpi=None), "is damaged"),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = tmp_path / "b.json"
    document = benchmark_of(result_of("native")).to_json()
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CommandError, match=message) as caught:
        results.read(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


# -- real ones


@pytest.mark.with_ranks
def test_measuring_for_real(offbeat: Offbeat, tmp_path: Path) -> None:
    """The embedded Open MPI, two ranks, the real library."""
    output = tmp_path / "out.json"
    arguments = [
        "bench", "-n", "2", "--mpi", "embedded", "--sizes", "4,64KiB", "--algorithms",
        "ring,pipeline(4, ring)",
        "--patterns", "last_delayed,random", "--skew", "50us", "--budget", "20", "--json", output,
    ]  # fmt: skip
    done = offbeat(*arguments)
    assert done.returncode == 0, done.stderr
    assert "last_delayed arrival" in done.stdout
    assert "WRONG" not in done.stdout

    document = json.loads(output.read_text())
    assert document["complete"]
    assert document["mpi"]["vendor"] == "Open MPI"
    assert len(document["binding"]["cpus"]) == 2
    assert (document["hosts"], document["clock_residual_ns"]) == (1, 0)
    found = results.read(output)
    names = {"native", "ring", "pipeline(4, ring)"}
    assert {(r.cell.pattern, r.cell.size_bytes, r.algorithm) for r in found.results} == {
        (pattern, size, name)
        for pattern in ("last_delayed", "random")
        for size in (4, 65536)
        for name in names
    }
    for result in found.results:
        assert result.status == "measured"
        assert result.skew_us == 50.0
        assert 0 < result.last_delay.p10 <= result.last_delay.median <= result.last_delay.p90
        assert result.last_delay.median < result.total_delay.median
        if result.cell.pattern == "last_delayed" and result.on_time:
            assert result.total_delay.median - result.last_delay.median > 45

    same = offbeat("compare", output, output)
    assert (same.returncode, "0 faster, 0 slower, 12 no difference seen" in same.stdout) == (0, True)
    assert offbeat(*arguments).returncode == 2, "the file is not overwritten"
    assert offbeat(*arguments, "--force").returncode == 0


@pytest.mark.with_ranks
@pytest.mark.parametrize("how", [(), ("--asleep",)])
def test_non_blocking_calls_for_real(offbeat: Offbeat, tmp_path: Path, how: tuple[str, ...]) -> None:
    output = tmp_path / "out.json"
    done = offbeat(
        "bench", "-n", "2", "--mpi", "embedded", "--collectives", "allreduce,bcast", "--sizes", "64KiB",
        "--algorithms", "default,pipeline(2, native(binomial))", "--patterns", "balanced",
        "--computing", "1ms", *how, "--budget", "10", "--json", output,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "% hidden" in done.stdout
    found = results.read(output)
    assert found.to_json()["complete"]
    assert {(r.cell.collective, r.algorithm, r.status) for r in found.results} == {
        (collective, algorithm, "measured")
        for collective in ("allreduce", "bcast")
        for algorithm in ("native", "default", "pipeline(2, native(binomial))")
    }
    for result in found.results:
        assert result.computing_us == 1000.0
        assert result.waiting_delay.median > 0
        assert min(result.last_delays_us) < 1000.0, "the computation is subtracted"
        assert result.hidden is not None
        assert 0 <= result.hidden <= 1


@pytest.mark.with_ranks
def test_interrupted_and_resumed_for_real(
    offbeat: Offbeat, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    """SIGTERM in the middle: the exit code, the file, no ranks left; then the rest."""
    path = tmp_path / "b.json"
    command = [
        sys.executable,
        "-m",
        "offbeat",
        "bench",
        "-n",
        "2",
        "--mpi",
        "embedded",
        "--sizes",
        "4,1KiB,4KiB",
    ]
    command += ["--algorithms", "native,native(ring)", "--patterns", "balanced,random", "--budget", "60"]
    with subprocess.Popen(
        [*command, "--json", str(path)],
        env=clean_environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        part = runner.path_of_partial_records(path)
        deadline = time.monotonic() + 60
        while not (part.exists() and part.read_bytes().count(b'"result"') >= 2):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"to continue: offbeat bench --resume {path}" in said
    before = results.read(path)
    assert before.missing()
    assert len(before.results) >= 2
    assert offbeat("bench", "--resume", path, "--sizes", "4").returncode == 2
    assert "another environment" in offbeat("bench", "--resume", path, OMPI_MCA_btl="self,sm").stderr

    done = offbeat("bench", "--resume", path)
    assert done.returncode == 0, done.stderr
    after = results.read(path)
    assert after.missing() == []
    assert after.results[: len(before.results)] == before.results


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "------\nMPI_ABORT was invoked\noffbeat: a warning\noffbeat-bench: too long",
            "offbeat-bench: too long",
        ),
        ("----------\nMPI_ABORT was invoked\noffbeat-bench: too long", "offbeat-bench: too long"),
        ("----------\nmpirun could not start\nanything", "mpirun could not start"),
        ("----------", "----------"),
    ],
)
def test_the_line_of_a_failed_job_that_says_most(text: str, line: str) -> None:
    assert rank_processes.failure_text(text) == line
