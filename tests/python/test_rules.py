# SPDX-License-Identifier: BSD-3-Clause
"""offbeat rules and offbeat explain, as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import Offbeat
from offbeat import _core
from offbeat.rules import rule_files, spelling
from offbeat.rules.difference import Difference, Span, differences

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "my.rules"


def difference(path: Path, text: str) -> list[Difference]:
    path.write_text(text)
    return differences(None, rule_files.without_errors(str(path)))


def test_check_shows_all_errors(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("allreduce * * * * ring\n\nallreduce itel 0 * * rng\nbcast\n")
    done = offbeat("rules", "check", str(rules))
    assert (done.returncode, done.stdout) == (2, "")
    errors = done.stderr.splitlines()
    found = [re.match(rf"{rules}:(\d+): (\w+): .", line) for line in errors]
    assert [match and match.groups() for match in found] == [
        ("3", "host"), ("3", "nodes"), ("3", "algorithm"), ("4", "host"),
    ]  # fmt: skip


def test_non_blocking_calls_alone(offbeat: Offbeat, rules: Path) -> None:
    found = difference(rules, "ibcast * 1 * * native\n")
    assert {each.calls for each in found} == {"ibcast"}
    rows = [
        json.loads(offbeat("explain", calls, "--rules", str(rules), "--json").stdout)["rows"]
        for calls in ("bcast", "ibcast")
    ]
    assert [row["expression"] for row in rows[0]] != ["native"]
    assert [row["expression"] for row in rows[1]] == ["native"]
    done = offbeat("explain", "ibarier")
    assert done.returncode == 2
    assert "barier" in done.stderr


def test_check_of_a_right_file(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("* * * * * native  # a rule for each collective\nallreduce * 1 * ..4KiB ring\n")
    done = offbeat("rules", "check", str(rules))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{rules}: 2 rules, no error\n", "")


NEVER = (
    "{file}:2: {name} is never tried after {first}: it may combine in another order "
    "(OFFBEAT_ADAPT=any allows it)"
)


def test_alternatives_that_no_call_tries_are_named(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text(
        "bcast * * * * native | binomial\n"
        "allreduce * * * * native | arrival_tree | ring\n"
        "reduce * * * * linear\n"
    )
    lines = [NEVER.format(file=rules, name=name, first="native") for name in ("arrival_tree", "ring")]
    done = offbeat("rules", "check", str(rules))
    assert (done.returncode, done.stderr.splitlines()) == (0, lines)
    assert json.loads(offbeat("rules", "check", str(rules), "--json").stdout)["warnings"] == lines
    assert offbeat("rules", "check", str(rules), OFFBEAT_ADAPT="any").stderr == ""


def test_explain_tries_what_calls_try(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("\nallreduce * * * * native | arrival_tree\n")
    arguments = ("allreduce", "--mpi", "mpich", "--bytes", "8", "--rules", str(rules))
    line = NEVER.format(file=rules, name="arrival_tree", first="native")
    found = explained(offbeat, *arguments)
    assert (found["rows"][0]["alternatives"], found["warnings"]) == (["native"], [line])
    assert offbeat("explain", *arguments).stdout.endswith(f"Rules: {rules}; then the built-in ones\n{line}\n")
    found = explained(offbeat, *arguments, OFFBEAT_ADAPT="any")
    assert (found["rows"][0]["alternatives"], found["warnings"]) == (["native", "arrival_tree"], [])
    rules.write_text("bcast * * * * native | binomial\n")
    bcast = ("bcast", *arguments[1:])
    for adapt, names in (("on", ["native", "binomial"]), ("off", ["native"])):
        assert explained(offbeat, *bcast, OFFBEAT_ADAPT=adapt)["rows"][0]["alternatives"] == names
    done = offbeat("explain", *bcast, OFFBEAT_ADAPT="maybe")
    assert (done.returncode, done.stderr) == (
        2,
        "offbeat: OFFBEAT_ADAPT='maybe': it must be off, on or any\n",
    )


def test_names_that_no_mpi_has_are_shown(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text(
        "allreduce mpich * * * native(recursive_doubling)\n"
        "allreduce * * * * native | native(rign)\n"
        "ibcast mpich * * * native(tree)\n"
        "bcast openmpi * * * pipeline(4, native(no_such))\n"
        "* openmpi * * * native(ring)\n"
        "allreduce other * * * native(ring)\n"
    )
    done = offbeat("rules", "check", str(rules), OFFBEAT_ADAPT="any")
    never = "never runs: no MPI that the rule is for has such an algorithm (`offbeat info --all` lists them)"
    assert (done.returncode, done.stderr.splitlines()) == (
        0,
        [f"{rules}:{n}: native({name}) {never}" for n, name in ((2, "rign"), (4, "no_such"), (6, "ring"))],
    )


def test_what_a_terminal_would_obey_in_a_rule_is_escaped(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("all\u202ereduce * * * * ring\n", encoding="utf-8")
    done = offbeat("rules", "check", str(rules))
    assert done.stderr.startswith(
        rf"{rules}:1: collective: 'all\xe2\x80\xaereduce' (did you mean 'allreduce'?); expected"
    )


@pytest.mark.parametrize("arguments", [("check",), ("show", "--rules"), ("diff", "built-in")])
def test_a_file_that_cannot_be_read(offbeat: Offbeat, rules: Path, arguments: tuple[str, ...]) -> None:
    for path, why in ((rules, "No such file or directory"), (rules.parent, "not a regular file")):
        done = offbeat("rules", *arguments, str(path))
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"offbeat: {path}: {why}\n")


@pytest.mark.parametrize("arguments", [("rules", "show", "--rules"), ("explain", "bcast", "--rules")])
def test_a_file_with_errors(offbeat: Offbeat, rules: Path, arguments: tuple[str, ...]) -> None:
    rules.write_bytes(b"\xff\x1b * * * * ring\nbcast\n")
    done = offbeat(*arguments, str(rules))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(rf"offbeat: {rules}:1: collective: '\xff\x1b'; expected a collective")
    assert done.stderr.endswith("; `offbeat rules check` shows 1 more\n")


def test_show_prints_what_can_be_read_again(offbeat: Offbeat, rules: Path) -> None:
    shown = offbeat("rules", "show").stdout
    rules.write_text(shown)
    again = rule_files.without_errors(str(rules)).rules
    assert [(rule["text"], rule["reason"]) for rule in again] == [
        (rule["text"], rule["reason"]) for rule in _core.built_in_rules().rules
    ]


def test_show_has_the_users_rules_first(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("bcast intel 2..8 * ..4KiB native # why\nbcast mpich * * * binomial\n")
    done = offbeat("rules", "show", "--collective", "bcast", "--mpi", "intel", OFFBEAT_RULES=str(rules))
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "bcast intel 2..8 * ..4KiB native # why"
    assert lines[1].startswith("bcast * 1 2.. ..<16KiB arrival_direct # ")
    assert not any("mpich" in line or "allreduce" in line for line in lines)


def test_the_built_in_rules_say_why() -> None:
    assert all(rule["reason"] for rule in _core.built_in_rules().rules)
    assert _core.built_in_rules().errors == []
    assert rule_files.without_errors(str(ROOT / "src" / "selection" / "rules.txt"))


def test_diff_has_the_calls_that_change(rules: Path) -> None:
    assert difference(rules, "") == []
    assert difference(rules, "barrier * 1 2.. * arrival_counter") == []
    (found,) = difference(rules, "barrier mpich 1 2.. * dissemination # why not")
    assert (found.calls, found.hosts, found.nodes) == ("barrier", ("mpich",), Span(1, 1))
    assert (found.ppn, found.choice.bytes) == (Span(2, None), Span(0, None))
    assert (found.choice.first, found.choice.second) == ("arrival_counter", "dissemination")
    (found,) = difference(rules, "allreduce * 3..5 1 1KiB..2047 linear")
    assert (found.hosts, found.nodes, found.ppn) == (tuple(_core.hosts()), Span(3, 5), Span(1, 1))
    assert (found.choice.bytes, found.choice.first) == (Span(1024, 2047), "recursive_multiplying(7)")


def test_diff_sees_another_alternative(rules: Path) -> None:
    (found,) = difference(rules, "barrier * 1 2.. * arrival_counter | native")
    assert (found.choice.first, found.choice.second) == ("arrival_counter", "arrival_counter | native")


def test_diff_as_a_command(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("barrier * 1 2.. * dissemination\n")
    done = offbeat("rules", "diff", "built-in", str(rules))
    assert done.returncode == 1
    assert re.search(r"^ *barrier +\* +1 +2\.\. +\* +arrival_counter +dissemination *$", done.stdout, re.M)
    same = offbeat("rules", "diff", str(rules), str(rules))
    assert (same.returncode, same.stdout) == (0, f"{rules} and {rules} choose the same everywhere\n")


def explained(offbeat: Offbeat, *arguments: str, **variables: str) -> dict[str, Any]:
    done = offbeat("explain", *arguments, "--json", **variables)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_explain_prints_the_row(offbeat: Offbeat) -> None:
    found = explained(
        offbeat, "allreduce", "--mpi", "mpich", "--nodes", "8", "--ppn", "64", "--bytes", "16KiB"
    )
    (row,) = found["rows"]
    assert (row["expression"], row["form"]) == ("hierarchy(arrival_tree, arrival_owners)", "task")
    assert (row["least_bytes"], row["most_bytes"], row["needs"]) == (16384, None, "board, messages")
    origin = re.fullmatch(r"built-in rules, line (\d+)", row["origin"])
    assert origin, row
    line = int(origin[1])
    text = (ROOT / "src" / "selection" / "rules.txt").read_text().splitlines()[line - 1]
    assert "arrival_owners" in text
    assert text.endswith(f"# {row['reason']}")


def test_explain_of_all_lengths(offbeat: Offbeat) -> None:
    rows = explained(offbeat, "allreduce", "--ppn", "4")["rows"]
    assert [(row["expression"], row["form"], row["needs"]) for row in rows] == [
        ("arrival_tree", "immediate", "board"),
        ("arrival_tree", "task", "board"),
        ("arrival_tree", "task", "board"),
    ]
    assert [row["alternatives"] for row in rows] == [
        ["arrival_tree"],
        ["arrival_tree"],
        ["arrival_tree", "arrival_shares"],
    ]
    done = offbeat("explain", "allreduce", "--ppn", "4")
    assert re.search(r"^ *\.\.2KiB +arrival_tree +immediate +board +one node", done.stdout, re.M), done.stdout
    assert explained(offbeat, "allreduce", "--ppn", "4", "--no-board")["rows"][0]["needs"] == "messages"


@pytest.mark.parametrize("collective", ["gatherv", "scatterv", "alltoallv"])
def test_explain_has_one_row_for_calls_whose_length_no_rank_knows(offbeat: Offbeat, collective: str) -> None:
    (row,) = explained(offbeat, collective, "-n", "4")["rows"]
    assert (row["least_bytes"], row["most_bytes"]) == (0, None), row
    assert (row["alternatives"][0], row["form"]) == ("arrival_direct", "immediate")
    assert explained(offbeat, collective, "64KiB", "-n", "4")["rows"] == [row]


def test_explain_knows_the_settings(offbeat: Offbeat, rules: Path) -> None:
    rules.write_text("bcast * * * * binomial | chain\n")
    (row,) = explained(offbeat, "bcast", "--bytes", "8", OFFBEAT_RULES=str(rules))["rows"]
    assert (row["expression"], row["alternatives"]) == ("binomial", ["binomial", "chain"])
    assert row["origin"] == f"{rules}:1"
    (row,) = explained(offbeat, "bcast", OFFBEAT_RULES=str(rules), OFFBEAT_BCAST="chain")["rows"]
    assert (row["expression"], row["origin"]) == ("chain", "OFFBEAT_BCAST")


def test_explain_takes_what_run_takes(offbeat: Offbeat) -> None:
    for one, other in (
        (["64KiB", "-n", "4"], ["--ppn", "4", "--bytes", "64KiB"]),
        (["-n", "8", "--nodes", "2"], ["--nodes", "2", "--ppn", "4"]),
    ):
        assert explained(offbeat, "bcast", *one) == explained(offbeat, "bcast", *other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alltoallw"], "offbeat does not serve 'alltoallw', only allreduce"),
        (["bcast", "--mpi", "mvapich"], "--mpi mvapich: rules know only other, openmpi, mpich, intel"),
        (["bcast", "--nodes", "0"], "--nodes 0: it must be at least 1"),
        (["bcast", "--nodes", "100000", "--ppn", "100000"], "the number of ranks must be from 1 to"),
        (["bcast", "--bytes", "4k"], "'4k' is not a size"),
        (["bcast", "4KiB", "--bytes", "4KiB"], "the length is both 4KiB and --bytes 4KiB; give one"),
        (["bcast", "-n", "0"], "-n 0: it must be at least 1"),
        (["bcast", "-n", "8", "--ppn", "2"], "-n 8 and --ppn 2: give one of them"),
        (["bcast", "-n", "9", "--nodes", "2"], "-n 9: 2 nodes cannot have equally many ranks"),
    ],
)
def test_explain_refuses(offbeat: Offbeat, arguments: list[str], words: str) -> None:
    done = offbeat("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_ranges_are_spelled_as_in_rules(rules: Path) -> None:
    for least, most, text in (
        (0, None, "*"), (0, 512, "..512"), (0, 4095, "..<4KiB"), (513, 4095, "513..<4KiB"),
        (1024, 1024, "1KiB"), (1 << 20, None, "1MiB.."), (1, 1 << 30, "1..1GiB"),
    ):  # fmt: skip
        assert spelling.bytes_text(least, most) == text
        rules.write_text(f"allreduce * * * {text} ring")
        plan = _core.plan("allreduce", "other", 1, 4, True, _core.read_rules(str(rules)), "", "")
        (row,) = [row for row in plan if row["expression"] == "ring"]
        assert (row["least_bytes"], row["most_bytes"]) == (least, most)


def test_explain_shows_the_grids_of_a_machine(offbeat: Offbeat, tmp_path: Path) -> None:
    cell = ("allreduce", "--nodes", "1000", "--ppn", "1", "--bytes", "8MiB")
    (row,) = explained(offbeat, *cell, OFFBEAT_ALLREDUCE="grid(auto)")["rows"]
    assert row["expression"] == "grid(10x100, ring_segmented(64KiB))"
    assert row["reason"] == "OFFBEAT_ALLREDUCE; grid(auto) on cluster"
    (row,) = explained(offbeat, *cell, "--machine", "ethernet", OFFBEAT_ALLREDUCE="grid(auto)")["rows"]
    assert row["reason"] == "OFFBEAT_ALLREDUCE; grid(auto) on 10 Gbit/s Ethernet"
    machine = tmp_path / "my.toml"
    machine.write_text("name = 7\n")
    for done in (
        offbeat("explain", *cell, OFFBEAT_MACHINE=str(machine)),
        offbeat("explain", *cell, "--machine", str(machine)),
    ):
        assert done.returncode == 2
        assert f"{machine}: the table [between_nodes] is missing" in done.stderr
