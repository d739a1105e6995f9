# SPDX-License-Identifier: BSD-3-Clause
"""Rules `A | B`: calls measure the alternatives, all ranks run the same one, and the fastest is pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trace_file
from harness import INSIDE_OFFBEAT, ON_ONE_MPI, PROGRAMS, Mpi, Result, compile_program, library, number, run
from test_rules import IS_RANK_1
from tracing import tracer

RULES = """\
bcast * * * ..64 binomial | native | arrival_direct
bcast * * * * arrival_direct | native | binomial
allgather * * * ..1KiB arrival_direct | native
allgather * * * * native | arrival_direct
alltoall * * * ..64 native | arrival_direct | pairwise
alltoall * * * * arrival_direct | native
allgatherv * * * * arrival_direct | native
alltoallv * * * * arrival_direct | native
gather * * * * binomial | native | arrival_direct
scatter * * * * native | binomial
barrier * * * * arrival_counter | native | dissemination
allreduce * * * * arrival_tree | recursive_doubling | pipeline(4, recursive_doubling)
"""
PINNED = re.compile(
    r"^offbeat: (\w+) (?:up to|from) .*, ranks: (\d+): (.+) is pinned after (\d+) measured calls \((.+)\)$",
    re.M,
)


def adapting(
    mpi: Mpi, ranks: int, folder: Path, *arguments: str, rules: str = RULES, **settings: str
) -> Result:
    file = folder / "my.rules"
    file.write_text(rules)
    program = compile_program(mpi, PROGRAMS / "adapting.c")
    environment = {"OFFBEAT_RULES": str(file), "OFFBEAT_VERBOSE": "1", **settings}
    return run(mpi, ranks, [program, *arguments], environment=environment, timeout=120).succeeded()


@pytest.mark.parametrize(
    ("ranks", "arguments", "settings"),
    [
        (2, (), {}),
        (3, (), {}),
        (4, ("--requests", "0"), {}),
        (3, ("--select", "1"), {}),
        (2, ("--threads", "3"), {}),
        (2, (), {"OFFBEAT_BOARD_KIB": "0"}),
        (4, (), {"OFFBEAT_NODE_RANKS": "2"}),
        (2, (), {"OFFBEAT_CHECK": "1"}),
    ],
    ids=["2", "3", "blocking", "selected", "threads", "messages", "nodes", "checked"],
)
def test_ranks_never_run_different_alternatives(
    mpi: Mpi,
    ranks: int,
    arguments: tuple[str, ...],
    settings: dict[str, str],
    tmp_path: Path,
    worker_seed: int,
) -> None:
    """The program compares the algorithms and checks every byte; different alternatives would never end."""
    has_few_calls = (
        mpi.slow_when_oversubscribed or "--threads" in arguments or "OFFBEAT_NODE_RANKS" in settings
    )
    calls = "300" if has_few_calls else "2400"
    result = adapting(
        mpi, ranks, tmp_path, "--calls", calls, "--seed", str(worker_seed), *arguments, **settings
    )
    if not has_few_calls:
        assert PINNED.findall(result.stderr), str(result)


@pytest.mark.parametrize("settings", [{}, {"OFFBEAT_NODE_RANKS": "2"}], ids=["node", "nodes"])
def test_communicators_that_come_and_go(
    mpi: Mpi, settings: dict[str, str], tmp_path: Path, worker_seed: int
) -> None:
    """Trials that hardly begin, whose communicator is freed, or whose calls have many lengths."""
    (tmp_path / "my.rules").write_text(RULES)
    program = compile_program(mpi, PROGRAMS / "adapting_anyhow.c")
    rounds = "15" if mpi.slow_when_oversubscribed or settings else "30"
    environment = {"OFFBEAT_RULES": str(tmp_path / "my.rules"), **settings}
    command = [program, "--rounds", rounds, "--seed", str(worker_seed)]
    result = run(mpi, 4, command, environment=environment, timeout=120).succeeded()
    assert number("calls", result) > 150, str(result)


@pytest.fixture
def worker_seed(request: pytest.FixtureRequest) -> int:
    """A number that follows from the seed of the session and the name of the test."""
    seed: int = request.config.getoption("--seed")
    return (seed * 31 + sum(map(ord, request.node.name))) % 1_000_000


@INSIDE_OFFBEAT
def test_ranks_agree_after_failures(mpi: Mpi, tmp_path: Path) -> None:
    """A call that fails counts, too, even if the error handler jumps out of it or frees the communicator."""
    rules = tmp_path / "my.rules"
    rules.write_text("bcast * * * * native | arrival_direct\n")
    faulty = compile_program(
        mpi, PROGRAMS / "libmpi_faulty.c", "-shared", "-fPIC", "-Wl,--no-as-needed", libraries=("-ldl",)
    )
    program = compile_program(mpi, PROGRAMS / "adapting_failures.cpp", libraries=("-ldl",))
    preload = Path(f"{library(mpi.preload)}:{faulty}")
    command = [program, "return", "throw", "free"]
    environment = {"OFFBEAT_RULES": str(rules)}
    result = run(mpi, 3, command, preload=preload, environment=environment, timeout=120).succeeded()
    assert number("failed", result) >= 4, str(result)
    report = result.report_of("bcast")
    assert min(report.served, report.native) >= 15, str(result)


# -- what may be measured


BITS = "allreduce * * * * recursive_doubling | pipeline(2, recursive_doubling) | ring | native\n"


def bits(mpi: Mpi, folder: Path, adapt: str, calls: int = 120) -> Result:
    file = folder / "my.rules"
    file.write_text(BITS)
    program = compile_program(mpi, PROGRAMS / "adapting_bits.c")
    environment = {"OFFBEAT_RULES": str(file), "OFFBEAT_VERBOSE": "1", "OFFBEAT_ADAPT": adapt}
    return run(mpi, 3, [program, str(calls)], environment=environment, timeout=100).succeeded()


@ON_ONE_MPI
def test_equal_bits_in_every_run(mpi: Mpi, tmp_path: Path) -> None:
    results = [bits(mpi, tmp_path, "on") for _ in range(20)]
    assert len({re.search(r"^hash: (\d+)$", each.stdout, re.M)[1] for each in results}) == 1  # type: ignore[index]
    for result in results:
        tried = PINNED.findall(result.stderr)
        assert len(tried) >= 2, str(result)
        for _, _, _, _, times in tried:
            assert re.fullmatch(r"recursive_doubling .*, pipeline\(2, recursive_doubling\) .*", times), times
            assert not re.search("ring|native", times), times


@INSIDE_OFFBEAT
def test_what_each_setting_measures(mpi: Mpi, tmp_path: Path) -> None:
    measured = bits(mpi, tmp_path, "any", calls=200)
    for _, ranks, pinned, calls, times in PINNED.findall(measured.stderr):
        assert (ranks, int(calls) >= 8) == ("3", True)
        assert pinned in times
        assert re.search("ring .*native ", times), times
        assert re.search(r"recursive_doubling \d+\.\d us", times), "times are printed"
    assert len(PINNED.findall(measured.stderr)) >= 2, str(measured)
    first = bits(mpi, tmp_path, "off")
    assert not PINNED.findall(first.stderr)
    assert first.report.served >= first.calls == 96, "the first alternative runs"  # some non-blocking, too


@INSIDE_OFFBEAT
def test_ranks_with_different_settings_go_native(mpi: Mpi, tmp_path: Path) -> None:
    file = tmp_path / "my.rules"
    file.write_text("allreduce * * * * recursive_doubling | pipeline(2, recursive_doubling)\n")
    program = compile_program(mpi, PROGRAMS / "adapting_bits.c")
    script = f"if {IS_RANK_1}; then export OFFBEAT_ADAPT=off; fi; exec {program} 20"
    result = run(
        mpi, 2, ["sh", "-c", script], environment={"OFFBEAT_RULES": str(file)}, timeout=60
    ).succeeded()
    assert result.stderr.count("ranks have different OFFBEAT_ settings") == 1, str(result)
    assert result.report.served == 0, str(result)


@INSIDE_OFFBEAT
def test_a_trace_says_what_each_call_ran(mpi: Mpi, tmp_path: Path) -> None:
    """All ranks ran the same: both alternatives in blocking calls, the first one in persistent calls."""
    file = tmp_path / "my.rules"
    file.write_text(
        "".join(f"{name} * * * * arrival_direct | native\n" for name in ("bcast", "allgather", "alltoall"))
    )
    program = compile_program(mpi, PROGRAMS / "adapting.c")
    environment = {
        "LD_PRELOAD": f"{tracer(mpi)}:{library(mpi.preload)}",
        "OFFBEAT_TRACE": str(tmp_path / "run.trace"),
        "OFFBEAT_RULES": str(file),
    }
    run(mpi, 2, [program, "--calls", "400"], preload=False, environment=environment, timeout=120).succeeded()
    mine, theirs = trace_file.read_all(tmp_path / "run.trace")
    ran = [
        {
            (trace.communicators[call.communicator].identity, call.number): (call.form, call.algorithm)
            for call in trace.calls
        }
        for trace in (mine, theirs)
    ]
    assert ran[0] == ran[1]
    blocking = {algorithm for form, algorithm in ran[0].values() if form == "blocking"}
    assert blocking >= {"native", "arrival_direct"}
    assert {algorithm for form, algorithm in ran[0].values() if form == "persistent"} <= {"arrival_direct"}
