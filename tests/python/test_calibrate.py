# SPDX-License-Identifier: BSD-3-Clause
"""Calibration from made-up measurements, whose true parameters are known."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from made_tuning import install
from offbeat import _core
from offbeat.__main__ import main
from offbeat.arrays import Floats
from offbeat.bench import rank_processes
from offbeat.calibrate import hockney, machine_file, parameters, probes, regression, session
from offbeat.calibrate.hockney import Case
from offbeat.calibrate.parameters import Calibrated
from offbeat.calibrate.probes import LONGEST, Layout, Probe, Result
from offbeat.calibrate.regression import Interval, bootstrap, breakpoints, fit, fit_line
from offbeat.errors import CommandError
from offbeat.machine import Fingerprint
from offbeat.mpi.choice import Choice
from offbeat.reports.calibration_sheets import too_few_line
from offbeat.simulate import machine


@dataclass(frozen=True)
class Truth:
    """What messages cost, in microseconds and bytes per microsecond."""

    latency: float = 100.0
    send_overhead: float = 8.0
    receive_overhead: float = 6.0
    send_gap: float = 20.0
    receive_gap: float = 0.0
    handshake: float = 110.0
    rate: float = 25.0
    longer_rate: float = 25.0
    eager_limit: int = 20000
    node_rate: float = float("inf")
    combine_ns: float = 0.2
    copy_ns: float = 0.1
    memory_slowdown: float = 1.0  # of all cores at once, beyond the cache
    cache_bytes: int = 1 << 20
    beyond: float = 3.0  # how many times as long cores take beyond the cache
    copies: float = 0.0  # microseconds that a core takes for a byte of an exchange; 0: as one message
    get_line_ns: float = 0.0  # more than a line of the core's own cache
    put_line_ns: float = 0.0
    noise: float = 0.02


class MadeUp:
    """Answers probes as the ranks would on a machine with these costs."""

    def __init__(self, truth: Truth, layout: Layout, seed: int = 7) -> None:
        self._truth = truth
        self._layout = layout
        self._random = random.Random(seed)

    def results(self, rounds: int) -> list[Result]:
        return [self.answer(probe) for probe in probes.probes_of_rounds(self._layout, 0, rounds, 1)]

    def answer(self, probe: Probe) -> Result:
        samples = [self._us(probe) for _ in range(8)]
        if probe.kind == "eager":
            samples = [float(self._truth.eager_limit)]
        received = []
        if probe.kind == "late":
            received = [self._noisy(self._truth.receive_overhead) for _ in range(8)]
        if probe.kind == "window":
            received = [self._noisy(self._window_us(probe, self._truth.get_line_ns)) for _ in range(8)]
        return Result(probe.kind, probe.round, probe.size_bytes, list(probe.ranks), samples, received)

    def _us(self, probe: Probe) -> float:
        truth, count, size = self._truth, len(probe.ranks), probe.size_bytes
        one = truth.latency + truth.send_overhead + truth.receive_overhead + size / truth.rate
        if probe.kind == "round_trip":
            waits = size > truth.eager_limit
            rate = truth.longer_rate if waits else truth.rate
            pairs = count // 2
            if len({self._layout.node_of_rank[rank] for rank in probe.ranks}) > 1:
                rate = min(rate, truth.node_rate / pairs)
            one = one - size / truth.rate + size / rate + (2 * truth.handshake if waits else 0)
            return self._noisy(one)
        if probe.kind == "fan_out":
            return self._noisy(one + (count - 2) * max(truth.send_overhead, truth.send_gap))
        if probe.kind == "fan_in":
            return self._noisy(one + (count - 2) * max(truth.receive_overhead, truth.receive_gap))
        if probe.kind == "late":
            return self._noisy(truth.send_overhead)
        if probe.kind == "exchange":
            each = max(1 / truth.rate, truth.copies)
            asking = 2 * truth.handshake if size > truth.eager_limit else 0.0
            return self._noisy(one + size * (each - 1 / truth.rate) + asking)
        if probe.kind == "line":
            return self._noisy(0.15)
        if probe.kind == "window":
            return self._noisy(self._window_us(probe, truth.put_line_ns))
        ns, vectors = (truth.combine_ns, 3) if probe.kind == "combine" else (truth.copy_ns, 2)
        if vectors * size > truth.cache_bytes:
            ns *= truth.beyond * (truth.memory_slowdown if count > 1 else 1.0)
        return self._noisy(size * ns * 1e-3)

    def _window_us(self, probe: Probe, line_ns: float) -> float:
        return 0.3 + probe.size_bytes * (self._truth.copy_ns + line_ns / 64) * 1e-3

    def _noisy(self, us: float) -> float:
        """Only ever longer, and now and then much longer."""
        late = self._random.expovariate(20) if self._random.random() < 0.1 else 0.0
        return us * (1 + abs(self._random.gauss(0, self._truth.noise)) + late)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals from fewer draws are less exact, and all tests together several times as quick."""
    monkeypatch.setattr(regression, "REPLICATES", 60)


