# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench: how the ranks are started and followed, and one real measurement."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import Offbeat
from offbeat import bench
from offbeat.bench import Cell, Plan, rank_arguments
from offbeat.choice import Choice
from offbeat.errors import CommandError
from offbeat.launch import Launch
from offbeat.mpi import MpiInstall
from offbeat.records import Records
from offbeat.units import Skew

PLAN = Plan(2, [4, 1024], ["native", "pipeline(4, ring)"], ["balanced", "random"], [Skew(factor=1.5)], 8.0, 1)
CHOICE = Choice(MpiInstall("Open MPI", "5", "openmpi", Path("l"), Path("m"), Path("p")), "why")


def test_what_the_ranks_are_told() -> None:
    assert rank_arguments(PLAN, Path("/f"), deadline=12.5, share_cores=True) == [
        "--output", "/f/output", "--arrivals", "/f/arrivals", "--cells", "/f/cells", "--gate", "/f/gate",
        "--algorithm", "native", "--algorithm", "pipeline(4, ring)",
        "--deadline", "12.500", "--max-iterations", "1000", "--yield",
    ]  # fmt: skip


def test_cells_are_sizes_by_patterns_by_skews() -> None:
    plan = replace(PLAN, skews=[Skew(factor=1.0), Skew(microseconds=50.0)])
    assert plan.cells == [
        Cell(size, pattern, skew)
        for size in (4, 1024)
        for pattern, skew in (
            ("balanced", Skew(microseconds=0.0)),
            ("random", Skew(factor=1.0)),
            ("random", Skew(microseconds=50.0)),
        )
    ]


def job(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """In place of mpirun: a Python program that gets the file to write as its argument."""

    def build(plan: Plan, choice: Choice, folder: Path) -> Launch:
        return Launch([sys.executable, "-c", f"import sys, time\n{script}", str(folder / "output")], {})

    monkeypatch.setattr(bench, "build", build)


BEGIN = '{"record": "begin", "what": "check", "size_bytes": 4, "pattern": "", "algorithm": "ring"}\\n'


def test_records_are_followed_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    job(
        monkeypatch,
        f"""
file = open(sys.argv[1], "w", buffering=1)
file.write('{BEGIN}')
time.sleep(0.5)
file.write('{{"record": ')
file.flush()
time.sleep(0.5)
file.write('"end"}}\\n')
""",
    )
    seen: list[str] = []
    records = bench.run(PLAN, CHOICE, lambda records: seen.append(records.doing))
    assert records.ended
    assert seen[0] == "checking ring at 4 B"
    assert len(seen) >= 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"open(sys.argv[1], 'w').write('{BEGIN}'); sys.exit('segmentation fault')",
         "ended with exit code 1 while checking ring at 4 B: segmentation fault"),
        ("pass", "ended with exit code 0 while starting"),
        ("""open(sys.argv[1], 'w').write('{"record": "error", "message": "two hosts"}\\n')""", "^two hosts$"),
    ],
)  # fmt: skip
def test_a_job_that_fails_says_where(monkeypatch: pytest.MonkeyPatch, script: str, message: str) -> None:
    job(monkeypatch, script)
    with pytest.raises(CommandError, match=message) as caught:
        bench.run(PLAN, CHOICE, lambda records: None)
    assert caught.value.exit_code == 1


def test_a_job_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_LEAST_PATIENCE_S", 0.5)
    job(monkeypatch, f"open(sys.argv[1], 'w').write('{BEGIN}'); time.sleep(60)")
    plan = Plan(2, [4], ["native"], ["balanced"], [Skew(factor=1.0)], 0.01, 1)
    with pytest.raises(CommandError, match=r"nothing happened for .* while checking ring at 4 B: a deadlock"):
        bench.run(plan, CHOICE, lambda records: None)


def test_measuring_for_real(offbeat: Offbeat, tmp_path: Path) -> None:
    """The embedded Open MPI, two ranks, the real library."""
    output = tmp_path / "out.json"
    arguments = [
        "bench", "-n", "2", "--mpi", "embedded", "--sizes", "4,64KiB", "--algorithms",
        "ring,pipeline(4, ring)",
        "--patterns", "last_delayed,random", "--skew", "50us", "--budget", "2", "--json", output,
    ]  # fmt: skip
    done = offbeat(*arguments)
    assert done.returncode == 0, done.stderr
    assert "last_delayed arrival" in done.stdout
    assert "WRONG" not in done.stdout

    document = json.loads(output.read_text())
    assert document["plan"]["skew_us"] == 50.0
    assert document["mpi"]["vendor"] == "Open MPI"
    records = Records()
    for line in document["records"]:
        records.add(json.dumps(line))
    names = {"native", "ring", "pipeline(4, ring)"}
    served = {(c.size_bytes, c.algorithm): c.served for c in records.checks}
    assert served == {(size, name): name != "native" for size in (4, 65536) for name in names}
    measured = {(r.pattern, r.size_bytes, r.algorithm) for r in records.results}
    patterns = ("last_delayed", "random")
    assert measured == {(p, size, name) for p in patterns for size in (4, 65536) for name in names}
    for result in records.results:
        assert result.skew_us == 50.0
        assert 0 < result.last_delay.p10 <= result.last_delay.median <= result.last_delay.p90
        assert result.last_delay.median < result.total_delay.median
        if result.pattern == "last_delayed" and result.on_time:
            assert result.total_delay.median - result.last_delay.median > 45

    assert offbeat(*arguments).returncode == 2, "the file is not overwritten"
    assert offbeat(*arguments, "--force").returncode == 0
