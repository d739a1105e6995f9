# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

import pytest
from fakes import Offbeat
from offbeat.bench.arrival_patterns import (
    PATTERNS,
    delays_as_text,
    file_text,
    find_pattern,
    parse_names,
    read_delays,
    read_rounds,
    rounds_text,
)
from offbeat.errors import CommandError


def test_formulas() -> None:
    expected = {
        "balanced": [[0, 0, 0, 0, 0]],
        "first_early": [[0, 1, 1, 1, 1]],
        "last_delayed": [[0, 0, 0, 0, 1]],
        "first_delayed": [[1, 0, 0, 0, 0]],
        "ascending": [[0, 0.25, 0.5, 0.75, 1]],
        "descending": [[1, 0.75, 0.5, 0.25, 0]],
    }
    for name, rounds in expected.items():
        assert PATTERNS[name].rounds(5, 1) == rounds


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("ranks", [1, 2, 7])
def test_every_round_has_a_delay_between_0_and_1_for_each_rank(name: str, ranks: int) -> None:
    for delays in PATTERNS[name].rounds(ranks, 3):
        assert len(delays) == ranks
        assert all(0 <= delay <= 1 for delay in delays)


def test_random_depends_on_the_seed_alone_and_is_uniform() -> None:
    rounds = PATTERNS["random"].rounds(4, 7)
    assert rounds == PATTERNS["random"].rounds(4, 7)
    assert rounds != PATTERNS["random"].rounds(4, 8)
    assert rounds[0] != rounds[1]
    assert PATTERNS["random"].rounds(4, 7, 3) == rounds[:3]
    delays = [delay for row in rounds for delay in row]
    assert abs(sum(delays) / len(delays) - 0.5) < 0.02


def test_text_for_the_ranks() -> None:
    assert delays_as_text(["balanced", "ascending"], 3, 1).splitlines() == [
        "balanced 1",
        "0.000000000 0.000000000 0.000000000",
        "ascending 1",
        "0.000000000 0.500000000 1.000000000",
    ]


def test_unknown_patterns_are_refused_by_name() -> None:
    assert parse_names("random, balanced,random") == ["random", "balanced"]
    with pytest.raises(CommandError, match=r"'late'.*last_delayed"):
        parse_names("balanced,late")


def test_names_with_a_number() -> None:
    for seed in (1, 2):
        for delays in find_pattern("bimodal(3)").rounds(8, seed)[:50]:
            assert sorted(delays) == [0] * 5 + [1] * 3
    assert find_pattern("bimodal").rounds(40, 1)[0].count(1) == 2
    assert find_pattern("node_late(4)").rounds(10, 1) == [[0] * 8 + [1] * 2]
    for name, message in (("bimodal(0)", "at least 1"), ("ring(2)", "unknown"), ("bimodal(x)", "unknown")):
        with pytest.raises(CommandError, match=message):
            find_pattern(name)
    with pytest.raises(CommandError, match="there are only 2 ranks"):
        find_pattern("bimodal(3)").rounds(2, 1)


def test_further_formulas() -> None:
    expected = {
        "half_step": [0, 0, 0, 1, 1],
        "bell": [0, 0.75, 1, 0.75, 0],
        "valley": [1, 0.25, 0, 0.25, 1],
        "node_late": [0, 0, 0, 1, 1],
    }
    for name, delays in expected.items():
        assert find_pattern(name).rounds(5, 1) == [delays]
    once = find_pattern("random_once").rounds(5, 3)
    assert (len(once), max(once[0])) == (1, 1.0)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "skew.txt"
    path.write_text(file_text([0, 12.5, 50], "made up") + "\n# the end\n")
    assert read_delays(path) == [0, 12.5, 50]
    assert find_pattern(str(path)).rounds(3, 1) == [[0, 0.25, 1]]
    assert delays_as_text([str(path)], 3, 1).splitlines()[1] == "0.000000000 0.250000000 1.000000000"
    with pytest.raises(CommandError, match="is a pattern of 3 ranks, not of 4"):
        find_pattern(str(path)).rounds(4, 1)
    for text, message in (
        ("1\nx\n", "line 2: 'x' is not a delay"),
        ("-1\n", "line 1"),
        ("nan\n", "line 1"),
        ("", "no line with a delay"),
    ):
        path.write_text(text)
        with pytest.raises(CommandError, match=message):
            read_delays(path)
    with pytest.raises(CommandError, match="No such file"):
        find_pattern(str(tmp_path / "missing.txt")).rounds(2, 1)


def test_a_file_may_have_several_rounds(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    path.write_text(rounds_text([[0, 10, 20], [40, 0, 30]], "two calls"))
    assert read_rounds(path) == [[0, 10, 20], [40, 0, 30]]
    assert read_delays(path) == [20, 5, 25], "the means"
    assert find_pattern(str(path)).rounds(3, 1) == [[0, 0.25, 0.5], [1, 0, 0.75]], "all by the latest of all"
    path.write_text("1 2\n3\n")
    with pytest.raises(CommandError, match="line 2: 1 delays; the lines before have 2"):
        read_delays(path)


def test_the_command_draws_and_writes(offbeat: Offbeat, tmp_path: Path) -> None:
    drawn = offbeat("pattern", "ascending", "-n", "3", "--skew", "1ms").stdout.splitlines()
    assert [line.split()[:3] for line in drawn[1:]] == [
        ["0", "0.00", "µs"], ["1", "500", "µs"], ["2", "1000", "µs"],
    ]  # fmt: skip
    assert len(drawn[2].split()[3]) * 2 == pytest.approx(len(drawn[3].split()[3]), abs=1)
    done = offbeat("pattern", "descending", "-n", "3", "--mif", "20", "--alpha", "1.5us", "-o", "d.txt")
    assert (done.returncode, done.stdout) == (0, "")
    assert read_delays(tmp_path / "d.txt") == [30, 15, 0]
    assert offbeat("pattern", "d.txt", "-o", "-").stdout.splitlines()[1:] == ["30.000", "15.000", "0.000"]
    listed = offbeat("pattern").stdout
    assert all(name in listed for name in PATTERNS)
    many = offbeat("pattern", "last_delayed", "-n", "1000", "--skew", "1us").stdout.splitlines()
    assert len(many) < 70
    assert many[-1].split()[:2] == ["992..999", "1.00"]
