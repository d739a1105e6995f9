# SPDX-License-Identifier: BSD-3-Clause
"""Parse the JSON lines that the ranks of ``offbeat bench`` write (src/mpi/bench)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offbeat.bench.plan import DEFAULT_COLLECTIVE
from offbeat.bench.results import MEASURES, Result, WrongData, cell_of
from offbeat.errors import CommandError
from offbeat.units import format_size

Json = Mapping[str, Any]


@dataclass
class Records:
    """Everything that a job has written so far."""

    header: dict[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    error: str | None = None
    ended: bool = False
    doing: str = "starting"
    begun: int = 0  # how many cells the ranks have begun to measure
    last_begin: dict[str, Any] = field(default_factory=dict)  # what the ranks do: see _doing
    round: int | None = None  # of a tuning, which notes it before the ranks begin

    def add(self, line: str | bytes, where: str = "a line") -> None:
        """Add one line of a file. Raises CommandError, with ``where``, if the ranks did not write it."""
        try:
            self._add_record(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            raise CommandError(
                f"{where} is damaged: it is not what the ranks of offbeat bench write"
            ) from None

    def _add_record(self, record: dict[str, Any]) -> None:
        kind = record["record"]
        if kind == "begin":
            self.doing = _activity_of_ranks(record)
            self.last_begin = record
            self.begun += record["what"] == "measure"
        elif kind == "header":
            self.header = record
        elif kind == "round":
            self.round = int(record["round"])
        elif kind == "result":
            result = _result(record)
            Result.from_json(result.to_json())  # fails now, not later, if a value is not a number
            self.results.append(result)
        elif kind == "error":
            self.error = record["message"]
        elif kind == "end":
            self.ended = True


def _activity_of_ranks(record: Json) -> str:
    what, size = record["what"], format_size(record["size_bytes"])
    collective = "" if record["collective"] == DEFAULT_COLLECTIVE else f"{record['collective']}, "
    if what == "measure":
        return f"measuring {collective}{size}, {record['pattern']} arrival"
    verb = "checking" if what == "check" else "calibrating"
    return f"{verb} {collective}{record['algorithm']} at {size}"


def _result(record: Json) -> Result:
    return Result(
        cell_of(record),
        record["algorithm"],
        record["status"],
        **{name: record[name] for name in MEASURES if name in record},
        wrong_data=_wrong_data(record),
    )


def _wrong_data(record: Json) -> WrongData | None:
    if "wrong_rank" not in record:
        return None
    return WrongData(
        record["wrong_elements"],
        record["wrong_rank"],
        record["wrong_index"],
        record["expected"],
        record["got"],
    )
