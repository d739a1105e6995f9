# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm expressions on the command line. The C++ core has the parser."""

from __future__ import annotations

from functools import cache

from offbeat import _core
from offbeat.errors import CommandError


def canonical(expression: str, collective: str = "allreduce") -> str:
    """The canonical spelling of an expression. Raises CommandError, which names the column of the error."""
    try:
        return _core.check_expression(collective, expression)
    except ValueError as error:  # ExpressionError and UsageError
        raise CommandError(f"{collective} expression '{expression}': {error}") from None


@cache
def serves(expression: str, collective: str) -> bool:
    """Whether ``expression`` is valid for ``collective``."""
    try:
        _core.check_expression(collective, expression)
    except ValueError:
        return False
    return True


def split_list(text: str) -> list[str]:
    """Split a list at the commas outside parentheses: ``native, pipeline(4, ring)`` has two parts."""
    parts = [""]
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
