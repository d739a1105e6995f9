# SPDX-License-Identifier: BSD-3-Clause
"""offbeat tune --simulate: what MPIs run by default, the choice of algorithms, and the rules."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakes import MakeMpi, Offbeat
from offbeat import _core
from offbeat.__main__ import main
from offbeat.errors import FAILED
from offbeat.machine import fingerprint
from offbeat.simulate import hosts, machine
from offbeat.simulate.hosts import Phase, Place
from offbeat.simulate.simulation import Shape
from offbeat.tune import by_simulation, simulated_candidates, simulated_rules, workers
from offbeat.tune.by_simulation import Answer, Question, Standing, Terms

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
TWO_LEVELS = "node reduce binomial then leaders allreduce recursive_doubling then node bcast binomial"
MACHINES = ("ethernet_tcp", "infiniband", "slingshot")


def plain() -> machine.Machine:
    return machine.parse(PLAIN, "plain")


def phases(text: str, collective: str = "allreduce") -> hosts.Phases:
    (decision,) = hosts.decisions(f"{collective} mpich * * * {text}")
    (found,) = decision.alternatives
    return found


def terms(*names: str, **others: object) -> Terms:
    usual = {"hosts": hosts.NAMES, "patterns": ("balanced", "last_delayed")}
    return Terms(machines=[machine.read(name) for name in names], **(usual | others))  # type: ignore[arg-type]


# -- what MPIs run


@pytest.mark.parametrize("host", hosts.NAMES)
@pytest.mark.parametrize("collective", hosts.collectives())
def test_a_host_has_an_algorithm_for_every_call(host: str, collective: str) -> None:
    for nodes in (2, 3, 8, 9, 16, 17, 100, 128, 129, 513, 1024, 2049, 4096, 65536):
        for ppn in (1, 2, 16):
            for size in (0, 1, 64, 1024, 2048, 2049, 65536, 1 << 20, 1 << 30):
                found = hosts.default_algorithm(host, collective, Shape(nodes, ppn), size)
                assert found, f"{nodes} x {ppn}, {size} bytes"
                assert all(alternative for alternative in found)


def test_hosts_decide_as_published() -> None:
    def texts(host: str, collective: str, nodes: int, ppn: int, size: int) -> list[str]:
        return [
            " then ".join(map(str, each))
            for each in hosts.default_algorithm(host, collective, Shape(nodes, ppn), size)
        ]

    # SMPI's selector runs these for 1024 ranks. Open MPI 5 has HAN if a node has several ranks.
    assert texts("openmpi", "allreduce", 1024, 1, 1 << 13) == ["allreduce recursive_doubling"]
    assert texts("openmpi", "allreduce", 1024, 1, 1 << 16) == ["allreduce rabenseifner"]
    assert texts("openmpi", "allreduce", 32, 32, 1 << 13) == ["allreduce smp", "allreduce recursive_doubling"]
    assert texts("openmpi", "allreduce", 1, 32, 1 << 16) == ["allreduce rabenseifner"]
    assert texts("mpich", "allreduce", 10, 1, 2048) == ["allreduce recursive_doubling"]
    assert texts("mpich", "allreduce", 10, 1, 2049) == ["allreduce rabenseifner"]
    in_shared_memory, by_messages = texts("mpich", "allreduce", 32, 4, 8)
    assert in_shared_memory.startswith("node reduce arrival_tree then ")
    assert by_messages == TWO_LEVELS
    # Limits that depend on the number of ranks, and on whether it is a power of two.
    assert texts("mpich", "allgather", 16, 1, (512 << 10) // 16 - 1) == ["allgather recursive_doubling"]
    assert texts("mpich", "allgather", 16, 1, (512 << 10) // 16) == ["allgather ring"]
    assert texts("mpich", "allgather", 10, 1, 8192) == ["allgather bruck"]
    assert texts("mpich", "allgather", 10, 1, 8193) == ["allgather ring"]
    assert texts("mpich", "bcast", 16, 1, 1 << 16) == ["scatter binomial then allgather recursive_doubling"]
    assert texts("mpich", "bcast", 10, 1, 1 << 16) == ["bcast scatter_allgather"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("allreduce mpi5 * * * ring", "unknown host mpi5"),
        ("allreduce mpich * * *", "not enough values"),
        ("allreduce mpich 8..4x * * ring", "4x"),
        ("allreduce mpich 8/nodes.. * * ring", "8/nodes"),
        ("allreduce mpich * * * bogus", "bogus"),
        ("allreduce mpich * * * ring | ... | binomial", "..."),
        ("allreduce mpich * * * node reduce", "is no phase"),
        ("allreduce mpich * * * node reduce ring", "ring"),
    ],
)
def test_errors_name_the_line(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{why}"):
        hosts.decisions(f"# a comment\n{line}\n")


def test_phases_follow_one_another() -> None:
    """Two ranks on each of two nodes: 2 us on the node, 10 us between the leaders, 2 us on the node."""
    place = Place(plain(), Shape(2, 2))
    assert place.simulate_last_delays_us(phases(TWO_LEVELS), 8, [[0.0] * 4]) == pytest.approx([14])
    # The second rank of the second node comes 20 us later than all others.
    assert place.simulate_last_delays_us(phases(TWO_LEVELS), 8, [[0, 0, 0, 20.0]]) == pytest.approx([14])
    # A leader that is late by 1 us: its node's other rank has sent meanwhile.
    assert place.simulate_last_delays_us(phases(TWO_LEVELS), 8, [[0, 0, 1.0, 0]]) == pytest.approx([13])


def test_phases_agree_with_the_algorithm_that_has_them_all() -> None:
    arrivals = [[0.0] * 16, [1.25 * (7 * k % 16) for k in range(16)]]
    place = Place(plain(), Shape(4, 4))
    assert place.simulate_last_delays_us(phases(TWO_LEVELS), 64, arrivals) == pytest.approx(
        place.simulate_last_delays_us(phases("smp"), 64, arrivals), rel=0.01
    )


def test_a_phase_on_blocks_has_a_part_of_the_vector() -> None:
    """A scatter of 4 blocks of 2 bytes: 2+2*2 ms, then 2+2 bytes; then an allgather in two steps."""
    place = Place(plain(), Shape(4, 1))
    found = phases("scatter binomial then allgather recursive_doubling", "bcast")
    assert [phase.part_of for phase in found] == ["bcast", "bcast"]
    # 2 + 4 and 2 + 2 to the last leaf, then 2 + 2 and 2 + 4.
    assert place.simulate_last_delays_us(found, 8, [[0.0] * 4]) == pytest.approx([20])


def test_phases_of_a_call_with_blocks_have_the_blocks_of_a_node() -> None:
    """3 nodes of 4 ranks gather 4 blocks on each node, exchange these, and broadcast 12."""
    found = phases("node gather binomial then leaders allgather ring then node bcast binomial", "allgather")
    assert [each.size_bytes(8, ranks, 12) for each, ranks in zip(found, (4, 3, 4), strict=True)] == [
        8,
        32,
        96,
    ]


def test_what_a_machine_cannot_run_is_no_alternative_of_a_host() -> None:
    """The shared memory of a host is that of the board, which this machine has not."""
    without = Place(plain(), Shape(2, 2)).default_algorithm("mpich", "allreduce", 8)
    with_board = Place(machine.read("cluster"), Shape(2, 2)).default_algorithm("mpich", "allreduce", 8)
    assert without == (phases(TWO_LEVELS),)
    assert len(with_board) == 2
    assert with_board[1:] == without


def test_an_algorithm_that_learns_has_seen_a_call_before() -> None:
    place = Place(machine.read("slingshot"), Shape(10, 1))
    late = [0.0] * 9 + [500.0]
    own = (Phase("all", "allreduce", "arrival_owners"),)
    simulated = machine.read("slingshot").simulated(10, 1)
    begins = [1e-6 * each for each in late]
    first = max(simulated.run("allreduce", "arrival_owners", 1 << 20, begins, None)["exits"])
    second = max(simulated.run("allreduce", "arrival_owners", 1 << 20, begins, None)["exits"])
    assert second < first
    assert place.simulate_last_delays_us(own, 1 << 20, [late]) == pytest.approx([1e6 * second - 500])


# -- choices


def test_powers_of_two_are_by_themselves() -> None:
    assert by_simulation.node_groups(9, 40) == [
        ((9, 15), (9, 12, 15)),
        ((16, 16), (16,)),
        ((17, 31), (17, 24, 31)),
        ((32, 32), (32,)),
        ((33, 40), (33, 36, 40)),
    ]
    assert by_simulation.node_groups(2, 3) == [((2, 2), (2,)), ((3, 3), (3,))]


@pytest.mark.parametrize("size", [64, 4096, 65536, 1 << 20])
@pytest.mark.parametrize("nodes", [(9, 12, 15), (16,)])
def test_a_choice_beats_the_host_everywhere(nodes: tuple[int, ...], size: int) -> None:
    asked = terms(*MACHINES)
    found = by_simulation.answer(asked, Question("allreduce", size, (nodes[0], nodes[-1]), 1, nodes))
    chosen = {host: found.better(host, asked.margin) for host in asked.hosts}
    if size == 1 << 20:
        assert all(names[0] == "arrival_owners" for names in chosen.values())
    for host, names in chosen.items():
        for name in names[:1]:
            for each in asked.machines:
                for count in nodes:
                    place = Place(each, Shape(count, 1))
                    arrivals = [[0.0] * count]
                    mine = place.simulate_last_delays_us((Phase("all", "allreduce", name),), size, arrivals)
                    theirs = [
                        place.simulate_last_delays_us(other, size, arrivals)
                        for other in hosts.default_algorithm(host, "allreduce", Shape(count, 1), size)
                    ]
                    assert mine[0] <= min(theirs)[0], f"{name} and {host} on {each.name}, {count} nodes"


def test_what_the_host_has_anyway_is_no_choice() -> None:
    asked = terms("slingshot", hosts=["mpich"], algorithms=["rabenseifner"])
    found = by_simulation.answer(asked, Question("allreduce", 1 << 20, (16, 16), 1, (16,)))
    assert found.standings["mpich"]["rabenseifner"].worst == pytest.approx(1)
    assert found.simulations == len(asked.patterns)
    assert found.better("mpich", 0.05) == []


def test_a_simulation_that_takes_too_long_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_MOST_EVENTS", -1)
    own = (Phase("all", "allreduce", "ring"),)
    with pytest.raises(hosts.TooLongError):
        Place(plain(), Shape(1024, 1)).simulate_last_delays_us(own, 1 << 20, [[0.0] * 1024])


def test_a_call_above_the_limit_is_not_simulated_to_its_end() -> None:
    own, together = (Phase("all", "allreduce", "ring"),), [[0.0] * 1024]
    place = Place(plain(), Shape(1024, 1))
    (us,) = place.simulate_last_delays_us(own, 1 << 20, together)
    with pytest.raises(hosts.TooLongError):
        place.simulate_last_delays_us(own, 1 << 20, together, most_us=us / 2)
    assert place.simulate_last_delays_us(own, 1 << 20, together, most_us=us) == [us]


def test_what_cannot_get_onto_the_shortlist_is_not_simulated_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ring is faster than the host, and three times as slow as the best."""
    host = ((Phase("all", "allreduce", "binomial"),),)
    monkeypatch.setattr(hosts, "default_algorithm", lambda *_: host)
    question = Question("allreduce", 1 << 20, (1024, 1024), 1, (1024,))
    asked = terms("ethernet", algorithms=("rabenseifner", "ring"), hosts=("intel",), patterns=("balanced",))
    found = by_simulation.answer(asked, question)
    assert list(found.scores) == ["rabenseifner"]
    assert found.simulations == len(("binomial", "rabenseifner"))
    ring_us, binomial_us = (
        Place(machine.read("ethernet"), Shape(1024, 1)).simulate_last_delays_us(
            phases, 1 << 20, [[0.0] * 1024]
        )
        for phases in ((Phase("all", "allreduce", "ring"),), *host)
    )
    assert ring_us < binomial_us


