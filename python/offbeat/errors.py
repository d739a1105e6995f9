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
