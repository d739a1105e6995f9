# SPDX-License-Identifier: BSD-3-Clause
"""offbeat simulate: machines as files, times that can be computed by hand, who waits for whom."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes import Offbeat
from offbeat import _core
from offbeat.__main__ import main
from offbeat.bench.plan import COLLECTIVES
from offbeat.errors import CommandError
from offbeat.simulate import machine, simulation
from offbeat.simulate.simulation import Plan, Shape
from offbeat.tune import simulated_candidates
from offbeat.units import Skew

# 8 bytes take 2 us within a node and 10 us between nodes.
PLAIN = """\
name = "plain"
[core]
combine_ns_per_byte = 0
[within_node]
latency_us = 1
bandwidth_gb_per_s = 0.008
[between_nodes]
latency_us = 2
bandwidth_gb_per_s = 0.001
"""
BOARD = PLAIN + "[board]\nline_ns = 100\n"
EVERY_KEY = """\
name = "every key"
source = "made up"
envelope_bytes = 16
eager_limit_bytes = 1024
[core]
combine_ns_per_byte = 0.5
copy_ns_per_byte = 0.25
node_memory_bandwidth_gb_per_s = 12
step_ns = 8
[[core.beyond]]
cache_bytes = 2000
ranks_per_cache = 2
combine_ns_per_byte = 0.75
copy_ns_per_byte = 0.625
node_memory_bandwidth_gb_per_s = 13
[within_node]
latency_us = 1
bandwidth_gb_per_s = 2
send_ns_per_byte = 0.375
receive_ns_per_byte = 0.875
send_overhead_us = 21
receive_overhead_us = 22
send_gap_us = 23
receive_gap_us = 24
handshake_us = 25
eager_limit_bytes = 1000
[[within_node.longer]]
from_bytes = 100
latency_us = 3
bandwidth_gb_per_s = 4
send_ns_per_byte = 0.4
receive_ns_per_byte = 0.45
[between_nodes]
latency_us = 5
bandwidth_gb_per_s = 6
node_bandwidth_gb_per_s = 7
node_receive_bandwidth_gb_per_s = 6.5
node_gap_us = 26
send_overhead_us = 27
receive_overhead_us = 28
send_gap_us = 29
receive_gap_us = 30
handshake_us = 31
[[between_nodes.longer]]
from_bytes = 100
latency_us = 8
bandwidth_gb_per_s = 9
[[between_nodes.longer]]
from_bytes = 200
latency_us = 10
bandwidth_gb_per_s = 11
[board]
line_ns = 100
far_line_ns = 200
line_gap_ns = 10
put_line_ns = 9
ranks_per_cache = 4
"""

# Levels say what these keys say, so no file has both.
WITHOUT_LEVELS = ("node_memory_bandwidth_gb_per_s = ", "far_line_ns = ", "ranks_per_cache = 4")
LEVELS = """\
line_share = 0.625
[[within_node.level]]
cores = 2
line_ns = 300
core_gb_per_s = 4.5
link_gb_per_s = 1.5
memory_gb_per_s = 15
[[within_node.level]]
cores = 6
line_ns = 400
core_gb_per_s = 2.5
[[within_node.level]]
line_ns = 500
core_gb_per_s = 1.25
"""


def with_levels() -> str:
    kept = [line for line in EVERY_KEY.splitlines() if not line.startswith(WITHOUT_LEVELS)]
    text = "\n".join(kept).replace("[within_node]\n", "[within_node]\nmessage_lines = 2\n")
    return text.replace("receive_ns_per_byte = 0.45\n", "receive_ns_per_byte = 0.45\n" + LEVELS)


# What is said of the costs that are zero unless a file says otherwise.
EXTRAS_OF_LEVELS = (
    "waiting for 2 lines", "0.625 of the lines",
    "300 ns a line among 2, 4.5 GB/s a core, 1.5 GB/s in and out",
    "15 GB/s of memory",
    "400 ns a line among 6, 2.5 GB/s a core", "500 ns a line among all, 1.25 GB/s a core",
)  # fmt: skip
EXTRAS = (
    "beyond 2000 B 0.75 and 0.625 ns a byte, 13 GB/s",
    "copying 0.375 and 0.875 ns", "copying 0.4 and 0.45 ns",
    "9 ns each line that is written", "8 ns to begin",
    "12 GB/s of memory a node", "within a node to 1000 B", "6.5 GB/s into a node",
    "21 µs to send", "22 µs to receive", "23 µs between sends", "24 µs between receives",
    "25 µs each way of a handshake", "26 µs between messages of a node", "27 µs to send", "28 µs to receive",
    "29 µs between sends", "30 µs between receives", "31 µs each way of a handshake",
)  # fmt: skip


def quiet(what: str, done: int, events: int) -> None:
    pass


def plan(text: str = PLAIN, **values: Any) -> Plan:
    usual: dict[str, Any] = {
        "shapes": [Shape(2, 2)], "collective": "allreduce", "sizes_bytes": [8],
        "algorithms": ["recursive_doubling"],
    }  # fmt: skip
    return Plan(machine.parse(text, "machine"), **{**usual, **values})


def only(results: Sequence[simulation.Result]) -> simulation.Result:
    (result,) = results
    return result


def test_times_are_those_of_the_machine() -> None:
    found = only(simulation.run_plan(plan(), quiet).results)
    assert found.last_delays_us == pytest.approx([2 + 10])
    assert found.model_us == pytest.approx(2 + 10)
    assert (found.messages, found.inter_node_messages, found.bytes) == (8, 4, 64)
    assert found.waiting_us == 0
    assert found.causes == []


@pytest.mark.parametrize(
    ("file", "extras"), [(EVERY_KEY, EXTRAS), (with_levels(), EXTRAS_OF_LEVELS)], ids=["plain", "levels"]
)
def test_every_key_has_its_effect(file: str, extras: Sequence[str]) -> None:
    """Also: what is said of a machine names each of its numbers."""
    whole = machine.parse(file, "machine")
    said = " ".join(value for _, value in whole.facts())
    for number in (
        "1 µs",
        "2 GB/s",
        "3 µs",
        "4 GB/s",
        "from 100 B",
        "from 200 B",
        "7 GB/s a node",
        "0.5 and 0.25 ns",
        *extras,
    ):
        assert number in said
    algorithms = [
        "recursive_doubling", "hierarchy(arrival_tree, recursive_doubling)", "linear", "pipeline(4, ring)",
    ]  # fmt: skip
    usual = {
        "sizes_bytes": [64, 128, 256, 1200, 65536], "shapes": [Shape(4, 8)], "algorithms": algorithms,
        "patterns": ["balanced", "random"],
    }  # fmt: skip

    def times(text: str) -> list[float]:
        run = simulation.run_plan(plan(text, **usual), quiet)
        return [result.last_delays_us[0] for result in run.results]

    known = [] if file == EVERY_KEY else EVERY_KEY.splitlines()
    before = times(file)
    lines = file.splitlines()
    for place, line in enumerate(lines):
        key, equals, value = line.partition(" = ")
        if not equals or key in ("name", "source") or line in known:
            continue
        other = "0.1" if "." in value or key.endswith("gb_per_s") else str(int(value) * 3 // 2 + 1)
        if key == "ranks_per_cache":
            other = "1"
        changed = [*lines[:place], f"{key} = {other}", *lines[place + 1 :]]
        assert times("\n".join(changed)) != before, f"line {place + 1}: {line}"


def test_a_core_sends_one_message_after_the_other() -> None:
    """The radix 4 of 4 nodes: three messages at once, 8 µs each on the port, 20 µs each on the core."""
    with_overhead = PLAIN + "send_overhead_us = 20\nreceive_overhead_us = 5\n"
    found = only(
        simulation.run_plan(
            plan(with_overhead, shapes=[Shape(4, 1)], algorithms=["recursive_multiplying(4)"]), quiet
        ).results
    )
    assert found.last_delays_us == pytest.approx([3 * 20 + 2 + 8 + 5])
    assert found.model_us is None, "the formulas have no overhead"


def test_a_late_node_is_one_of_the_machine() -> None:
    """The ranks of the last of four nodes, not half of all ranks."""
    late = plan(shapes=[Shape(4, 2)], patterns=["node_late"], skews=[Skew(microseconds=1000)])
    found = only(simulation.run_plan(late, quiet).results)
    assert {cause.rank for cause in found.causes} == {6, 7}


def test_a_machine_has_the_nodes_of_one_and_the_network_of_another() -> None:
    both, node, network = (machine.read(name) for name in ("rome+ethernet_tcp", "rome", "ethernet_tcp"))
    assert both.name == f"{node.name}, {network.name}"
    assert (both.levels, both.within_node, both.board) == (node.levels, node.within_node, node.board)
    assert both.between_nodes == network.between_nodes
    assert both.eager_limit_bytes == network.eager_limit_bytes
    assert both.eager_limit_within_node_bytes == node.eager_limit_bytes
    with pytest.raises(CommandError, match="unknown machine 'bogus'"):
        machine.read("rome+bogus")


def test_a_machine_comes_with_offbeat() -> None:
    """Both readers know its keys: that of simulations, and that of grid(auto)."""
    assert machine.names() == [
        "blue_waters",
        "cluster",
        "ethernet",
        "ethernet_tcp",
        "genoa",
        "grace",
        "infiniband",
        "rome",
        "sapphire_rapids",
        "slingshot",
    ]
    for name in machine.names():
        known = machine.read(name)
        assert known.source
        assert _core.machine_name(machine.path_of(name)) == known.name
        assert known.simulated(2, 4).run("barrier", "dissemination", 0, [], None)["messages"] > 0
    assert machine.read("cluster").board is not None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("latency_us = 2\n", "", "between_nodes.latency_us: it is missing"),
        (
            "latency_us = 2",
            "latency_us = -2",
            "between_nodes.latency_us: '-2' is not a number from 0 to 1e+12",
        ),
        (
            "latency_us = 2",
            "latency_us = 'two'",
            "between_nodes.latency_us: 'two' is not a number from 0 to 1e+12",
        ),
        ("latency_us = 2", "latency_us = true", "'True' is not a number"),
        *(
            (
                "latency_us = 2",
                f"latency_us = 2\n{key} = -1",
                f"between_nodes.{key}: '-1' is not a number from 0",
            )
            for key in (
                "send_overhead_us",
                "receive_overhead_us",
                "send_gap_us",
                "receive_gap_us",
                "handshake_us",
                "node_gap_us",
            )
        ),
        (
            "latency_us = 2",
            "latency_us = 2\nnode_receive_bandwidth_gb_per_s = 0",
            "between_nodes.node_receive_bandwidth_gb_per_s: '0' is not a number from 1e-12",
        ),
        (
            "latency_us = 1\n",
            "latency_us = 1\neager_limit_bytes = 0.5\n",
            "within_node.eager_limit_bytes: '0.5' is not a whole number",
        ),
        ("latency_us = 1\n", "latency_us = 1\nnode_gap_us = 1\n", "within_node.node_gap_us: unknown key"),
        (
            "[core]",
            "[core]\nnode_memory_bandwidth_gb_per_s = 'all'",
            "core.node_memory_bandwidth_gb_per_s: 'all' is not a number",
        ),
        ("latency_us = 2", "latency_us = nan", "'nan' is not a number"),
        ("latency_us = 2", "latency_us = [2]", "is not a number"),
        ("latency_us = 2", f"latency_us = 1{400 * '0'}", "is not a number"),
        ("= 0.001", "= 1e-323", "between_nodes.bandwidth_gb_per_s: '1e-323' is not a number"),
        (
            "[core]",
            "[board]\nline_ns = 1\nranks_per_cache = 3000000000\n[core]",
            "'3000000000' is not a whole number from 0 to 2147483647",
        ),
        (
            "[between_nodes]",
            2 * "[[within_node.level]]\nline_ns = 1\ncores = 4\n" + "[between_nodes]",
            "within_node.level number 2.cores: 4 is not more than the 4 of the level before",
        ),
        (
            "[between_nodes]",
            2 * "[[within_node.level]]\nline_ns = 1\n" + "[between_nodes]",
            "within_node.level number 2.cores: the level before has all cores of the node already",
        ),
        (
            "[between_nodes]",
            "[[within_node.level]]\nline_ns = 1\nlink_gb_per_s = 0\n[between_nodes]",
            "within_node.level number 1.link_gb_per_s: '0' is not a number from 1e-12",
        ),
        (
            "[between_nodes]",
            "[[within_node.level]]\nline_ns = 1\nmemory_gb_per_s = 1\n[between_nodes]",
            "within_node.level number 1.memory_gb_per_s: it needs a [[core.beyond]]",
        ),
        (
            "[between_nodes]",
            "[[within_node.level]]\nline_ns = 1\n[board]\nline_ns = 1\nfar_line_ns = 1\n[between_nodes]",
            "within_node.level number 1.line_ns: it takes the place of far_line_ns and ranks_per_cache",
        ),
        ("latency_us = 2", "latncy_us = 2", "between_nodes.latency_us: it is missing"),
        (
            "latency_us = 2",
            "latency_us = 2\nlatncy_us = 2",
            "latncy_us: unknown key (did you mean latency_us?)",
        ),
        ("latency_us = 2", "latency_us = 2\nwords = 2", "between_nodes.words: unknown key; known are"),
        ("= 0.001", "= 0", "between_nodes.bandwidth_gb_per_s: '0' is not a number from 1e-12 to 1e+12"),
        (
            "= 0.001",
            "= 0.001\nlonger = 1",
            "between_nodes.longer: it must be tables, each of which begins with",
        ),
        ("= 0.001", "= 0.001\n[[between_nodes.longer]]", "longer number 1.from_bytes: it is missing"),
        ("[core]", "core = 1\n[node]", "core: it must be a table, which begins with [core]"),
        ("[core]", "[node]\n[core]", "node: unknown key"),
        ('"plain"', "7", "name: '7' is not a text in quotes"),
        ('"plain"', '"plain"\neager_limit_bytes = 1.5', "'1.5' is not a whole number from 0 to"),
        ('"plain"', '"plain', "(at line 1, column 14)"),
        ("[within_node]", "[core]", "(at line 4, column 6)"),
        ("[core]", "[board]\n[core]", "board.line_ns: it is missing"),
    ],
)
def test_a_wrong_machine_is_one_line(old: str, new: str, message: str) -> None:
    assert old in PLAIN
    with pytest.raises(CommandError) as caught:
        machine.parse(PLAIN.replace(old, new, 1), "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_grids_know_the_same_keys(tmp_path: Path) -> None:
    """grid(auto) has a reader of its own, which may run in every MPI program."""
    algorithm = '[[algorithm]]\nexpression = "ring"\nmpi = "mpich"\nlevel = "within_node"\n'
    text = EVERY_KEY + algorithm + "latency_us = 1\nbandwidth_gb_per_s = 2\n"
    file = tmp_path / "m.toml"
    file.write_text(text)
    assert _core.machine_name(str(file)) == machine.parse(text, "m").name
    lines = text.splitlines()
    for number, line in enumerate(lines):
        key, equals, value = line.partition(" = ")
        wrong = f"{key}_ = {value}" if equals else line.replace("]", "_]", 1)
        file.write_text("\n".join([*lines[:number], wrong, *lines[number + 1 :]]))
        with pytest.raises(CommandError):
            machine.parse(file.read_text(), "m")
        with pytest.raises(_core.UsageError, match=r"m\.toml:\d+: .*unknown"):
            _core.machine_name(str(file))


def test_protocols_are_in_the_order_of_their_lengths() -> None:
    longer = "[[between_nodes.longer]]\nfrom_bytes = {}\nlatency_us = 1\nbandwidth_gb_per_s = 1\n"
    assert len(machine.parse(PLAIN + longer.format(1) + longer.format(2), "m").between_nodes) == 3
    with pytest.raises(CommandError, match=r"longer number 2.*'2' is not a whole number from 3 to"):
        machine.parse(PLAIN + longer.format(2) + longer.format(2), "m")


def test_who_waits_for_whom() -> None:
    late = plan(patterns=["last_delayed"], skews=[Skew(microseconds=100.0)], shapes=[Shape(4, 2)])
    found = only(simulation.run_plan(late, quiet).results)
    assert found.cell.skew == "100us"
    assert [(cause.rank, cause.ranks) for cause in found.causes] == [(7, 7)]
    assert found.longest_wait_us == pytest.approx(100)
    assert found.total_delays_us[0] == pytest.approx(100 + found.last_delays_us[0])
    assert found.model_us is None
    # Rank 7's own steps, and then two messages to the last that knows of it.
    assert found.last_delays_us == pytest.approx([2 + 10 + 10])


def test_who_learns_has_learned_from_the_call_before() -> None:
    """1 byte takes 1 µs: what is left is n, and beside it what the other ranks say about lateness."""
    usual = plan(
        shapes=[Shape(8, 1)], sizes_bytes=[7_000_000], algorithms=["arrival_owners"],
        patterns=["last_delayed", "first_delayed", "balanced"], skews=[Skew(microseconds=1e9)],
    )  # fmt: skip
    last, first, balanced = simulation.run_plan(usual, quiet).results
    for late in (last, first):
        assert 7_000_000 < late.last_delays_us[0] < 1.02 * 7_000_000
    # Nobody remembers who was late under another pattern.
    alone = simulation.run_plan(replace(usual, patterns=["balanced"]), quiet).results
    assert balanced.last_delays_us == only(alone).last_delays_us


def test_a_factor_of_skew_is_of_the_mean_of_all_expressions() -> None:
    two = plan(algorithms=["recursive_doubling", "ring"], patterns=["balanced", "ascending"])
    results = simulation.run_plan(two, quiet).results
    balanced = [result.last_delays_us[0] for result in results if result.cell.pattern == "balanced"]
    skewed = [result for result in results if result.cell.pattern == "ascending"]
    assert [result.skew_us for result in skewed] == pytest.approx([sum(balanced) / 2] * 2)


def test_what_is_drawn_anew_is_drawn_so_often_and_again_alike() -> None:
    drawn = plan(patterns=["random"], skews=[Skew(microseconds=50.0)], draws=4)
    first, second = simulation.run_plan(drawn, quiet), simulation.run_plan(drawn, quiet)
    assert first.results == second.results
    assert len(set(only(first.results).total_delays_us)) == 4


def test_progress_counts_every_result() -> None:
    asked = plan(
        algorithms=["recursive_doubling", "ring"], patterns=["balanced", "ascending"], sizes_bytes=[8, 64],
        skews=[Skew(factor=1.0), Skew(factor=2.0)], shapes=[Shape(2, 2), Shape(1, 1)],
    )  # fmt: skip
    done = []
    found = simulation.run_plan(asked, lambda what, number, events: done.append(number))
    assert len(found.results) == simulation.number_of_results(asked) == 3 * 4 + 2 * 4
    assert done == sorted(done)
    assert max(done) < len(found.results)


def test_a_plan_that_takes_long_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation, "_S_PER_RANK", 10.0)
    arguments = ["simulate", "--ppn", "1", "--sizes", "8", "--algorithms", "ring"]
    for nodes, said in (("1..4", "offbeat: 3 results for up to 4 ranks take at least 1 minute\n"), ("2", "")):
        assert main([*arguments, "--nodes", nodes]) == 0
        assert capsys.readouterr().err == said


def test_a_long_simulation_reports_and_can_be_ended() -> None:
    def report(events: int, seconds: float) -> None:
        assert events == 1 << 20
        assert 0 < seconds < 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.read("ethernet").simulated(64, 16).run("allreduce", "ring", 1 << 20, [], report)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_can_be_simulated(offbeat: Offbeat, collective: str) -> None:
    """With what is left out, by all of its algorithms of messages."""
    done = offbeat("simulate", "--collective", collective, "--nodes", "2,3", "--ppn", "2", "--sizes", "64")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{collective}, balanced arrival" in done.stdout
    assert "who waits for whom" in done.stdout


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_vectors_may_have_no_data(collective: str) -> None:
    """Short calls on the board move data, but the phases of a hierarchy have none to move."""
    made = 0
    for shape in (Shape(2, 4), Shape(3, 2), Shape(2, 40)):
        cluster = machine.read("cluster").simulated(*shape)
        for name in simulated_candidates.simulated(collective, shape, 64):
            for size in (0, 8, 64, 4096) if collective != "barrier" else (0,):
                if not cluster.unsuitable(collective, name):
                    last = max(cluster.run(collective, name, size, [], None)["exits"])
                    assert last > 0 or size == 0, (name, shape, size)
                    made += 1
    assert made > 0


CALIBRATED = """\
[calibrated]
mpi = "MPICH"
version = "5.0.2"
processor = "one"
cores = 64
"""


def test_grid_reads_a_file_with_every_key(tmp_path: Path) -> None:
    for text in (EVERY_KEY, with_levels(), EVERY_KEY + CALIBRATED):
        (tmp_path / "every.toml").write_text(text)
        assert _core.machine_name(str(tmp_path / "every.toml")) == "every key"


def test_json_has_null_for_each_rate_without_a_limit() -> None:
    text = with_levels() + "\n" + CALIBRATED
    found = json.loads(simulation.Simulation(plan(text)).to_json())["machine"]
    assert [level["link_gb_per_s"] for level in found["levels"]] == [1.5, None, None]
    assert found["beyond"][0]["node_memory_bandwidth_gb_per_s"] is None
    assert found["calibrated"] == {"processor": "one", "cores": 64, "mpi": "MPICH", "version": "5.0.2"}


def test_json_has_everything(offbeat: Offbeat, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(PLAIN)
    done = offbeat(
        "simulate", "--machine", "plain.toml", "--nodes", "1..2", "--ppn", "2", "--sizes", "8",
        "--algorithms", "recursive_doubling, pipeline(2,ring)", "--patterns", "balanced,first_delayed",
        "--skew", "30us", "--json", "out.json",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads((tmp_path / "out.json").read_text())
    assert (document["format"], document["version"], document["collective"]) == (
        "offbeat simulate",
        1,
        "allreduce",
    )
    assert document["machine"]["between_nodes"] == [
        {
            "from_bytes": 0, "latency_us": 2.0, "bandwidth_gb_per_s": 0.001,
            "send_ns_per_byte": 0.0, "receive_ns_per_byte": 0.0, "line_share": 1.0,
        }
    ]  # fmt: skip
    for limit in ("node_bandwidth", "node_receive_bandwidth", "node_memory_bandwidth"):
        assert document["machine"][f"{limit}_gb_per_s"] is None
    assert document["machine"]["message_between_nodes"]["send_overhead_us"] == 0
    assert len(document["results"]) == 2 * 2 * 2
    found = next(
        r for r in document["results"]
        if (r["nodes"], r["pattern"], r["algorithm"]) == (2, "first_delayed", "recursive_doubling")
    )  # fmt: skip
    assert found["waited_for"][0]["rank"] == 0
    assert found["longest_wait_us"] == pytest.approx(30)
    assert {r["algorithm"] for r in document["results"]} == {"recursive_doubling", "pipeline(2, ring)"}
    again = offbeat("simulate", "--json", "out.json")
    assert again.returncode == 2
    assert "out.json exists; add --force" in again.stderr


def test_the_table_says_who_is_late(offbeat: Offbeat, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(PLAIN)
    done = offbeat(
        "simulate", "--machine", "plain.toml", "--nodes", "4", "--ppn", "2", "--sizes", "8",
        "--algorithms", "recursive_doubling,ring", "--patterns", "first_delayed", "--skew", "100us",
    )  # fmt: skip
    rows = [re.sub(r"\s+", " ", line.strip()) for line in done.stdout.splitlines() if "4 x 2" in line]
    assert rows[0].startswith("4 x 2 8 B ▼ 22.0 µs ")
    assert rows[1].count("for rank 0 (100%)") == 2


def test_a_page_and_its_figures(offbeat: Offbeat, tmp_path: Path) -> None:
    done = offbeat("simulate", "--nodes", "2,4", "--sizes", "8,64", "-o", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert page.count('role="img"') == 2, "one for each number of nodes"
    assert "who waits for whom" in page
    done = offbeat("simulate", "--nodes", "2,4", "--sizes", "8", "-o", "page.html", "--force")
    assert (tmp_path / "page.html").read_text().count('role="img"') == 1, "over the ranks"


def test_boards_are_for_expressions_that_use_them() -> None:
    text = "hierarchy(arrival_tree, recursive_doubling)"
    assert only(simulation.run_plan(plan(BOARD, algorithms=[text]), quiet).results).model_us is None
    with pytest.raises(CommandError, match="needs shared memory between the ranks of a node"):
        simulation.run_plan(plan(PLAIN, algorithms=[text]), quiet)
    board, messages = (
        only(simulation.run_plan(plan(each, algorithms=["smp"]), quiet).results) for each in (BOARD, PLAIN)
    )
    assert board.messages < messages.messages


def test_the_core_refuses_what_it_cannot_run() -> None:
    known = machine.parse(PLAIN, "plain").simulated(2, 2)
    with pytest.raises(_core.UsageError, match="native is the host MPI's own"):
        known.run("allreduce", "native", 8, [], None)
    with pytest.raises(_core.UsageError, match="one arrival time per rank"):
        known.run("allreduce", "ring", 8, [0.0], None)
    with pytest.raises(_core.UsageError, match="not a whole number of elements"):
        known.run("allreduce", "ring", 6, [], None)
    with pytest.raises(_core.UsageError, match="unknown collective 'sum'"):
        known.run("sum", "ring", 8, [], None)


@pytest.mark.parametrize("nodes_algorithm", ["lanes", "hierarchy"])
def test_late_ranks_wake_only_those_who_wait_for_them(nodes_algorithm: str) -> None:
    """If every change of a board woke all who wait there, random arrival would take ten times the events."""
    ranks = 4 * 32
    simulated = machine.read("slingshot").simulated(4, 32)
    random = Random(1)
    events = []
    for late in ([0.0] * ranks, [random.uniform(0, 500e-6) for _ in range(ranks)]):
        expression = f"{nodes_algorithm}(arrival_tree, recursive_doubling)"
        run = simulated.run("allreduce", expression, 512 << 10, late, None)
        events.append(run["events"])
    assert events[1] < 1.2 * events[0]
    assert events[0] < 250 * ranks
