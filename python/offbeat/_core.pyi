# SPDX-License-Identifier: BSD-3-Clause
# The C++ core as python/bindings exports it: algorithms, expression parser, rules, settings, simulator.
from collections.abc import Callable, Sequence
from typing import TypedDict

class UsageError(ValueError): ...
class ExpressionError(ValueError): ...

class Algorithm(TypedDict):
    name: str
    collective: str
    parameters: str
    summary: str
    cost: str
    needs: str
    source: str
    every_run: bool

class Collective(TypedDict):
    name: str
    function: str
    moves: str
    has_root: bool
    has_operation: bool
    served: bool

class Setting(TypedDict):
    name: str
    default: str
    values: str
    meaning: str
    equal_on_all_ranks: bool

def algorithms() -> list[Algorithm]: ...
def collectives() -> list[Collective]: ...
def check_expression(collective: str, expression: str) -> str: ...
def settings() -> list[Setting]: ...
def version() -> str: ...

class HostAlgorithm(TypedDict):
    host: str
    call: str
    name: str
    spelling: str
    number: int
    ranks: int | None

def host_algorithms() -> list[HostAlgorithm]: ...

class Rule(TypedDict):
    line: int
    text: str
    collective: str
    nonblocking: bool
    host: str
    nodes: tuple[int, int]
    ppn: tuple[int, int]
    reason: str

class Rules:
    @property
    def errors(self) -> list[str]: ...
    @property
    def rules(self) -> list[Rule]: ...

class PlanRow(TypedDict):
    least_bytes: int
    most_bytes: int | None
    expression: str
    form: str
    needs: str
    alternatives: list[str]
    reason: str
    origin: str

def read_rules(path: str) -> Rules: ...
def built_in_rules() -> Rules: ...
def hosts() -> list[str]: ...
def plan(
    calls: str,
    host: str,
    nodes: int,
    ranks_per_node: int,
    board: bool,
    users_rules: Rules | None,
    fixed: str,
    origin: str,
    machine: str = "",
) -> list[PlanRow]: ...
def machine_name(path: str) -> str: ...
def cheapest_grid(
    ranks: int, size_bytes: int, *, ranks_per_node: int = 1, machine: str = "", mpi: str = ""
) -> tuple[str, float]: ...
def cost(
    collective: str,
    expression: str,
    ranks: int,
    size_bytes: int,
    *,
    a: float,
    b: float,
    c: float,
    o: float = 0,
    nodes: int = 0,
    a_within: float = 0,
    b_within: float = 0,
    eager_bytes: int = 8192,
) -> float | None: ...

class Simulation(TypedDict):
    exits: list[float]
    waits: list[tuple[float, float, int]]
    messages: int
    inter_node_messages: int
    bytes: int
    events: int

_Protocols = Sequence[tuple[int, float, float]]
_Message = tuple[float, float, float, float, float]

class SimulatedMachine:
    def __init__(
        self,
        ranks: int,
        ranks_per_node: int,
        *,
        within_node: _Protocols,
        between_nodes: _Protocols,
        injection_rate: float,
        gamma: float,
        copy: float,
        envelope_bytes: int,
        eager_bytes: int,
        board: tuple[float, float, float, int, int] | None,
        within_node_message: _Message = ...,
        between_nodes_message: _Message = ...,
        within_node_eager_bytes: int | None = None,
        node_gap: float = 0,
        ejection_rate: float = ...,
        memory_rate: float = ...,
    ) -> None: ...
    def unsuitable(self, collective: str, expression: str) -> str: ...
    def model(self, collective: str, expression: str, size_bytes: int) -> float | None: ...
    @staticmethod
    def learns(collective: str, expression: str) -> bool: ...
    def forget(self) -> None: ...
    def run(
        self,
        collective: str,
        expression: str,
        size_bytes: int,
        arrivals: Sequence[float],
        report: Callable[[int], None] | None,
    ) -> Simulation: ...
