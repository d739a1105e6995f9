# SPDX-License-Identifier: BSD-3-Clause
import pytest
from offbeat.errors import CommandError
from offbeat.units import (
    Skew,
    format_count,
    format_duration,
    format_size,
    format_us,
    formatted_alike,
    ordinal,
    parse_duration_s,
    parse_size,
    parse_sizes,
    parse_skew,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64", 64), ("64B", 64), ("1KiB", 1024), ("1.5 MiB", 1572864), (" 2mib ", 2 << 20), ("1GiB", 1 << 30)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_large_sizes_are_exact() -> None:
    assert parse_size("9007199254740993") == 9007199254740993
    assert parse_size("123456789012.5GiB") == 123456789012 * (1 << 30) + (1 << 29)


@pytest.mark.parametrize("text", ["", "x", "-4", "1KB", "1.3B", "4,5", "KiB", "9" * 400, "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not"):
        parse_size(text)


def test_lists_and_ranges_of_sizes() -> None:
    assert parse_sizes("4,64,1KiB") == [4, 64, 1024]
    assert parse_sizes("4..1KiB") == [4, 16, 64, 256, 1024]
    assert parse_sizes("8..20,1MiB") == [8, 20, 1 << 20]
    with pytest.raises(CommandError, match="empty"):
        parse_sizes("64..4")


@pytest.mark.parametrize("size", [4, 64, 1000, 1024, 1536, 65536, 1 << 20, 3 << 29])
def test_sizes_are_printed_exactly(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_times_have_three_digits() -> None:
    texts = [format_us(t) for t in (0.456, 9.999, 12.34, 456.7, 9876.0, 12345.0, 2.5e7)]
    assert texts == ["0.46 µs", "10.00 µs", "12.3 µs", "457 µs", "9876 µs", "12.3 ms", "25.0 s"]


def test_skew_is_a_factor_or_a_time() -> None:
    assert parse_skew("1.5") == parse_skew("1.5x") == Skew(factor=1.5)
    assert parse_skew("100us") == Skew(microseconds=100.0)
    assert parse_skew("2 ms") == Skew(microseconds=2000.0)
    for text in ("", "-1", "1y", "us", "9" * 400):
        with pytest.raises(CommandError, match="is not a skew"):
            parse_skew(text)


def test_the_label_of_a_skew_is_read_as_the_same_skew() -> None:
    for text, label in (
        ("1", "1x"),
        ("0.5", "0.5x"),
        ("2ms", "2000us"),
        ("0us", "0us"),
        ("100000000", "100000000x"),
    ):
        assert parse_skew(text).label == label
        assert parse_skew(label) == parse_skew(text)


def test_durations() -> None:
    assert [parse_duration_s(text) for text in ("90", "90s", "5min", "1.5 h", "20ms")] == [
        90.0, 90.0, 300.0, 5400.0, 0.02,
    ]  # fmt: skip
    assert parse_duration_s("0", may_be_zero=True) == 0.0
    for text in ("", "0", "5m", "-1s", "5 minutes"):
        with pytest.raises(CommandError, match="is not a duration"):
            parse_duration_s(text)
    assert [format_duration(s) for s in (0.0, 65.9, 3600.0, 36061.0)] == [
        "0:00",
        "1:05",
        "1:00:00",
        "10:01:01",
    ]


def test_times_that_belong_together_have_one_unit() -> None:
    assert formatted_alike((9000.0, 12000.0, 30000.0)) == ["9.00 ms", "12.0 ms", "30.0 ms"]
    assert formatted_alike((5.0, 80.0, 20000.0)) == ["5.00 µs", "80.0 µs", "20000 µs"]


def test_things_are_counted_in_the_singular_and_the_plural() -> None:
    texts = [format_count(number, "rank") for number in (0, 1, 2, 1_048_576)]
    assert texts == ["0 ranks", "1 rank", "2 ranks", "1,048,576 ranks"]


def test_ordinals() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
