# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/many_cores.py without an MPI: the order of the cells, the budget, and the comparison."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import many_cores
import pytest
from offbeat.bench.plan import Plan
from offbeat.bench.results import MEASURED, Benchmark, Result
from offbeat.errors import CommandError
from offbeat.simulate.agreement import Time, wrong_pairs, wrong_times
from offbeat.units import parse_skew

ORDERED = many_cores.ordered_cells(
    ["allreduce", "bcast"], [65536, 8, 1024], ["balanced", "random"], parse_skew("1")
)


def test_the_most_telling_calls_come_first() -> None:
    calls = list(dict.fromkeys((cell.collective, cell.size_bytes) for cell in ORDERED))
    assert calls == [
        ("allreduce", 65536), ("allreduce", 8), ("bcast", 65536), ("allreduce", 1024), ("bcast", 8),
        ("bcast", 1024),
    ]  # fmt: skip
    assert [cell.pattern for cell in ORDERED] == ["balanced", "random"] * 6
    assert [cell.skew for cell in ORDERED[:2]] == ["0us", "1x"]
    assert many_cores.fitting(ORDERED, [], 3 * many_cores.LEAST_S) == ORDERED[:3]
    assert many_cores.fitting(ORDERED, [], 0) == ORDERED[:1]
    plan = Plan(2, [8], ["native"])
    earlier = [Benchmark(plan, {}, [Result(cell, "native", MEASURED) for cell in ORDERED[:2]])]
    assert many_cores.fitting(ORDERED, earlier, 11 * many_cores.LEAST_S) == [*ORDERED[2:], ORDERED[0]]


def test_all_algorithms_on_the_board_take_part() -> None:
    assert many_cores.usual_algorithms(["bcast"]) == ["default", "arrival_direct", "binomial"]
    found = many_cores.usual_algorithms(["allreduce", "alltoall"])
    assert {"arrival_tree", "arrival_shares", "arrival_chain", "arrival_direct", "ring", "pairwise"} <= set(
        found
    )
    assert "arrival_owners" not in found, "that one is for messages between nodes"


class Made(many_cores.Session):
    """A session whose jobs take twice the time that they have. One of them fails."""

    now = 0.0

    def calibrate(self, install: object, folder: Path, seconds: float) -> None:
        Made.now += 2 * seconds
        self.found.machine_files["one"] = f"{seconds:.0f} s"

    def measure(self, plan: Plan, install: object) -> None:
        Made.now += 2 * plan.budget_s
        name = str(getattr(install, "name", ""))
        if (name, plan.ranks) == ("other", 4):
            raise CommandError("no")
        results = [Result(cell, "native", MEASURED, last_delays_us=[3.0, 3.0]) for cell in plan.cells]
        self.found.turns[name, plan.ranks].append(Benchmark(plan, {}, results))


def test_the_time_is_kept_and_what_is_missing_is_named(tmp_path: Path) -> None:
    Made.now = 0.0
    plan = Plan(2, [8], ["native"], chosen_cells=ORDERED)
    installs = [SimpleNamespace(name=name) for name in ("one", "other")]
    session = Made(plan, installs, [2, 4], many_cores.Budget(100, lambda: Made.now))  # type: ignore[arg-type]
    session.run(1, tmp_path)
    assert Made.now <= 100 * many_cores.MEASURING, "the time for the comparison is left"
    assert session.found.machine_files == {"one": "11 s"}
    assert [job for job, turns in session.found.turns.items() if turns] == [("one", 4), ("one", 2)]
    assert session.found.failed == ["other, 4 ranks: no", "other, 2 ranks: no time left in a turn"]
    times = session.found.times()
    assert {time.us for time in times} == {3.0}
    missing = many_cores.not_measured(ORDERED, [("one", 4), ("other", 4)], times)
    assert missing == ["other, 4 ranks: allreduce 64 KiB, 8 B, 1 KiB; bcast 64 KiB, 8 B, 1 KiB"]
    few = [time for time in times if (time.collective, time.size_bytes) != ("bcast", 8)]
    assert many_cores.not_measured(ORDERED, [("one", 4)], few) == ["one, 4 ranks: bcast 8 B"]
    Made.now = 0.0
    session = Made(plan, installs, [2], many_cores.Budget(100, lambda: Made.now))  # type: ignore[arg-type]
    session.run(2, None)
    assert [len(turns) for turns in session.found.turns.values()] == [2], "each turn has its time"


def test_what_the_model_gets_wrong_is_listed_the_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    def time(algorithm: str, us: float, collective: str) -> Time:
        return Time(16, 8, "balanced", 0.0, 1, algorithm, us, collective, "one")

    ring, tree = time("ring", 10, "bcast"), time("binomial", 20, "bcast")
    near, far = time("ring", 10, "reduce"), time("binomial", 40, "reduce")
    simulated = {ring: 11.0, tree: 10.5, near: 50.0, far: 41.0}
    assert wrong_pairs(simulated) == [(near, far), (ring, tree)]
    assert wrong_times(simulated) == [near, tree]
    many_cores.show_model(simulated, 1)
    printed = capsys.readouterr().out
    assert "  one, 16 ranks, reduce, 8 B, balanced: ring 10 (50), binomial 40 (41)\n" in printed
    assert "bcast, 8 B" not in printed, "no more lines than wanted"
    many_cores.show_native([time("native", 9, "bcast"), time("default", 10, "bcast"), ring], 5)
    printed = capsys.readouterr().out
    assert "  one, 16 ranks, bcast, 8 B, balanced: 0.90\n" in printed, "native is faster"
    assert "\n0 cells in which another algorithm is" in printed
