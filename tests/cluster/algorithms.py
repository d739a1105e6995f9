# SPDX-License-Identifier: BSD-3-Clause
"""Every algorithm that offbeat has, in few jobs: in each of them every collective runs another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offbeat import _core
from offbeat.expressions import serves

# What stands for the parameters that `offbeat info` shows.
EXAMPLES = {
    "": "",
    "K": "3",
    "RANK": "1",
    "BYTES": "1KiB",
    "SEGMENTS|BYTES, ALGORITHM": "3, ALGORITHM",
    "D1xD2[x...], ALGORITHM[, ...]": "2x2, ALGORITHM",
    "NODE_ALGORITHM, ALGORITHM": "NODE_ALGORITHM, ALGORITHM",
}
ONE_IN = 3  # algorithms a combinator is tried with; one that has a phase on the nodes is tried with all
# Only some of those that move blocks can be cut into segments.
PIPELINED = dict.fromkeys(("allgather", "reduce_scatter", "reduce_scatter_block"), ("ring", "pairwise"))


def by_collective() -> dict[str, list[Mapping[str, str]]]:
    """What the registry says of the algorithms of each collective."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for algorithm in _core.algorithms():
        found.setdefault(algorithm["collective"], []).append({k: str(v) for k, v in algorithm.items()})
    return found


def expressions(collective: str, algorithms: Sequence[Mapping[str, str]]) -> list[str]:
    """Expressions in which every algorithm of a collective but the host's own has a part."""
    templates = {one["name"]: template(one) for one in algorithms if one["name"] != "native"}
    on_node = [one["name"] for one in algorithms if "all ranks on one node" in one["needs"]]
    alone = [text for name, text in templates.items() if name not in on_node and "ALGORITHM" not in text]
    found = list(alone)
    for text in templates.values():
        if "NODE_ALGORITHM" in text:
            parts = [part for part in alone if serves(filled(text, part, on_node[0]), collective)]
            phases = [one for one in on_node if serves(filled(text, parts[0], one), collective)]
            count = max(len(parts), len(phases))
            found += [filled(text, parts[k % len(parts)], phases[k % len(phases)]) for k in range(count)]
        elif "ALGORITHM" in text:
            parts = [part for part in alone if serves(filled(text, part), collective)][::ONE_IN]
            if text.startswith("pipeline") and collective in PIPELINED:
                parts = [part for part in alone if part in PIPELINED[collective]]
            found += [filled(text, part) for part in parts]
    return found


def template(algorithm: Mapping[str, str]) -> str:
    """An expression in which only algorithms are left to fill in."""
    name, parameters = algorithm["name"], algorithm["parameters"]
    assert parameters in EXAMPLES, (
        f"{name}({parameters}): tests/cluster/algorithms.py has no example of these"
    )
    return f"{name}({EXAMPLES[parameters]})" if parameters else name


def filled(text: str, part: str, on_node: str = "") -> str:
    return text.replace("NODE_ALGORITHM", on_node).replace("ALGORITHM", part)


def jobs() -> list[dict[str, str]]:
    """The settings of each job: the n-th has the n-th expression of every collective, over and over again."""
    columns = {name: expressions(name, algorithms) for name, algorithms in by_collective().items()}
    count = max(map(len, columns.values()))
    return [
        {f"OFFBEAT_{name.upper()}": column[n % len(column)] for name, column in columns.items()}
        for n in range(count)
    ]