EIGHT = Layout([0, 1, 2, 3, 4, 5, 6, 7], cpus=2)
FOUR_BY_FOUR = Layout([rank // 4 for rank in range(16)], cpus=4)
ONE = Layout([0, 0], cpus=2)


def holds(interval: Interval, truth: float, slack: float = 0.02) -> bool:
    """Whether a value is in the interval. The lower quantile of one-sided noise is a little too high."""
    return interval.low * (1 - slack) <= truth <= interval.high * (1 + slack)


def test_the_parameters_of_a_network_come_out() -> None:
    truth = Truth()
    found = parameters.fit_parameters(MadeUp(truth, EIGHT).results(16), EIGHT)
    assert found.within_node is None
    messages = found.between_nodes
    assert messages is not None
    assert messages.eager_limit_bytes == truth.eager_limit
    first, longer = messages.segments[0], messages.segments[-1]
    assert longer.from_bytes == truth.eager_limit + 1
    assert holds(first.latency_us, truth.latency)
    assert holds(longer.latency_us, truth.latency)
    assert holds(first.bandwidth_gb_per_s, truth.rate / 1000)
    assert holds(longer.bandwidth_gb_per_s, truth.longer_rate / 1000)
    assert longer.bandwidth_gb_per_s.high / longer.bandwidth_gb_per_s.low < 1.1
    for key, value in (
        ("send_overhead_us", truth.send_overhead),
        ("receive_overhead_us", truth.receive_overhead),
        ("handshake_us", truth.handshake),
        ("send_gap_us", truth.send_gap),
    ):
        assert holds(messages.overheads[key], value, 0.15), key
    assert messages.error < 0.03


def test_a_parameter_whose_interval_holds_zero_is_left_out_and_named() -> None:
    found = parameters.fit_parameters(MadeUp(Truth(handshake=0.0, noise=0.05), EIGHT).results(12), EIGHT)
    assert found.between_nodes is not None
    assert "handshake_us" not in found.between_nodes.overheads
    assert "receive_gap_us" not in found.between_nodes.overheads
    assert [line for line in found.refused if "receive_gap_us" in line]
    assert [line for line in found.refused if "no more latency from" in line or "handshake" in line]


def test_the_limit_of_a_node_comes_from_pairs_at_once() -> None:
    truth = Truth(
        latency=2, send_overhead=0.3, receive_overhead=0.3, handshake=2, rate=10000, longer_rate=10000
    )
    limited = parameters.fit_parameters(
        MadeUp(replace(truth, node_rate=25000), FOUR_BY_FOUR).results(12), FOUR_BY_FOUR
    )
    assert limited.node_bandwidth_gb_per_s is not None
    assert holds(limited.node_bandwidth_gb_per_s, 25, 0.05)
    free = parameters.fit_parameters(MadeUp(truth, FOUR_BY_FOUR).results(12), FOUR_BY_FOUR)
    assert free.node_bandwidth_gb_per_s is None
    assert [line for line in free.refused if "node_bandwidth_gb_per_s" in line]


def test_cores_and_the_memory_that_they_share() -> None:
    found = parameters.fit_parameters(
        MadeUp(Truth(latency=0.3, send_overhead=0.1, receive_overhead=0.1, memory_slowdown=2.0), ONE).results(
            10
        ),
        ONE,
    )
    assert holds(found.core["combine_ns_per_byte"], 0.2, 0.05)
    assert holds(found.core["copy_ns_per_byte"], 0.1, 0.05)
    (beyond,) = found.beyond
    assert beyond.cache_bytes == pytest.approx(1 << 20, rel=0.3)
    assert holds(beyond.values["combine_ns_per_byte"], 0.6, 0.05)
    assert holds(beyond.values["copy_ns_per_byte"], 0.3, 0.05)
    assert holds(beyond.values["node_memory_bandwidth_gb_per_s"], 3 * 2 / (0.6 * 2), 0.1)
    assert found.board.keys() == {"line_ns"}
    assert holds(found.board["line_ns"], 150, 0.05)
    assert [line for line in found.refused if "line_gap_ns" in line]
    assert found.between_nodes is None


def test_cores_that_are_equally_fast_for_all_data_have_no_cache() -> None:
    truth = Truth(latency=0.3, send_overhead=0.1, receive_overhead=0.1, beyond=1.2)
    found = parameters.fit_parameters(MadeUp(truth, ONE).results(10), ONE)
    assert found.beyond == []
    assert holds(found.core["combine_ns_per_byte"], 0.22, 0.15)


def test_what_lines_of_another_core_take_more() -> None:
    truth = Truth(latency=0.3, send_overhead=0.1, receive_overhead=0.1, get_line_ns=5.0, put_line_ns=3.0)
    found = parameters.fit_parameters(MadeUp(truth, ONE).results(12), ONE)
    assert holds(found.board["line_gap_ns"], 5, 0.15)
    assert holds(found.board["put_line_ns"], 3, 0.25)
    assert holds(found.board["line_ns"], 75, 0.05)  # each of the two ways of a line
    assert found.board["far_line_ns"] == found.board["line_ns"]
    read = written(found)
    assert read.board is not None
    assert read.board.put_line_ns == pytest.approx(found.board["put_line_ns"].value, rel=1e-3)


def test_an_exchange_says_what_cores_copy() -> None:
    truth = Truth(
        latency=0.3, send_overhead=0.1, receive_overhead=0.1, handshake=0.3, rate=5000, longer_rate=5000,
        copies=1 / 3000,
    )  # fmt: skip
    found = parameters.fit_parameters(MadeUp(truth, ONE).results(16), ONE)
    assert found.within_node is not None
    last = found.within_node.segments[-1]
    for key in ("send_ns_per_byte", "receive_ns_per_byte"):
        assert holds(last.copies[key], 0.5 / 3, 0.05)
    read = written(found)
    assert read.within_node[-1].send_ns_per_byte == pytest.approx(0.5 / 3, rel=0.1)
    # The machine takes as long for an exchange as the one that was measured.
    cached = replace(read, beyond=()).simulated(1, 2)
    exits = cached.run("allreduce", "recursive_doubling", 1 << 20, [0.0] * 2, None)["exits"]
    combining = read.combine_ns_per_byte * 1e-3 * (1 << 20)
    assert max(exits) * 1e6 - combining == pytest.approx(0.5 + 0.6 + (1 << 20) / 3000, rel=0.1)


def test_too_few_rounds_are_refused_in_one_line() -> None:
    with pytest.raises(CommandError, match=r"^the budget was too short: 3 rounds of .* need 6$"):
        parameters.fit_parameters(MadeUp(Truth(), EIGHT).results(3), EIGHT)


def test_one_interrupted_message_does_not_move_a_fit() -> None:
    sizes = np.linspace(1, 1000, 40)
    values = 5 + 0.01 * sizes
    values[3] *= 1000
    assert fit(fit_line(sizes), values) == pytest.approx([5, 0.01])


def test_coefficients_are_never_negative() -> None:
    sizes = np.linspace(1, 1000, 40)
    assert fit(fit_line(sizes), 0.01 * sizes + 1e-9 - 1e-4 * (sizes > 500)).min() >= 0
    falling = fit(fit_line(sizes), 2000 - sizes)
    assert falling[1] == 0


def test_a_breakpoint_is_found_only_if_there_is_one() -> None:
    random_ = np.random.default_rng(3)
    sizes = np.exp(random_.uniform(0, 14, 150))
    straight = (10 + 0.01 * sizes) * random_.normal(1, 0.02, 150)
    assert breakpoints(sizes, straight, []) == []
    bent = np.where(sizes < 5000, 10 + 0.01 * sizes, 60 + 0.002 * sizes) * random_.normal(1, 0.02, 150)
    found = breakpoints(sizes, bent, [])
    assert found
    assert any(1500 < point < 15000 for point in found)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(40):
        random_ = np.random.default_rng(seed)
        groups = [k // 5 for k in range(100)]
        values = random_.normal(10, 1, 20)[[k // 5 for k in range(100)]] + random_.normal(0, 0.1, 100)

        def median(numbers: npt.NDArray[np.intp], values: Floats = values) -> Floats:
            return np.array([np.median(values[numbers])])

        draws = bootstrap(groups, median)
        interval = draws.intervals()[0]
        inside += interval.low <= 10 <= interval.high
    assert inside >= 33  # 38 on average; without groups it would be about 20


@pytest.mark.parametrize("expression", [*hockney.OWN_ALGORITHMS, "native(ring)", "native(nonoverlapping)"])
def test_hockney_parameters_come_out_of_each_formula(expression: str) -> None:
    formula = hockney.formula_of(expression)
    assert formula is not None
    random_ = random.Random(5)
    cases = []
    for ranks in (2, 4, 7, 8):
        for size in session.ALGORITHM_SIZES:
            seconds = _core.cost(
                "allreduce", formula, ranks, size, a=120e-6, b=4e-8, c=2e-10, eager_bytes=20000
            )
            assert seconds is not None
            cases.append(Case(ranks, size, seconds * 1e6 * random_.gauss(1, 0.01)))
    found = hockney.fit_algorithm(expression, cases, 0.2, 20000)
    assert isinstance(found, hockney.Hockney), found
    assert found.latency_us.value == pytest.approx(120, rel=0.05)
    assert found.bandwidth_gb_per_s.value == pytest.approx(0.025, rel=0.05)
    assert found.error < 0.03
    assert found.r_squared > 0.99


def test_an_algorithm_that_its_formula_does_not_describe_has_large_errors() -> None:
    cases = [
        Case(ranks, size, 100.0 + size * ranks**2) for ranks in (2, 4, 8) for size in session.ALGORITHM_SIZES
    ]
    found = hockney.fit_algorithm("ring", cases, 0.2, 20000)
    assert isinstance(found, str) or found.largest_error > 0.3


def test_an_algorithm_without_latency_is_refused_in_one_line() -> None:
    cases = [Case(ranks, size, size * 0.08) for ranks in (2, 4, 8) for size in session.ALGORITHM_SIZES]
    assert hockney.fit_algorithm("ring", cases, 0.0, LONGEST) == "ring: latency_us: its interval holds 0"


HERE = Fingerprint('a "fast" one', 64, "MPICH", "5.0.2")


def written(found: Calibrated, algorithms: Sequence[hockney.Hockney] = ()) -> machine.Machine:
    text = machine_file.machine_file_text(
        found, algorithms, name='the "quoted"', source="a test", calibrated=HERE, level="between_nodes"
    )
    return machine.parse(text, "the file")


def test_the_machine_file_says_what_was_found_and_the_simulator_reads_it() -> None:
    truth = Truth(longer_rate=40.0)
    found = parameters.fit_parameters(MadeUp(truth, EIGHT).results(16), EIGHT)
    some = Interval(3.0, 2.0, 4.0)
    read = written(found, [hockney.Hockney("native(ring)", some, some, 0.1, 0.2, 0.99, 20)])
    assert read.name == 'the "quoted"'
    assert read.calibrated == HERE
    assert read.eager_limit_bytes == truth.eager_limit
    assert read.between_nodes[0].latency_us == pytest.approx(truth.latency, rel=0.05)
    assert read.between_nodes[-1].bandwidth_gb_per_s == pytest.approx(0.04, rel=0.05)
    assert read.message_between_nodes.send_gap_us == pytest.approx(20, rel=0.2)
    assert [(a.expression, a.mpi, a.level) for a in read.algorithms] == [
        ("native(ring)", "mpich", "between_nodes")
    ]
    exits = read.simulated(8, 1).run("allreduce", "ring", 1 << 20, [0.0] * 8, None)["exits"]
    cost = 14 * (truth.latency + truth.send_overhead + truth.receive_overhead + 2 * truth.handshake) * 1e-6
    assert max(exits) == pytest.approx(cost + 14 / 8 * (1 << 20) / 40e6, rel=0.1)


def test_grids_read_a_calibrated_file(tmp_path: Path) -> None:
    """The core has a reader of its own."""
    found = parameters.fit_parameters(MadeUp(Truth(), EIGHT).results(10), EIGHT)
    text = machine_file.machine_file_text(
        found, [], name="site", source="", calibrated=HERE, level="between_nodes"
    )
    (tmp_path / "site.toml").write_text(text)
    assert _core.machine_name(str(tmp_path / "site.toml")) == "site"


def test_a_level_that_was_not_measured_says_so() -> None:
    found = parameters.fit_parameters(MadeUp(Truth(latency=0.3, send_overhead=0.1), ONE).results(10), ONE)
    text = machine_file.machine_file_text(
        found, [], name="one", source="", calibrated=HERE, level="within_node"
    )
    assert "[between_nodes]  # not measured" in text
    read = machine.parse(text, "the file")
    (first,) = read.between_nodes
    assert (first.latency_us, first.bandwidth_gb_per_s) == (
        read.within_node[0].latency_us, read.within_node[0].bandwidth_gb_per_s
    )  # fmt: skip
    assert first.send_ns_per_byte == 0, "no core copies messages between nodes"
    assert machine_file.advice_for_missing_level(found) == (
        "All ranks were on one node: [between_nodes] is a copy of [within_node]. Measure on two nodes, or "
        "edit it, before you simulate several."
    )
    assert read.warning(1, 8) is None
    warning = read.warning(2, 8)
    assert warning is not None
    assert "messages between nodes were not measured" in warning


def test_ranks_that_were_alone_on_their_nodes_are_told() -> None:
    found = parameters.fit_parameters(MadeUp(Truth(), EIGHT).results(10), EIGHT)
    assert found.within_node is None
    advice = machine_file.advice_for_missing_level(found)
    assert advice is not None
    assert advice.startswith("Each rank was alone on its node: [within_node] is a copy of [between_nodes].")
    read = written(found)
    assert read.warning(64, 1) is None
    assert "messages within a node were not measured" in (read.warning(64, 2) or "")
    assert machine_file.advice_for_missing_level(replace(found, within_node=found.between_nodes)) is None


def test_algorithms_with_too_few_times_are_one_line(tmp_path: Path) -> None:
    made = made_session(tmp_path / "m.json")
    made.goal.algorithms = ["ring", "linear"]
    found = parameters.fit_parameters(made.results, EIGHT)
    assert session.fit_algorithms(made, found, []) == ([], [], {"ring": 0, "linear": 0})
    assert too_few_line({"ring": 0, "linear": 4}) == (
        "Left out: ring, linear: the budget was too short: 0 to 4 cases each were measured, and a fit needs "
        "6. To measure more:"
    )
    assert ": 4 cases were measured" in too_few_line({"ring": 4})


def test_a_simulation_between_nodes_that_were_not_measured_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = parameters.fit_parameters(MadeUp(Truth(latency=0.3, send_overhead=0.1), ONE).results(10), ONE)
    text = machine_file.machine_file_text(
        found, [], name="one", source="", calibrated=HERE, level="within_node"
    )
    (tmp_path / "one.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    arguments = ["simulate", "--machine", "one.toml", "--ppn", "2", "--sizes", "8", "--algorithms", "ring"]
    for nodes, said in (("1", ""), ("1,2", "offbeat: one: messages between nodes were not measured: ")):
        assert main([*arguments, "--nodes", nodes]) == 0
        error = capsys.readouterr().err
        assert error.startswith(said)
        assert bool(error) == bool(said)


def made_session(path: Path, rounds: int = 8) -> session.Session:
    about: dict[str, Any] = {name: {} for name in ("offbeat", "mpi", "binding", "environment")}
    about |= {"started": "", "updated": "", "machine": {"processor": "p"}}
    made = session.Session(session.Goal(8, "m", [], []), about, MadeUp(Truth(), EIGHT).results(rounds))
    made.node_of_rank = list(EIGHT.node_of_rank)
    made.write(path)
    return made


def test_the_file_has_all_samples(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    made = made_session(path)
    read = session.read(path)
    assert read.results == made.results
    assert read.goal == made.goal
    assert read.next_round() == 8


def test_a_launcher_starts_the_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_session(tmp_path / "m.json")
    made.goal.launcher = "srun --mpi=pmix"
    made.write(tmp_path / "m.json")
    started: list[list[str]] = []
    monkeypatch.setattr(
        rank_processes, "follow", lambda built, *others, **options: started.append(built.command)
    )
    again = session.read(tmp_path / "m.json")
    choice = Choice(install(), "made up")
    session.measure_messages(again, choice, tmp_path / "m.json", 0.0, lambda records: None, show_output=False)
    assert started[0][:4] == ["srun", "-n", "8", "--mpi=pmix"]


def test_what_a_killed_run_left_is_taken_once(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    made = made_session(path, 2)
    extra = {"record": "probe", **made.results[0].to_json(), "round": 2}
    part = tmp_path / "m.json.part"
    part.write_text(json.dumps(extra) + "\n" + '{"record":"probe","kin')
    again = session.read(path)
    assert again.take_part(path) == 1
    assert again.take_part(path) == 0
    assert session.read(path).next_round() == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not a file of offbeat calibrate: it is not JSON"),
        ('{"format": "offbeat bench"}', "is not a file of offbeat calibrate"),
        ('{"format": "offbeat calibrate", "version": 9}', "has version 9 of the format"),
        ('{"format": "offbeat calibrate", "version": 1}', "is damaged: no 'goal'"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=why):
        session.read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offbeat", None), ("mpi", None), ("machine", {}), ("node_of_rank", []), ("node_of_rank", [0]),
        ("probes", [{"kind": "round_trip", "round": 0, "bytes": 8, "ranks": [0, 77], "us": [1.0]}]),
        ("probes", [{"kind": "no_such", "round": 0, "bytes": 8, "ranks": [0, 1], "us": [1.0]}]),
        ("probes", [{"kind": "copy", "round": 0, "bytes": -8, "ranks": [0], "us": [1.0]}]),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "m.json"
    made_session(path, 1)
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(CommandError, match="is damaged: "):
        session.read(path)


def test_probes_are_random_but_the_same_for_a_seed() -> None:
    one = list(probes.probes_of_rounds(FOUR_BY_FOUR, 0, 4, 1))
    assert one == list(probes.probes_of_rounds(FOUR_BY_FOUR, 0, 4, 1))
    assert one != list(probes.probes_of_rounds(FOUR_BY_FOUR, 0, 4, 2))
    assert list(probes.probes_of_rounds(FOUR_BY_FOUR, 2, 2, 1)) == [
        probe for probe in one if probe.round >= 2
    ]
    trips = [probe for probe in one if probe.kind == "round_trip"]
    assert {len(probe.ranks) for probe in trips} == {2, 4, 8}
    assert all(1 <= probe.size_bytes <= LONGEST for probe in trips)
