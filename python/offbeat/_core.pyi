# SPDX-License-Identifier: BSD-3-Clause
# What python/bindings offers: the registry, the expression parser and the settings of the C++ core.
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
