# SPDX-License-Identifier: BSD-3-Clause
"""The backend in jobs of several ranks. A job has many cases, because torch takes seconds to start."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import jobs
import pytest

BOARDS = Path("/dev/shm")
REDUCTIONS = ("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor")
COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    before = set(BOARDS.glob("*offbeat*"))
    yield
    assert set(BOARDS.glob("*offbeat*")) <= before


@pytest.mark.in_turn(1, "size")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_collective(size: int) -> None:
    jobs.all_right(jobs.start("collectives.py", size), least_checks=1500)


@pytest.mark.in_turn(1, "size")
@pytest.mark.parametrize("size", [2, 4])
def test_messages(size: int) -> None:
    jobs.all_right(jobs.start("messages.py", size), least_checks=12)


@pytest.mark.in_turn(1, "size")
@pytest.mark.parametrize("size", [2, 3])
def test_futures_callbacks_and_threads(size: int) -> None:
    jobs.all_right(jobs.start("calls.py", size), least_checks=110)


@pytest.mark.in_turn(1, "size")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_random_sequences_on_several_groups(size: int, pytestconfig: pytest.Config) -> None:
    count = "1000" if pytestconfig.getoption("--deep") else "50"
    seed = str(pytestconfig.getoption("--seed"))
    jobs.all_right(jobs.start("sequences.py", size, count, seed, limit_s=900), least_checks=100)


@pytest.mark.in_turn(1, "program", "least_checks", "size")
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("program", "least_checks"), [("training.py", 12), ("compiled.py", 6)])
def test_training(program: str, least_checks: int, size: int, pytestconfig: pytest.Config) -> None:
    runs = 10 if pytestconfig.getoption("--deep") else 3
    jobs.all_right(jobs.start(program, size, str(runs)), least_checks)


def errors_of(ranks: list[jobs.Rank], what: str, of_ranks: list[int]) -> list[tuple[float, str]]:
    found = []
    for rank in of_ranks:
        line = re.search(rf"^{what}: ([\d.]+) s: (.*)$", ranks[rank].out, re.MULTILINE)
        assert line, jobs.text_of(ranks)
        found.append((float(line[1]), line[2]))
    return found


def test_errors_reach_all_ranks_and_name_one() -> None:
    ranks = jobs.start("failures.py", 3, "errors")
    everyone = [0, 1, 2]
    assert [each.exit_code for each in ranks] == [0, 7, 0], jobs.text_of(ranks)
    for _, text in errors_of(ranks, "ended", [0, 2]):
        assert "rank 1" in text
        assert "has waited" not in text
    for what, words in (
        ("lengths", ("mismatched allreduce: ", "has 1000 x float32", "has 1001 x float32")),
        ("after an error", ("mismatched allreduce: ", "has 1001 x float32")),
        ("kinds", ("bcast of 40 bytes", "allreduce of 10 x float32")),
        ("late", ("has waited 1 s for rank 2",)),
        ("late, begun", ("has waited 1 s for rank 2",)),
    ):
        for _, text in errors_of(ranks, what, everyone):
            assert text.startswith("DistBackendError: offbeat: "), jobs.text_of(ranks)
            assert all(word in text for word in words), jobs.text_of(ranks)
    for rank in ranks:
        assert len(re.findall(r"^twice: .* s: no error$", rank.out, re.MULTILINE)) == 2, jobs.text_of(ranks)
    ((_, text),) = errors_of(ranks, "no message", [0])
    assert "rank 1" in text
    ((_, text),) = errors_of(ranks, "a message that is too long", [0])
    assert "receives 4000 bytes from rank 1" in text
    for name in COLLECTIVES:
        for begun in ("", ", begun"):
            for _, text in errors_of(ranks, f"unequal {name}{begun}", everyone):
                assert text.startswith("DistBackendError: offbeat: mismatched "), text
    for other in ("AVG", "PREMUL_SUM"):
        for name in REDUCTIONS:
            for _, text in errors_of(ranks, f"{other} {name}", everyone):
                assert text.startswith("DistBackendError: offbeat: mismatched "), text
                assert f"float32, {other.lower()}" in text, text
                assert "float32, sum" in text, text
    for what in ("shapes", "dimensions", "types", "operations"):
        texts = {text for _, text in errors_of(ranks, f"sparse {what}", everyone)}
        assert len(texts) == 1, jobs.text_of(ranks)
        assert "mismatched all_reduce: rank 0 has a sparse tensor of " in texts.pop()
    for _, text in errors_of(ranks, "after sparse", everyone):
        assert text == "no error"
    for _, text in errors_of(ranks, "new timeout", everyone):
        assert "has waited 1 s for rank 2" in text
    for used in ("not used", "used"):
        for seconds, text in errors_of(ranks, f"left, {used}", [0, 2]):
            assert text == "DistBackendError: offbeat: rank 1 has left the group"
            assert seconds < jobs.soon_s(), jobs.text_of(ranks)
        ((_, text),) = errors_of(ranks, f"destroyed, {used}", [1])
        assert text == "DistBackendError: offbeat: this process group has been destroyed"
    for _, text in errors_of(ranks, "given up", everyone):
        assert "rank 1 has given up: abort() of the process group" in text


@pytest.mark.in_turn(1, "case")
@pytest.mark.parametrize("case", ["killed", "killed-begun"])
def test_a_killed_rank_is_named_soon_and_the_others_can_go_on(case: str) -> None:
    ranks = jobs.start("failures.py", 3, case)
    assert ranks[1].exit_code == -signal.SIGKILL
    for name in (*COLLECTIVES, "barrier", "send", "recv") if case == "killed-begun" else ("all_reduce",):
        # Rank 2 only gives its data to rank 0 in some of them, and may have done so.
        for seconds, text in errors_of(
            ranks, f"killed, {name}", [0] if name in ("gather", "reduce") else [0, 2]
        ):
            assert "rank 1 has died" in text, jobs.text_of(ranks)
            assert seconds < jobs.soon_s(), jobs.text_of(ranks)
    for rank in (0, 2):
        assert "\nsum of those that are left: 20\n" in ranks[rank].out, jobs.text_of(ranks)


@pytest.mark.in_turn(1, "case")
@pytest.mark.parametrize("case", ["idle", "waited", "under-way", "fork", "destroyed", "dropped"])
def test_ends_are_clean(case: str, tmp_path: Path) -> None:
    ranks = jobs.start("ends.py", 2, case, str(tmp_path / "store"), limit_s=90)
    jobs.all_right(ranks)


@pytest.mark.in_turn(1, "launcher")
@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_launchers(launcher: str) -> None:
    jobs.all_right([jobs.start_with(launcher, "messages.py", 2)], least_checks=12)


@pytest.mark.in_turn(1, "size")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_torchs_own_tests(size: int, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--deep"):
        assert jobs.torch_suite(size) > 80
    else:
        seed = str(pytestconfig.getoption("--seed"))
        assert jobs.torch_suite(size, "--some", "8", seed) > 0
