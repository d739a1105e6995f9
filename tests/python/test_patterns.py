# SPDX-License-Identifier: BSD-3-Clause
import pytest
from offbeat.patterns import PATTERNS, as_text, file_text, find, parse_names, read
from offbeat.errors import CommandError


def test_formulas() -> None:
    expected = {
        "balanced": [[0, 0, 0, 0, 0]],
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
    delays = [delay for row in rounds for delay in row]
    assert abs(sum(delays) / len(delays) - 0.5) < 0.02


def test_text_for_the_ranks() -> None:
    assert as_text(["balanced", "ascending"], 3, 1).splitlines() == [
        "balanced 1",
        "0.000000000 0.000000000 0.000000000",
        "ascending 1",
        "0.000000000 0.500000000 1.000000000",
    ]


def test_unknown_patterns_are_refused_by_name() -> None:
    assert parse_names("random, balanced,random") == ["random", "balanced"]
    with pytest.raises(CommandError, match=r"'late'.*last_delayed"):
        parse_names("balanced,late")