@pytest.mark.parametrize("before", [None, "glibc.malloc.check=0", "glibc.malloc.hugetlb=0"])
def test_workers_allocate_huge_pages_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if before is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", before)
    with workers._environment():
        found = os.environ["GLIBC_TUNABLES"].split(":")
    assert os.environ.get("GLIBC_TUNABLES") == before
    assert found[0] == (before or "glibc.malloc.hugetlb=1")
    assert sum("hugetlb" in each for each in found) == 1


def test_the_neighbours_algorithm_stays_if_it_is_as_good() -> None:
    def answer(size: int, scores: dict[str, float]) -> Answer:
        good = Standing(0.5, 0.6)
        return Answer(
            Question("allreduce", size, (9, 15), 1, (9,)),
            scores,
            {"mpich": dict.fromkeys(scores, good)},
        )

    found = simulated_rules.choose(
        [
            answer(64, {"bine": 1.0, "ring": 1.1}),
            answer(1024, {"bine": 1.02, "ring": 1.0}),
            answer(4096, {"bine": 1.04, "ring": 1.0}),
            answer(16384, {}),
        ],
        "mpich",
        0.05,
    )
    assert [each.algorithm for each in found] == ["bine", "bine", "ring", "native"]


def test_only_adjacent_numbers_of_nodes_get_one_rule() -> None:
    """In whatever order they come."""
    good = Standing(0.5, 0.6)
    rows = simulated_rules.rules(
        terms("slingshot", hosts=["mpich"]),
        [
            Answer(Question("allreduce", 64, (n, n), 1, (n,)), {"ring": 1.0}, {"mpich": {"ring": good}})
            for n in (20, 12, 10, 9)
        ],
    )
    assert [row.fields()[2] for row in rows] == ["9..10", "12", "20"]


