# SPDX-License-Identifier: BSD-3-Clause
"""The one way for a command to stop: a message for the user and an exit code."""

from __future__ import annotations

BAD_INPUT = 2
FAILED = 1


class CommandError(Exception):
    """Caught once, in ``main``, which prints ``offbeat: message`` and exits.

    The exit code is 2 for bad input, 1 when the work itself failed.
    """

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_MOST_SHOWN = 1000


def printable(text: str) -> str:
    """One line of printable characters: what a terminal would obey becomes ``\\n``, ``\\x1b`` and the like.

    Of a very long text the middle is left out.
    """
    shown = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(shown) <= _MOST_SHOWN:
        return shown
    half = _MOST_SHOWN // 2
    return f"{shown[:half]} ... {shown[-half:]}"


def _escaped(character: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if character in known:
        return known[character]
    # A byte of an argument that is not UTF-8 is one of these surrogates in Python.
    how = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", how))
