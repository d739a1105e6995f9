# SPDX-License-Identifier: BSD-3-Clause
"""Rules decide which algorithm runs, alike on all ranks; `offbeat explain` knows it without a run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from harness import INSIDE_OFFBEAT, PROGRAMS, Mpi, compile_program, run
from offbeat.__main__ import main
from test_settings import stops

HOSTS = {"openmpi": "openmpi", "mpich": "mpich", "impi": "intel"}
SIZES = (64, 512, 576, 4032, 4096, 16384, 65536, 262144)
LISTED = ("barrier", "alltoallv")  # the length of their calls is 0
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CHOICE = re.compile(
    r"^offbeat: (\w+) (?:of any length|up to (\d+ \w+)|from (\d+ \w+)(?: to (\d+ \w+))?), "
    r"ranks: (\d+): (?!.* is pinned after )(.*) \((.*)\)$",
    re.MULTILINE,
)
NAMES_OF_BOTH = ("bcast", "ibcast", "allgather", "iallgather")
IS_RANK_1 = '[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 1 ]'


def in_bytes(text: str | None, otherwise: float) -> float:
    if not text:
        return otherwise
    number, unit = text.split()
    return int(number) * UNITS[unit]


def said(stderr: str) -> list[tuple[str, float, float, str, str]]:
    """Collective, least and most bytes, expression and reason of each row; results of trials are left out."""
    return [
        (collective, in_bytes(least, 0), in_bytes(up_to or most, float("inf")), expression, reason)
        for collective, up_to, least, most, _, expression, reason in CHOICE.findall(stderr)
    ]


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["explain", *arguments, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


@INSIDE_OFFBEAT
def test_non_blocking_calls_have_rules_of_their_own(
    mpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("ibcast * * * * chain\nbcast * * * * native\niallgather * * * * native\n")
    program = compile_program(mpi, PROGRAMS / "adapting.c")
    settings = {"OFFBEAT_VERBOSE": "1", "OFFBEAT_ADAPT": "off", "OFFBEAT_RULES": str(rules)}
    result = run(mpi, 2, [program], environment=settings, timeout=120).succeeded()
    lines = {name: {line[3] for line in said(result.stderr) if line[0] == name} for name in NAMES_OF_BOTH}
    for name in NAMES_OF_BOTH:
        rows = explained(capsys, name, "--rules", str(rules), "--mpi", HOSTS[mpi.kind])
        assert lines[name] <= {row["expression"] for row in rows}
    assert lines["ibcast"] == {"chain"}
    assert lines["bcast"] == lines["iallgather"] == {"native"}
    assert "native" not in lines["allgather"]
    assert lines["allgather"]


@INSIDE_OFFBEAT
@pytest.mark.in_turn(1, "node_ranks", "mpi")
@pytest.mark.parametrize("node_ranks", [4, 2, 1])
def test_explain_says_what_runs(mpi: Mpi, node_ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    program = compile_program(mpi, PROGRAMS / "collective_sizes.c")
    settings = {"OFFBEAT_VERBOSE": "1", "OFFBEAT_NODE_RANKS": str(node_ranks)}
    result = run(mpi, 4, [program, *map(str, SIZES)], environment=settings, timeout=120).succeeded()
    lines = said(result.stderr)
    collectives = {line[0] for line in lines}
    assert len(collectives) == 12, str(result)
    for collective in sorted(collectives):
        for size in (0,) if collective in LISTED else SIZES:
            cell = ("--mpi", HOSTS[mpi.kind], "--nodes", str(4 // node_ranks), "--ppn", str(node_ranks))
            (row,) = explained(capsys, collective, *cell, "--bytes", str(size))
            found = [line for line in lines if line[0] == collective and line[1] <= size <= line[2]]
            assert len(found) == 1, f"{collective} of {size} B: {found}\n{result}"
            assert found[0][3:] == (row["expression"], row["reason"]), f"{collective} of {size} B\n{result}"


RULES = """\
allreduce * * * ..<1KiB native  # short
allreduce * 1 * ..<32KiB recursive_doubling
allreduce * * * 32KiB.. ring | linear
"""


@INSIDE_OFFBEAT
def test_a_file_of_rules_decides(mpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text(RULES)
    program = compile_program(mpi, PROGRAMS / "collective_sizes.c")
    settings = {"OFFBEAT_VERBOSE": "1", "OFFBEAT_RULES": str(rules)}
    result = run(mpi, 2, [program, "64", "4096", "65536"], environment=settings, timeout=60).succeeded()
    report = result.report_of("allreduce")
    assert (report.served, report.native) == (2, 1), str(result)
    lines = [line for line in said(result.stderr) if line[0] == "allreduce"]
    assert lines == [
        ("allreduce", 0, 1023, "native", f"{rules}:1: short"),
        ("allreduce", 1024, 32767, "recursive_doubling", f"{rules}:2"),
        ("allreduce", 32768, float("inf"), "ring", f"{rules}:3"),
    ], str(result)
    for _, _, most, expression, reason in lines:
        size = int(min(most, 65536))
        (row,) = explained(capsys, "allreduce", "--rules", str(rules), "--bytes", str(size))
        assert (row["expression"], row["reason"]) == (expression, reason)


@INSIDE_OFFBEAT
def test_the_fast_path_of_a_later_row(mpi: Mpi, tmp_path: Path) -> None:
    """Its immediate form runs whatever comes before it."""
    rules = tmp_path / "my.rules"
    rules.write_text("allreduce * * * ..<64 native\nallreduce * 1 * ..4KiB arrival_tree\n* * * * * native\n")
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_RULES": str(rules)}, timeout=60).succeeded()
    assert (result.report.served, result.report.native) == (0, 2), str(result)
    program = compile_program(mpi, PROGRAMS / "collective_sizes.c")
    result = run(mpi, 2, [program, "512"], environment={"OFFBEAT_RULES": str(rules)}, timeout=60).succeeded()
    assert (result.report.served, result.report.native) == (1, 0), str(result)


@INSIDE_OFFBEAT
@pytest.mark.parametrize(("ranks", "name"), [(4, "lanes"), (3, "hierarchy")])
def test_what_runs_is_said_where_nodes_differ_in_size(mpi: Mpi, ranks: int, name: str) -> None:
    program = compile_program(mpi, PROGRAMS / "host_algorithms.c", libraries=("-lpthread", "-ldl"))
    settings = {
        "OFFBEAT_REDUCE": "lanes(arrival_tree, binomial)", "OFFBEAT_NODE_RANKS": "2", "OFFBEAT_VERBOSE": "1",
    }  # fmt: skip
    result = run(mpi, ranks, [program, "0", "reduce", "=chosen"], environment=settings, timeout=60)
    result.succeeded()
    assert f"reduce chosen: ran {name}(arrival_tree, binomial), right" in result.stdout, str(result)
    assert f", ranks: {ranks}: {name}(arrival_tree, binomial) (OFFBEAT_REDUCE" in result.stderr, str(result)


@INSIDE_OFFBEAT
def test_a_setting_comes_before_the_rules(mpi: Mpi, tmp_path: Path) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("* * * * * native\n")
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    settings = {"OFFBEAT_RULES": str(rules)}
    assert run(mpi, 2, [program], environment=settings, timeout=60).succeeded().report.served == 0
    result = run(mpi, 2, [program], allreduce="ring", environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(2, "text", "words", "mpi")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("allreduce * * * * ring\nallreduce * 8..2 * * ring\n", (":2: nodes: '8..2' is an empty range",)),
        ("bcast * * * * rng", (":1: algorithm: column 15: unknown algorithm 'rng'",)),
        ("\x1b[2J * * * * ring", (r":1: collective: '\x1b[2J'",)),
        ("bcast\nbcast", (":1: host: missing", "`offbeat rules check` shows 1 more")),
        ("#" * ((1 << 20) + 1), ("longer than 1 MiB",)),
    ],
)
def test_a_bad_file_ends_the_job_with_one_line(
    mpi: Mpi, tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text(text)
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_RULES": str(rules)}, timeout=60)
    stops(result, "OFFBEAT_RULES: ", str(rules), *words)
    assert result.returncode == 2, str(result)


@INSIDE_OFFBEAT
@pytest.mark.in_turn(1, "what", "mpi")
@pytest.mark.parametrize("what", ["nothing", "a folder", "a fifo"])
def test_what_is_no_file_ends_the_job_with_one_line(mpi: Mpi, tmp_path: Path, what: str) -> None:
    path = tmp_path / "rules"
    if what == "a folder":
        path.mkdir()
    elif what == "a fifo":
        os.mkfifo(path)
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_RULES": str(path)}, timeout=60)
    why = "No such file" if what == "nothing" else "not a regular file"
    stops(result, "OFFBEAT_RULES: ", f"{path}: {why}")
    assert result.returncode == 2, str(result)


@INSIDE_OFFBEAT
def test_ranks_with_different_rules_are_served_by_the_host(mpi: Mpi, tmp_path: Path) -> None:
    """Rank 1 alone would run another algorithm: a deadlock, if each rank went its way."""
    for name, algorithm in (("one", "ring"), ("other", "linear"), ("alike", "ring # why")):
        (tmp_path / name).write_text(f"allreduce * * * * {algorithm}\n")
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    script = f'if {IS_RANK_1}; then export OFFBEAT_RULES="$RULES"; fi; exec "$@"'
    for other, is_served in (("other", False), ("", False), ("alike", True)):
        rules = str(tmp_path / other) if other else ""
        settings = {"OFFBEAT_RULES": str(tmp_path / "one"), "RULES": rules}
        result = run(
            mpi, 3, ["sh", "-c", script, "sh", program], environment=settings, timeout=60
        ).succeeded()
        lines = result.stderr.count("ranks have different rules or machines (OFFBEAT_RULES, OFFBEAT_MACHINE)")
        assert lines == (0 if is_served else 1), str(result)
        assert result.report.served == (result.calls if is_served else 0), str(result)


MACHINE = """\
name = "far"
[core]
combine_ns_per_byte = 0.1
[within_node]
latency_us = 0.1
bandwidth_gb_per_s = 1
[between_nodes]
latency_us = 100
bandwidth_gb_per_s = {bandwidth}
"""


@INSIDE_OFFBEAT
def test_a_grid_takes_its_shape_from_the_machine(
    mpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the ring is slow here, and two small rings have fewer latencies than a large one."""
    rules, machine = tmp_path / "my.rules", tmp_path / "my.toml"
    rules.write_text("allreduce * * * * grid(auto)  # why\n")
    ring = '[[algorithm]]\nexpression = "ring"\nlatency_us = 1\nbandwidth_gb_per_s = 1\n'
    machine.write_text(MACHINE.format(bandwidth=1) + ring)
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    settings = {
        "OFFBEAT_RULES": str(rules),
        "OFFBEAT_MACHINE": str(machine),
        "OFFBEAT_NODE_RANKS": "1",
        "OFFBEAT_VERBOSE": "1",
    }
    result = run(mpi, 4, [program], environment=settings, timeout=60).succeeded()
    assert result.report.served == result.calls, str(result)
    lines = [line for line in said(result.stderr) if line[0] == "allreduce"]
    assert [line[3] for line in lines] == ["grid(2x2, ring)", "ring"], str(result)
    assert lines[0][4] == f"{rules}:1: why; grid(auto) on far", str(result)
    cell = ("--nodes", "4", "--ppn", "1", "--rules", str(rules), "--machine", str(machine))
    rows = explained(capsys, "allreduce", *cell)
    assert [row["expression"] for row in rows] == ["grid(2x2, ring)", "ring"]