def test_a_call_of_which_nothing_remains_takes_one_latency() -> None:
    """All ranks have the data of a bcast when the last one comes, so that its last delay is 0."""
    asked = terms("infiniband", algorithms=("binomial",), hosts=("mpich",), patterns=("last_delayed",))
    found = by_simulation.answer(asked, Question("bcast", 8, (64, 64), 16, (64,)))
    assert set(found.scores) <= {"binomial"}
    assert all(math.isfinite(standing.of_host) for standing in found.standings["mpich"].values())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core there are no workers")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_command(
    tmp_path: Path, clean_environment: dict[str, str], how: signal.Signals
) -> None:
    """Ctrl-C reaches the workers, too, and they leave it to the command, even while they start."""
    command = [sys.executable, "-m", "offbeat", "tune", "--simulate", "slingshot", "--nodes", "4096"]
    with subprocess.Popen(
        command, env=clean_environment, cwd=tmp_path, start_new_session=True, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as job:  # fmt: skip
        try:
            while len(started := workers_of(job.pid)) < 2:
                assert job.poll() is None
            for each in started:
                os.kill(each, signal.SIGINT)
            time.sleep(2)  # they have questions
            assert job.poll() is None
            assert all(map(runs, started))
            os.killpg(job.pid, how) if how == signal.SIGINT else job.send_signal(how)
            said = job.communicate(timeout=60)[1]  # they hold the pipe, too
        finally:
            job.kill()  # if something is wrong; it would take minutes
    assert "Traceback" not in said
    assert not any(map(runs, started))


def runs(pid: int) -> bool:
    """Whether a process has not ended, though nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def workers_of(pid: int) -> list[int]:
    """The child processes that were spawned to work."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_files_of_the_working_directory_are_not_imported(offbeat: Offbeat, tmp_path: Path) -> None:
    for name in ("pickle", "types", "socket"):
        (tmp_path / f"{name}.py").write_text('raise SystemExit("imported")\n')
    done = offbeat("tune", "--simulate", "infiniband", "--nodes", "9,12", "--bytes", "8..64")
    assert (done.returncode, "imported" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("standings", [{}, {"ring": Standing(0.5, 0.96)}, {"ring": Standing(0.99, 1.2)}])
def test_one_bad_machine_is_enough_for_native(standings: dict[str, Standing]) -> None:
    question = Question("allreduce", 64, (9, 15), 1, (9,))
    found = Answer(question, {"ring": 1.0}, {"mpich": standings})
    assert found.better("mpich", 0.05) == []


def test_an_algorithm_that_is_slower_when_no_rank_is_late_is_no_choice() -> None:
    """With 1 MiB on 9 nodes, Rabenseifner's algorithm is slower than Intel MPI's and faster than MPICH's."""
    asked = terms("slingshot", hosts=["mpich", "intel"], algorithms=["rabenseifner"])
    found = by_simulation.answer(asked, Question("allreduce", 1 << 20, (9, 9), 1, (9,)))
    assert {host: list(names) for host, names in found.standings.items()} == {
        "mpich": ["rabenseifner"],
        "intel": [],
    }


def test_the_longest_questions_are_answered_first() -> None:
    def question(size: int, nodes: int) -> Question:
        return Question("allreduce", size, (nodes, nodes), 1, (nodes,))

    order = [(64, 9), (4096, 9), (64, 16), (1024, 16), (4096, 16), (16384, 16)]
    found = by_simulation._longest_first([question(*each) for each in order])
    assert [(each.size_bytes, each.nodes[0]) for each in found] == [
        (16384, 16), (64, 16), (4096, 16), (1024, 16), (4096, 9), (64, 9),
    ]  # fmt: skip


def test_rules_are_for_any_host_where_all_agree() -> None:
    def answer(nodes: int, size: int, names: dict[str, str]) -> Answer:
        good = Standing(0.5, 0.6)
        return Answer(
            Question("allreduce", size, (nodes, nodes), 1, (nodes,)),
            dict.fromkeys(names.values(), 1.0),
            {host: {name: good} for host, name in names.items()},
        )

    asked = terms("slingshot", hosts=["mpich", "openmpi"])
    both = {"mpich": "ring", "openmpi": "ring"}
    rows = simulated_rules.rules(
        asked,
        [
            answer(9, 64, both), answer(9, 1024, both),
            answer(10, 64, both), answer(10, 1024, both),
            answer(11, 64, both), answer(11, 1024, {"mpich": "bine"}),
        ],
    )  # fmt: skip
    assert [row.fields() for row in rows] == [
        ["allreduce", "*", "9..10", "1", "..2KiB", "ring"],
        ["allreduce", "mpich", "11", "1", "..255", "ring"],
        ["allreduce", "mpich", "11", "1", "256..2KiB", "bine"],
        ["allreduce", "openmpi", "11", "1", "..255", "ring"],
        ["allreduce", "openmpi", "11", "1", "256..2KiB", "native"],
    ]
    assert rows[0].reason(["mpich", "openmpi"]) == "simulated: 0.50 of the MPI's time"
    assert "native" not in rows[4].reason(["openmpi"])
    assert math.isclose(rows[0].of_host(["mpich"]) or 0, 0.5)


def test_what_needs_a_message_for_each_pair_stays_small() -> None:
    def names(nodes: int, ppn: int) -> set[str]:
        return set(simulated_candidates.simulated("allreduce", Shape(nodes, ppn), 65536))

    assert {"arrival_owners", "linear", "rabenseifner"} <= names(256, 1)
    assert not {"arrival_owners", "linear"} & names(257, 1)
    many = names(256, 64)
    assert "hierarchy(arrival_tree, arrival_owners)" in many
    assert not {"arrival_owners", "linear"} & many
    assert "nap" in many


# -- the command


def test_the_command_writes_rules(offbeat: Offbeat, tmp_path: Path) -> None:
    options = [
        "tune", "--simulate", "infiniband,slingshot", "--nodes", "9..16", "--bytes", "64,1MiB",
        "--patterns", "balanced,last_delayed",
    ]  # fmt: skip
    done = offbeat(*options, "--rules", "my.rules")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"offbeat: \d of 4 questions: allreduce, .*\n", done.stderr), "progress, at once"
    assert "arrival_owners" in done.stdout
    assert "Slingshot 11" in done.stdout
    rules = _core.read_rules(str(tmp_path / "my.rules"))
    assert rules.errors == []
    row = _core.plan("allreduce", "mpich", 12, 1, True, rules, "", "")[-1]
    assert row["expression"] != "native"
    (last,) = [
        row
        for row in _core.plan("allreduce", "mpich", 12, 1, True, rules, "", "")
        if row["least_bytes"] <= 1 << 20 and (row["most_bytes"] or math.inf) >= 1 << 20
    ]
    assert last["expression"] == "arrival_owners"
    assert "simulated" in last["reason"]
    assert offbeat("rules", "check", "my.rules").returncode == 0
    # A second run overwrites nothing.
    assert offbeat(*options, "--rules", "my.rules").returncode == 2
    again = offbeat(*options)
    assert (tmp_path / "my.rules").read_text() in again.stdout


def site_file(folder: Path, version: str = "5.0.9", **others: str) -> Path:
    """A machine file as offbeat calibrate writes it here, for the MPI of `fake_mpi`."""
    here = fingerprint("Open MPI", version)._asdict() | others
    lines = [f"{key} = {json.dumps(value)}" for key, value in here.items()]
    path = folder / "site.toml"
    network = PLAIN.replace("0.001", "1")  # GB/s
    path.write_text(network.replace("[core]", "\n".join(["[calibrated]", *lines, "[core]"])))
    return path


SITE = ("tune", "--simulate", "site.toml", "--nodes", "16", "--bytes", "64,1MiB", "--patterns", "balanced")


def test_rules_for_a_calibrated_machine_are_stored_and_explain_shows_the_gain(
    offbeat: Offbeat, fake_mpi: MakeMpi, tmp_path: Path
) -> None:
    site_file(tmp_path)
    openmpi = fake_mpi("openmpi")
    done = offbeat(*SITE)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / ".config" / "offbeat" / "rules").iterdir()
    assert f"Stored for {fingerprint('Open MPI', '5.0.9')}: {path}\n" in done.stdout
    assert "# Rules of" not in done.stdout, "they are not printed, too"
    options = ("allreduce", "64", "--nodes", "16", "--ppn", "1", "--json")
    found = json.loads(offbeat("explain", *options, path=openmpi.prefix / "bin").stdout)
    assert (found["mpi"], found["rules"]) == ("openmpi", str(path))
    assert re.search(r": simulated: 0\.\d\d of the MPI's time$", found["rows"][0]["reason"])
    said = offbeat("explain", *options[:-1], path=openmpi.prefix / "bin").stdout
    assert re.search(r" messages +simulated: 0\.\d\d of the MPI's time ", said), said


