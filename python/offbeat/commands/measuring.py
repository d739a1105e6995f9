# SPDX-License-Identifier: BSD-3-Clause
"""Code that the long measurements share: bench, tune and calibrate."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

from offbeat.commands.command_line import Context
from offbeat.errors import CommandError


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end a measurement as Ctrl-C does: it keeps finished results and leaves no ranks behind."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_interrupted(kept: str) -> NoReturn:
    """End the command after Ctrl-C or SIGTERM. ``kept`` says what was kept and how to go on."""
    print(f"offbeat: interrupted{kept}", file=sys.stderr)
    raise KeyboardInterrupt


def refuse_others(context: Context, allowed: Collection[str], why: str) -> None:
    """Raise CommandError if the user wrote an option outside ``allowed``. ``why`` is the reason to print."""
    for parameter in context.command.parameters:
        if parameter.name in context.given and parameter.name not in allowed:
            raise CommandError(f"{parameter.longest} {why}")


PART_OF_PLAN = "is part of the plan, which --resume takes from the file"
