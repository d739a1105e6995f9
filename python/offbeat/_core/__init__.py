# SPDX-License-Identifier: BSD-3-Clause
"""The C++ core: algorithms, expression parser, rules, settings, simulator.

python/bindings has the other side, in files of the same names.
"""

from offbeat._core.facts import (
    Algorithm,
    Collective,
    Setting,
    algorithms,
    check_expression,
    clock,
    collectives,
    served_collectives,
    settings,
    stack,
    version,
    where,
)
from offbeat._core.library import ExpressionError, UsageError
from offbeat._core.models import cheapest_grid, cost, machine_name
from offbeat._core.rules import (
    HostAlgorithm,
    PlanRow,
    Rule,
    Rules,
    built_in_rules,
    host_algorithms,
    hosts,
    plan,
    read_rules,
)
from offbeat._core.simulator import SimulatedMachine, Simulation

__all__ = [
    "Algorithm",
    "Collective",
    "ExpressionError",
    "HostAlgorithm",
    "PlanRow",
    "Rule",
    "Rules",
    "Setting",
    "SimulatedMachine",
    "Simulation",
    "UsageError",
    "algorithms",
    "built_in_rules",
    "cheapest_grid",
    "check_expression",
    "clock",
    "collectives",
    "cost",
    "host_algorithms",
    "hosts",
    "machine_name",
    "plan",
    "read_rules",
    "served_collectives",
    "settings",
    "stack",
    "version",
    "where",
]
