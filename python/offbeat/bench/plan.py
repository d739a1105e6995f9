# SPDX-License-Identifier: BSD-3-Clause
"""The plan of a benchmark: its cells, its algorithms, and the jobs that measure them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from offbeat import _core, units
from offbeat.bench import arrival_patterns
from offbeat.errors import CommandError
from offbeat.expressions import canonical, serves, split_list
from offbeat.field_types import checked
from offbeat.mpi import host_algorithms
from offbeat.units import Skew, parse_skew

COLLECTIVES = _core.served_collectives()
NATIVE = "native"  # the name, among algorithms, of the host MPI's own collective
BUILT_IN_CHOICE = "default"  # the name, among algorithms, of the preload's own choice
DEFAULT_COLLECTIVE = "allreduce"  # the default collective of a benchmark; the output leaves its name out
MAX_ITERATIONS = 1000
MOST_RANKS = 1 << 20  # of a benchmark, a simulation, a pattern or a trace
_FACTS = {each["name"]: each for each in _core.collectives()}
# The types of element that src/mpi/bench/elements.cpp has, and their bytes.
TYPES = {
    "float": 4, "double": 8, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8,
}  # fmt: skip
BITWISE = ("band", "bor", "bxor")  # only for integers
OPERATIONS = ("sum", "prod", "max", "min", *BITWISE)
FLOAT, SUM = "float", "sum"
FLOAT_BYTES = TYPES[FLOAT]
MOST_ELEMENTS = (1 << 31) - 1  # the count of an MPI call is an int
NO_SKEW = Skew(microseconds=0.0)


class Cell(NamedTuple):
    """One line of the tables: a collective, a size, a pattern and a skew. All algorithms take turns in it."""

    collective: str
    size_bytes: int
    pattern: str
    skew: str  # its label, such as 1.5x or 100us
    type: str = FLOAT
    operation: str = SUM  # means nothing if the collective combines nothing
    root: int = 0  # means nothing if the collective has no root
    in_place: bool = False

    @property
    def variant(self) -> str:
        """How the call differs from the default, such as ``int32, max, in place``; usually empty."""
        parts = [
            self.type if self.type != FLOAT else "",
            self.operation if self.operation != SUM else "",
            f"root {self.root}" if self.root != 0 else "",
            "in place" if self.in_place else "",
        ]
        return ", ".join(filter(None, parts))

    @property
    def call(self) -> Call:
        """The call of the cell, whenever the ranks arrive."""
        return Call(
            self.collective, self.size_bytes, self.type, self.operation, self.root, in_place=self.in_place
        )


class Call(NamedTuple):
    """What the cells of one call have in common, whenever the ranks arrive."""

    collective: str
    size_bytes: int
    type: str = FLOAT
    operation: str = SUM
    root: int = 0
    in_place: bool = False


class Job(NamedTuple):
    """The part of a plan that one run of mpirun measures."""

    algorithms: list[str]
    cells: list[Cell]
    variables: dict[str, str]  # environment variables that tell the host which algorithm to use


@dataclass(frozen=True)
class Plan:
    """Everything that a benchmark measures."""

    ranks: int
    sizes_bytes: Sequence[int]
    algorithms: Sequence[str]  # canonical; the first is native
    patterns: Sequence[str] = ("balanced",)
    skews: Sequence[Skew] = (Skew(factor=1.0),)
    collectives: Sequence[str] = (DEFAULT_COLLECTIVE,)
    budget_s: float = 60.0
    seed: int = 1
    max_iterations: int = MAX_ITERATIONS
    all_iterations: bool = False  # measure exactly max_iterations calls, however precise fewer are
    warm_up: int | None = None  # uncounted calls before those of a turn; None: by the time of a call
    types: Sequence[str] = (FLOAT,)
    operations: Sequence[str] = (SUM,)
    roots: Sequence[int] = (0,)
    in_place_forms: Sequence[bool] = (False,)
    same_buffers: bool = False
    # How long each rank computes between a non-blocking call and its wait; None: measure blocking calls.
    computing: Skew | None = None
    asleep: bool = False  # ranks sleep instead of computing
    mpirun_arguments: Sequence[str] = ()
    launcher: str | None = None  # instead of the MPI's own mpirun
    chosen_cells: Sequence[Sequence[Any]] | None = None  # instead of every combination of the above

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells in the order of measuring. A pattern in which no rank is late has one, for all skews."""
        if self.chosen_cells is not None:
            return [Cell(*cell) for cell in self.chosen_cells]
        return [
            Cell(call.collective, call.size_bytes, pattern, skew.label, *call[2:])
            for call in self._calls()
            for pattern in self.patterns
            for skew in (self.skews if arrival_patterns.is_skewed(pattern, self.ranks) else [NO_SKEW])
        ]

    def _calls(self) -> Iterator[Call]:
        for collective in self.collectives:
            sizes, types = (self.sizes_bytes, self.types) if collective != "barrier" else ([0], [FLOAT])
            for size, type_ in itertools.product(sizes, types):
                operations = [
                    operation
                    for operation in (self.operations if combines(collective) else [SUM])
                    if is_defined(operation, type_)
                ]
                roots = self.roots if has_root(collective) else [0]
                places = self.in_place_forms if has_in_place_form(collective) else [False]
                for each in itertools.product(operations, roots, places):
                    yield Call(collective, size, type_, *each)

    def jobs(self, vendor: str) -> list[Job]:
        """One job for native and all expressions, so that noise hits them alike, and one per native(NAME)."""
        named = [name for name in self.algorithms if host_algorithms.name_in(name) is not None]
        jobs = [Job([name for name in self.algorithms if name not in named], self.cells, {})]
        for algorithm in named:
            name = host_algorithms.name_in(algorithm) or ""
            variables = {
                c: host_algorithms.variables(vendor, self._host_call(algorithm, c), name)
                for c in self.collectives
                if self.serves(algorithm, c)
            }
            cells = [cell for cell in self.cells if variables.get(cell.collective)]
            merged = {key: value for found in variables.values() for key, value in found.items()}
            jobs.append(Job([algorithm], cells, merged))
        return jobs

    def _host_call(self, algorithm: str, collective: str) -> str:
        return host_algorithms.host_call_of(algorithm, collective, nonblocking=self.computing is not None)

    def serves(self, algorithm: str, collective: str) -> bool:
        """Whether an algorithm takes part in the cells of a collective."""
        if host_algorithms.is_native(algorithm) or algorithm == BUILT_IN_CHOICE:
            return True
        return serves(host_algorithms.without_host_name(algorithm), collective)

    def to_json(self) -> dict[str, Any]:
        """The plan as the file of a benchmark has it."""
        computing = self.computing.label if self.computing is not None else None
        return {**asdict(self), "skews": [skew.label for skew in self.skews], "computing": computing}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Plan:
        """The plan that a file has. Raises KeyError, TypeError or ValueError if it is damaged."""
        names = Plan.__dataclass_fields__
        values = {name: value for name, value in document.items() if name in names}
        values["skews"] = [parse_skew(skew) for skew in document["skews"]]
        if values.get("computing") is not None:
            values["computing"] = parse_skew(values["computing"])
        plan = checked(Plan(**values))
        for cell in plan.cells:  # fails now, not later, if a name is unknown
            checked(cell)
            combines(cell.collective)
            if cell.type not in TYPES or cell.operation not in OPERATIONS:
                raise ValueError(f"there is no cell of {cell.type}, {cell.operation}")
        return plan


