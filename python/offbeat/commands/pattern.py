# SPDX-License-Identifier: BSD-3-Clause
"""offbeat pattern: draw an arrival pattern, or write it as a file that offbeat bench reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from offbeat.bench import arrival_patterns
from offbeat.bench.plan import MOST_RANKS
from offbeat.commands.command_line import Argument, Command, Option
from offbeat.commands.options import AsJson, checked_ranks
from offbeat.commands.output import checked_output, new_console, print_json, write_text
from offbeat.errors import CommandError
from offbeat.reports import pattern_chart
from offbeat.units import checked_delay, format_count, parse_skew, parse_time_us


def pattern(
    name: Annotated[
        str | None, Argument(metavar="NAME|FILE|TRACE", help="The pattern. Default: list all patterns.")
    ] = None,
    ranks: Annotated[int, Option("-n", "-np", "--ranks", metavar="N", help="Number of ranks.")] = 8,
    skew: Annotated[
        str | None, Option(metavar="TIME", help="Lateness of the latest rank, such as 100us.")
    ] = None,
    mif: Annotated[
        float | None,
        Option(metavar="FACTOR", help="Instead of --skew: the skew as FACTOR times --alpha."),
    ] = None,
    alpha: Annotated[
        str | None, Option(metavar="TIME", help="The time to communicate one message, for --mif.")
    ] = None,
    seed: Annotated[int, Option(metavar="N", help="Seed of the random patterns.")] = 1,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="Write a pattern file; - prints it.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite FILE.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw an arrival pattern, or write it as a file.

    A file has one line per rank, in microseconds. NAME is a pattern of the list. FILE is a pattern file. The
    pattern of a TRACE is the mean skew of each rank. If a pattern is drawn anew for each call, this shows the
    first draw.

    offbeat pattern
    offbeat pattern ascending -n 8 --skew 100us -o ascending.txt
    offbeat pattern 'bimodal(2)' -n 64 --mif 20 --alpha 1.5us --json
    """
    console = new_console(width=100)
    checked_ranks(ranks, most=MOST_RANKS)
    if name is None and as_json:
        print_json({"patterns": _described_pattern()})
        return
    if name is None:
        console.print(pattern_chart.overview(seed))
        return
    skew_us = _skew_us(skew, mif, alpha)
    delays = _delays(name, ranks, skew_us, seed)
    if as_json and output is None:
        print_json({"pattern": name, "ranks": len(delays), "seed": seed, "delays_us": delays})
        return
    if output is None:
        console.print(
            pattern_chart.chart(name, arrival_patterns.find_pattern(name).summary, delays, console.width)
        )
        return
    text = arrival_patterns.file_text(delays, f"{name} arrival of {format_count(len(delays), 'rank')}")
    if str(output) == "-":
        print(text, end="")
        return
    checked_output(output, force=force)
    write_text(output, text)
    if as_json:
        print_json({"pattern": name, "ranks": len(delays), "output": str(output)})


def _described_pattern() -> list[dict[str, object]]:
    found = arrival_patterns.PATTERNS.items()
    return [{"name": name, "summary": each.summary, "formula": each.formula} for name, each in found]


def _delays(name: str, ranks: int, skew_us: float | None, seed: int) -> list[float]:
    found = arrival_patterns.find_pattern(name)
    if skew_us is None and name not in arrival_patterns.PATTERNS and Path(name).exists():
        return arrival_patterns.read_delays(Path(name))  # a file or a trace has its own ranks and times
    if skew_us is None:
        raise CommandError("say how late the latest rank is: --skew 100us, or --mif 20 --alpha 1.5us")
    return [skew_us * fraction for fraction in found.rounds(ranks, seed)[0]]


def _skew_us(skew: str | None, mif: float | None, alpha: str | None) -> float | None:
    if skew is not None and mif is not None:
        raise CommandError("--skew and --mif both say how late the latest rank is; give one")
    if (mif is None) != (alpha is None):
        raise CommandError("--mif and --alpha belong together: the skew is their product")
    if mif is not None and alpha is not None:
        if not 0 <= mif < float("inf"):
            raise CommandError(f"--mif {mif:g}: the factor must not be negative")
        return checked_delay(mif * parse_time_us(alpha), f"--mif {mif:g} times --alpha {alpha}")
    if skew is None:
        return None
    parsed = parse_skew(skew)
    if parsed.microseconds is None:
        raise CommandError(f"--skew {skew}: write a time, such as 100us, because a pattern file has times")
    return parsed.microseconds


COMMAND = Command(pattern)
