# SPDX-License-Identifier: BSD-3-Clause
"""How far a long command is, on standard error: one line that changes, or in a file one now and then."""

from __future__ import annotations

import sys
import time

_FILE_INTERVAL_S = 15.0


class ProgressLine:
    """Shows a text at most every ``on_terminal_every_s`` seconds: printing takes a core from the ranks.

    With ``patient`` a file gets nothing if the work takes less than 15 seconds.
    """

    def __init__(self, on_terminal_every_s: float = 1.0, *, patient: bool = False) -> None:
        self._terminal = sys.stderr.isatty()
        self._every_s = on_terminal_every_s if self._terminal else _FILE_INTERVAL_S
        self._next = time.monotonic() + _FILE_INTERVAL_S if patient and not self._terminal else 0.0
        self._shown = False

    def show(self, text: str) -> None:
        """Show the text, unless the one before was shown only just now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._shown = True
        else:
            self.say(text)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.clear()
        print(f"offbeat: {line}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the text from the terminal."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
