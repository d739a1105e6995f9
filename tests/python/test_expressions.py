# SPDX-License-Identifier: BSD-3-Clause
import pytest
from offbeat.bench.plan import parse_algorithms
from offbeat.errors import CommandError
from offbeat.expressions import canonical, split_list


def test_lists_are_split_at_commas_outside_parentheses() -> None:
    assert split_list("native,ring, pipeline(4, ring),grid(2x2, ring, linear)") == [
        "native",
        "ring",
        "pipeline(4, ring)",
        "grid(2x2, ring, linear)",
    ]


def test_the_spelling_is_made_canonical() -> None:
    assert canonical("pipeline( 4,ring )") == "pipeline(4, ring)"


def test_an_error_names_the_column() -> None:
    with pytest.raises(CommandError, match=r"'pipeline\(4, rng\)': column 13: .*rng.*ring"):
        canonical("pipeline(4, rng)")


def test_native_always_takes_part_and_comes_first() -> None:
    assert parse_algorithms("ring") == ["native", "ring"]
    assert parse_algorithms("ring,native,ring") == ["native", "ring"]
