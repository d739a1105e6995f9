# SPDX-License-Identifier: BSD-3-Clause
"""A table of a TOML file whose values have types and bounds. Errors name the file and the key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from offbeat.errors import CommandError

MAX_SIZE_BYTES = 1 << 62
LEAST, MOST = 1e-12, 1e12  # the bounds of numbers, so that results stay finite


class Table:
    """A table of the file. It remembers which keys were read, so ``refuse_unknown_keys`` finds the others."""

    def __init__(self, values: Mapping[str, Any], where: str, path: str = "") -> None:
        self._values = values
        self._where = where
        self._path = path
        self._known: list[str] = []

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"{quoted(value)} is not a text in quotes")
        return value

    def number(self, key: str, *, least: float = 0, default: float | None = None) -> float:
        value = self._get(key, default)
        if value is default and default is not None:
            return float(default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MOST:
            raise self.wrong(key, f"{quoted(value)} is not a number from {least:g} to {MOST:g}")
        return float(value)

    def integer(
        self, key: str, *, least: int = 0, most: int = MAX_SIZE_BYTES, default: int | None = None
    ) -> int:
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(key, f"{quoted(value)} is not a whole number from {least} to {most}")
        return value

    def table(self, key: str) -> Table:
        value = self._get(key, None)
        if not isinstance(value, dict):
            raise self.wrong(key, f"it must be a table, which begins with [{self._name(key)}]")
        return Table(value, self._where, self._name(key))

    def tables(self, key: str) -> list[Table]:
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(key, f"it must be tables, each of which begins with [[{self._name(key)}]]")
        return [
            Table(each, self._where, f"{self._name(key)} number {number}")
            for number, each in enumerate(value, start=1)
        ]

    def refuse_unknown_keys(self) -> None:
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else f"; known are {', '.join(self._known)}"
                raise self.wrong(key, f"unknown key{hint}")

    def _get(self, key: str, default: Any) -> Any:
        self._known.append(key)
        if key not in self._values and default is None:
            raise self.wrong(key, "it is missing")
        return self._values.get(key, default)

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def wrong(self, key: str, why: str) -> CommandError:
        return CommandError(f"{self._where}: {self._name(key)}: {why}")


def quoted(value: Any) -> str:
    return f"'{str(value)[:40]}'"
