# SPDX-License-Identifier: BSD-3-Clause
"""Parse and print sizes and durations as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from offbeat.errors import CommandError

_SIZE_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_TIME_UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}
_DURATION_UNITS_S = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_RANGE_FACTOR = 4
MOST_DELAY_US = 1e12  # 11 days; sums and quotients of delays up to this stay finite
_NUMBER = r"(\d{1,18}(?:\.\d{1,18})?)"  # Python refuses numbers with very many digits


def parse_size(text: str) -> int:
    """The bytes that ``64``, ``64B``, ``1KiB``, ``1.5MiB`` or ``1GiB`` means."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*([A-Za-z]*)\s*", text)
    factor = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise CommandError(
            f"'{text}' is not a size: write bytes or a number with KiB, MiB or GiB, such as 64KiB"
        )
    from fractions import Fraction  # which imports much, and not all commands read sizes

    size = Fraction(match[1]) * factor
    if size.denominator != 1:
        raise CommandError(f"'{text}' is not a whole number of bytes")
    return int(size)


def parse_sizes(text: str) -> list[int]:
    """The sizes that ``4,64,1KiB`` or ``4..1MiB`` means. A range has both ends and multiplies by 4."""
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        sizes += _size_range(parse_size(first), parse_size(last)) if dots else [parse_size(part)]
    return sizes


def _size_range(first: int, last: int) -> list[int]:
    if not 0 < first <= last:
        raise CommandError(f"the range of sizes {first}..{last} is empty")
    sizes = []
    size = first
    while size < last:
        sizes.append(size)
        size *= _RANGE_FACTOR
    return [*sizes, last]


def format_size(size_bytes: int) -> str:
    """The shortest exact spelling of a size: ``64 B``, ``1 KiB``, ``1.5 MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        factor = _SIZE_UNITS[unit.lower()]
        if size_bytes >= factor and size_bytes * 10 % factor == 0:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"


def format_rounded_size(size_bytes: float) -> str:
    """A size with one decimal, or none from 100 on: ``2.7 MiB``, ``512 KiB``, ``40 B``."""
    for unit in ("GiB", "MiB", "KiB"):
        value = size_bytes / _SIZE_UNITS[unit.lower()]
        if value >= 1:
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def format_size_range(least_bytes: int, most_bytes: int) -> str:
    """A range of sizes, such as ``4 KiB .. 7 KiB``; one size if both are equal."""
    least, most = format_size(least_bytes), format_size(most_bytes)
    return least if least_bytes == most_bytes else f"{least} .. {most}"


def spell_size(size_bytes: int) -> str:
    """A size as one word, as rules and options have it: ``16KiB``, ``513``. ``parse_size`` reads it."""
    for unit in ("GiB", "MiB", "KiB"):
        factor = _SIZE_UNITS[unit.lower()]
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def format_us(microseconds: float) -> str:
    """A time with three significant digits, in µs, ms or s."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= 10 * factor:
            return f"{_three_digits(microseconds / factor)} {unit}"
    return f"{_three_digits(microseconds)} µs"


def formatted_alike(microseconds: Sequence[float]) -> list[str]:
    """Times in one unit: that of the second largest, so that they can be compared at a glance."""
    usual = sorted(microseconds)[-2 if len(microseconds) > 1 else -1]
    factor, unit = next(
        ((factor, unit) for unit, factor in (("s", 1e6), ("ms", 1e3)) if usual >= 10 * factor), (1.0, "µs")
    )
    return [f"{_three_digits(value / factor)} {unit}" for value in microseconds]


def format_as_ms(nanoseconds: float) -> str:
    """A time in ms, or in s from 10 s on: ``19.3 ms``, ``0.64 ms``, ``12 s``.

    The parts of a step of a training are easy to compare in one unit.
    """
    ms = nanoseconds / 1e6
    if ms >= 10_000:
        return f"{ms / 1e3:.3g} s"
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2g} ms"


def format_count(number: int, noun: str) -> str:
    """A number of things: ``1 rank``, ``1,024 ranks``. ``noun`` is a singular whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """An ordinal number, such as ``2nd``, ``10th`` or ``21st``."""
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else suffix}"


def format_share(share: float) -> str:
    """A share between 0 and 1 as a percentage, such as ``0.9%`` or ``12%``."""
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 9.95 else f"{percent:.1f}%"


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f}"


def _without_exponent(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


class Skew(NamedTuple):
    """How late the latest rank is: an absolute time, or a multiple of native's balanced median."""

    factor: float | None = None
    microseconds: float | None = None

    @property
    def label(self) -> str:
        """The skew as ``parse_skew`` reads it: ``1.5x`` or ``100us``."""
        return (
            f"{_without_exponent(self.factor)}x"
            if self.factor is not None
            else f"{_without_exponent(self.microseconds or 0.0)}us"
        )

    def __str__(self) -> str:
        return f"{self.factor:g} x native" if self.factor is not None else format_us(self.microseconds or 0.0)


def parse_skew(text: str) -> Skew:
    """The skew that a factor (``1.5`` or ``1.5x``) or a time (``100us``, ``2ms``, ``1s``) means."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*([a-z]*)\s*", text)
    if match is not None and match[2] in ("", "x"):
        return Skew(factor=float(match[1]))
    if match is not None and match[2] in _TIME_UNITS_US:
        return Skew(microseconds=checked_delay(float(match[1]) * _TIME_UNITS_US[match[2]], text))
    raise CommandError(
        f"'{text}' is not a skew: write a factor such as 1.5, or a time such as 100us, 2ms or 1s"
    )


def parse_time_us(text: str) -> float:
    """The microseconds that ``1.5us``, ``2ms`` or ``1s`` means."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _TIME_UNITS_US:
        raise CommandError(f"'{text}' is not a time: write a number with us, ms or s, such as 100us")
    return checked_delay(float(match[1]) * _TIME_UNITS_US[match[2]], text)


def parse_duration_s(text: str, *, may_be_zero: bool = False) -> float:
    """The seconds that ``90``, ``90s``, ``5min``, ``1.5h`` or ``20ms`` means."""
    match = re.fullmatch(rf"\s*{_NUMBER}\s*([a-z]*)\s*", text)
    factor = _DURATION_UNITS_S.get(match[2]) if match is not None else None
    if match is None or factor is None or (float(match[1]) == 0 and not may_be_zero):
        above = "" if may_be_zero else " above 0"
        raise CommandError(
            f"'{text}' is not a duration: write seconds{above}, or a number with us, ms, s, min or h"
        )
    return float(match[1]) * factor


def format_duration(seconds: float) -> str:
    """A duration as ``1:05`` or ``1:00:05``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def checked_delay(microseconds: float, text: str) -> float:
    """Refuse a time that is not a number or too long for a delay. ``text`` is what the user wrote."""
    if not microseconds <= MOST_DELAY_US:
        raise CommandError(f"{text} is too long for a delay: at most {MOST_DELAY_US:g} us are possible")
    return microseconds
