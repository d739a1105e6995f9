# SPDX-License-Identifier: BSD-3-Clause
"""The error with which a command stops: a message for the user and an exit code."""

from __future__ import annotations

ANSWER_NO = 1  # the work was done, and its answer is no: a result is wrong, a cell is slower, files differ
BAD_INPUT = 2
FAILED = 3  # the work could not be done
CANNOT_START = 125  # run and trace did not start the program; other codes are the program's own
INTERRUPTED = 130


class CommandError(Exception):
    """Stops a command. Only ``main`` catches it, prints ``offbeat: message``, and exits.

    The exit code is 2 for bad input, 3 if the work itself failed, and 1 if its answer is no.
    """

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_MOST_SHOWN = 1000


def printable(text: str) -> str:
    """The text as one line of printable characters.

    A control character becomes ``\\n``, ``\\x1b`` and the like. A very long text loses its middle.
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
    # Python represents a byte that is not UTF-8, in an argument, by one of these surrogates.
    how = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", how))