@INSIDE_OFFBEAT
def test_a_bad_machine_ends_the_job_with_one_line(mpi: Mpi, tmp_path: Path) -> None:
    machine = tmp_path / "my.toml"
    machine.write_text(MACHINE.format(bandwidth="fast"))
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    result = run(mpi, 2, [program], environment={"OFFBEAT_MACHINE": str(machine)}, timeout=60)
    where = f"{machine}:9: between_nodes.bandwidth_gb_per_s: "
    stops(result, "OFFBEAT_MACHINE: ", where, "'fast' is not a number")
    assert result.returncode == 2, str(result)


@INSIDE_OFFBEAT
def test_ranks_with_different_machines_are_served_by_the_host(mpi: Mpi, tmp_path: Path) -> None:
    for name, bandwidth in (("one", 1), ("other", 2), ("alike", "1.0 # why")):
        (tmp_path / name).write_text(MACHINE.format(bandwidth=bandwidth))
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    script = f'if {IS_RANK_1}; then export OFFBEAT_MACHINE="$MACHINE"; fi; exec "$@"'
    for other, is_served in (("other", False), ("", False), ("alike", True)):
        settings = {
            "OFFBEAT_MACHINE": str(tmp_path / "one"),
            "OFFBEAT_ALLREDUCE": "grid(auto)",
            "MACHINE": str(tmp_path / other) if other else "",
        }
        result = run(
            mpi, 3, ["sh", "-c", script, "sh", program], environment=settings, timeout=60
        ).succeeded()
        lines = result.stderr.count("ranks have different rules or machines")
        assert lines == (0 if is_served else 1), str(result)
        assert result.report.served == (result.calls if is_served else 0), str(result)