def test_rules_of_a_calibrated_machine_that_the_user_does_not_want_stored(
    offbeat: Offbeat, tmp_path: Path
) -> None:
    site_file(tmp_path)
    for options in (("--no-store",), ("--mpi", "mpich"), ("--ppn", "1", "--simulate", "slingshot")):
        done = offbeat(*SITE, *options)
        assert done.returncode == 0, done.stderr
        assert "# Rules of offbeat tune --simulate" in done.stdout
    assert not (tmp_path / ".config").exists()


@pytest.mark.parametrize(
    ("edit", "options", "message"),
    [
        ("", ("--mpi", "mpich"), "--store: plain was calibrated with Open MPI"),
        ("", ("--simulate", "site.toml,slingshot"), "--store: rules are stored for one machine"),
        ("", ("--simulate", "slingshot"), "is not from offbeat calibrate"),
        ('not_measured = "between_nodes"\n', (), "--store: plain: messages between nodes were not measured"),
    ],
)
def test_what_cannot_be_stored(
    offbeat: Offbeat, tmp_path: Path, edit: str, options: tuple[str, ...], message: str
) -> None:
    path = site_file(tmp_path)
    path.write_text(edit + path.read_text())
    done = offbeat(*SITE, "--store", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / ".config").exists()


def test_a_copy_of_a_level_is_a_reason_not_to_store_that_is_told(offbeat: Offbeat, tmp_path: Path) -> None:
    path = site_file(tmp_path)
    path.write_text('not_measured = "between_nodes"\n' + path.read_text())
    done = offbeat(*SITE)
    assert "\nNot stored: plain: messages between nodes were not measured" in done.stdout
    assert re.search(r"^combining and copying  \S", done.stdout, re.M), done.stdout
    assert not (tmp_path / ".config").exists()