def combines(collective: str) -> bool:
    """Whether the collective has an operation."""
    return _FACTS[collective]["has_operation"]


def has_root(collective: str) -> bool:
    """Whether the collective has a root."""
    return _FACTS[collective]["has_root"]


def has_in_place_form(collective: str) -> bool:
    """Whether MPI allows MPI_IN_PLACE in the collective."""
    return collective not in ("barrier", "bcast")


def is_defined(operation: str, type_: str) -> bool:
    """Whether the operation can combine elements of the type."""
    return operation not in BITWISE or type_ not in ("float", "double")


def parse_collectives(text: str) -> list[str]:
    """Split a list of collectives such as ``allreduce,bcast``."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in COLLECTIVES:
            raise CommandError(f"unknown collective '{name}'; offbeat bench has {', '.join(COLLECTIVES)}")
    return names


def parse_sizes(text: str, types: Sequence[str] = (FLOAT,)) -> list[int]:
    """The sizes that ``4,1KiB`` or ``4..1MiB`` means, in bytes. Each is a whole number of elements."""
    sizes = units.parse_sizes(text)
    for size, type_ in itertools.product(sizes, types):
        width = TYPES[type_]
        if size == 0 or size % width != 0:
            raise CommandError(
                f"--sizes {text}: {size} bytes is not a whole number of {type_}s (multiples of {width})"
            )
        if size > MOST_ELEMENTS * width:
            raise CommandError(
                f"--sizes {text}: {size} bytes are more than the {MOST_ELEMENTS} {type_}s that an MPI call "
                "counts"
            )
    return list(dict.fromkeys(sizes))


def parse_types(text: str) -> list[str]:
    """Split a list of types of element, such as ``float,int32``; ``all`` stands for all."""
    return _names(text, "-d", "type", tuple(TYPES))


def parse_operations(text: str) -> list[str]:
    """Split a list of operations, such as ``sum,max``; ``all`` stands for all."""
    return _names(text, "-o", "operation", OPERATIONS)


def _names(text: str, option: str, what: str, known: Sequence[str]) -> list[str]:
    names = list(known) if text == "all" else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise CommandError(f"{option} {text}: unknown {what} '{name}'; there are {', '.join(known)}")
    return names


def parse_roots(text: str, ranks: int) -> list[int]:
    """Split a list of ranks, such as ``0,3``; ``all`` stands for all."""
    if text == "all":
        return list(range(ranks))
    roots = []
    for word in text.split(","):
        if not word.strip().isdecimal() or int(word) >= ranks:
            raise CommandError(f"--root {text}: '{word}' is not a rank of {ranks}")
        roots.append(int(word))
    return list(dict.fromkeys(roots))


def parse_algorithms(text: str, collectives: Sequence[str] = (DEFAULT_COLLECTIVE,)) -> list[str]:
    """Split a list of expressions, native(NAME) and default. The result begins with native in any case."""
    return list(dict.fromkeys(["native", *(_canonical(text, collectives) for text in split_list(text))]))


def _canonical(expression: str, collectives: Sequence[str]) -> str:
    host_algorithms.refuse_several_names(expression)
    name = host_algorithms.name_in(expression)
    host = "native" if name is None else f"native({name})"
    if host_algorithms.is_native(expression):
        return host
    if expression == BUILT_IN_CHOICE:
        return expression
    plain = host_algorithms.without_host_name(expression)
    fitting = [collective for collective in collectives if serves(plain, collective)]
    return canonical(plain, (fitting or collectives)[0]).replace("native", host)