def test_a_budget_leaves_out_the_most_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The question with the fewest ranks comes first, in whatever order they are asked."""
    many = 1

    def answer_some(
        function: Callable[[Question], Answer], inputs: Sequence[Question],
        on_result: Callable[[Answer], None], processes: int, seconds: float,
    ) -> None:  # fmt: skip
        assert seconds == 3600
        for question in inputs[:many]:
            on_result(function(question))

    monkeypatch.setattr(workers, "apply", answer_some)
    monkeypatch.chdir(tmp_path)
    options = ["tune", "--simulate", "slingshot", "--bytes", "64", "--patterns", "balanced", "--mpi", "mpich"]
    options += ["--nodes", "1024,2", "--ppn", "4", "--budget", "1h"]
    assert main([*options, "--rules", "my.rules"]) == 0
    said = capsys.readouterr().out
    assert "The budget was too short for allreduce on 1024 nodes, which get no rules." in said
    text = (tmp_path / "my.rules").read_text()
    assert re.search(r"^allreduce +\S+ +2 +4 ", text, re.MULTILINE)
    assert "1024" not in text
    many = 0
    assert main(options) == FAILED
    assert "--budget: too short for all sizes on any number of nodes" in capsys.readouterr().err


def test_a_call_that_takes_too_long_has_no_result() -> None:
    found: list[None] = []
    workers.apply(time.sleep, [0.0, 600.0], found.append, 2, seconds=10)
    assert found == [None]


def test_a_group_with_an_open_question_gets_no_rule() -> None:
    questions = [Question("allreduce", size, (n, n), 1, (n,)) for n in (2, 3) for size in (64, 1024)]
    kept, missing = by_simulation.without_part_answers([Answer(each) for each in questions[:3]], questions)
    assert [each.question for each in kept] == questions[:2]
    assert missing == questions[2:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--simulate", "moon"], "unknown machine 'moon'"),
        (["--simulate", "slingshot", "-n", "4"], "--ranks does not go with --simulate"),
        (["--simulate", "slingshot", "--output", "f"], "--output does not go with --simulate"),
        (["--simulate", "slingshot", "--nodes", "1"], "--nodes 1:"),
        (["--simulate", "slingshot", "--nodes", "16..9"], "--nodes 16..9:"),
        (["--simulate", "slingshot", "--nodes", "9..64,20"], "--nodes 9..64,20: 20 is in two parts"),
        (["--simulate", "slingshot", "--nodes", "9,9"], "--nodes 9,9: 9 is in two parts"),
        (["--simulate", "slingshot", "--ppn", "0"], "--ppn 0:"),
        (["--simulate", "slingshot", "--mpi", "lam"], "unknown MPI 'lam'"),
        (["--simulate", "slingshot", "--skew", "10us"], "--skew 10us:"),
        (["--simulate", "slingshot", "--nodes", "1048577"], "at most 1,048,576"),
        (["scan", "--simulate", "slingshot"], "not for scan"),
        (["--nodes", "16"], "--nodes belongs to --simulate"),
        (["--ppn", "16"], "--ppn belongs to --simulate"),
    ],
)
def test_wrong_options_are_one_line(offbeat: Offbeat, options: list[str], message: str) -> None:
    done = offbeat("tune", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") <= 2


# -- the built-in rules


@pytest.mark.parametrize("nodes", [9, 15, 16, 24, 32, 48])
@pytest.mark.parametrize("size", [64, 512, 2048, 32768, 65536, 262144, 1 << 20])
def test_what_the_built_in_rules_choose_beats_every_host(nodes: int, size: int) -> None:
    (row,) = [
        row
        for row in _core.plan("allreduce", "mpich", nodes, 1, True, None, "", "")
        if row["least_bytes"] <= size and (row["most_bytes"] is None or size <= row["most_bytes"])
    ]
    if row["expression"] == "native":
        return
    asked = terms(*MACHINES, algorithms=[row["expression"]])
    found = by_simulation.answer(asked, Question("allreduce", size, (nodes, nodes), 1, (nodes,)))
    for host in hosts.NAMES:
        assert found.better(host, 0.0) == [row["expression"]], f"{host}: {found.standings}"


def test_the_built_in_rules_go_beyond_the_test_bed() -> None:
    def chosen(nodes: int, size: int) -> str:
        return next(
            row["expression"]
            for row in _core.plan("allreduce", "openmpi", nodes, 1, True, None, "", "")
            if row["most_bytes"] is None or size <= row["most_bytes"]
        )

    assert chosen(10, 1 << 20) == chosen(100, 1 << 20) == "arrival_owners"
    assert chosen(1000, 64) == "recursive_multiplying(7)"
    assert chosen(5000, 64) == "native"
