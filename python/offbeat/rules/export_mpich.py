# SPDX-License-Identifier: BSD-3-Clause
"""Export to MPICH: the trees of its selection of algorithms, as JSON, with some subtrees replaced.

MPICH aborts a job if such a file lacks a collective, has a key that this version does not know, or runs an
algorithm where it does not apply. So the export begins with the complete trees of the installed MPICH, which
are compiled into its library as text (maint/tuning/coll in the sources). In these it changes only what a
communicator of the measured number of ranks does at the measured sizes; every other case goes on in the
subtree that was there before.

Two files are needed. The device ch4 chooses a composition first, and some compositions do not ask for an
algorithm: on one node, the collectives through shared memory answer.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from offbeat.errors import CommandError
from offbeat.mpi import host_algorithms
from offbeat.rules.export import SETTINGS, Export, cannot_choose_by_size
from offbeat.rules.export_choices import Choice, Table, bands, best_at_all_sizes
from offbeat.units import format_count

COLL_FILE = "coll.json"
CH4_FILE = "ch4.json"
COLL_VARIABLE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
CH4_VARIABLE = "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE"
_VENDOR = "MPICH"
_LARGEST_LENGTH = 2**31 - 1  # MPICH reads lengths with atoi
_PAGE_BYTES = 4096
# The key that compares the length, and whether it counts all blocks together (csel.c). No other collective
# has a length that all ranks agree on: that of gather and scatter comes from arguments that may differ
# between ranks, that of alltoallv from this rank's counts.
_KEYS = {
    "allreduce": ("avg_msg_size", False), "bcast": ("avg_msg_size", False), "reduce": ("avg_msg_size", False),
    "alltoall": ("avg_msg_size", False), "allgather": ("total_msg_size", True),
    "allgatherv": ("total_msg_size", True), "reduce_scatter": ("total_msg_size", False),
    "reduce_scatter_block": ("total_msg_size", True),
}  # fmt: skip
# The composition of ch4 that runs the algorithm of the other file, for the collectives that have others.
_COMPOSITIONS = {"barrier": "beta", "bcast": "gamma", "allreduce": "beta", "reduce": "gamma"}

Tree = dict[str, Any]
# What must hold for an algorithm (coll_algorithms.txt): the keys for the case that it does, and that it does
# not. The one with "any" comes last, because MPICH tries the keys in this order.
_GUARDS = {
    "commutative": ("is_commutative=yes", "is_commutative=no"),
    "built-in": ("is_op_built_in=yes", "is_op_built_in=no"),
    "count": ("count=any", "count<pow2"),
    "parent": ("comm_hierarchy=parent", "comm_hierarchy=any"),
    "consecutive": ("is_node_consecutive=yes", "is_node_consecutive=no"),
    "regular": ("is_block_regular=yes", "is_block_regular=no"),
    "not in place": ("is_sendbuf_inplace=no", "is_sendbuf_inplace=yes"),
    "in place": ("is_sendbuf_inplace=yes", "is_sendbuf_inplace=no"),
}
_POWER_OF_TWO = "power of two"
_RESTRICTIONS = {
    ("allreduce", "smp"): ("commutative", "parent"),
    ("allreduce", "recursive_multiplying"): ("commutative",),
    ("allreduce", "reduce_scatter_allgather"): ("built-in", "count"),
    ("allreduce", "ring"): ("commutative",),
    ("allreduce", "k_reduce_scatter_allgather"): ("commutative",),
    ("reduce", "smp"): ("commutative", "parent"),
    ("reduce", "circ_graph"): ("commutative",),
    ("reduce", "reduce_scatter_gather"): ("built-in", "count"),
    ("bcast", "smp"): ("parent",),
    ("barrier", "smp"): ("parent",),
    ("allgather", "recursive_doubling"): (_POWER_OF_TWO,),
    ("allgatherv", "recursive_doubling"): (_POWER_OF_TWO,),
    ("alltoall", "pairwise_sendrecv_replace"): ("in place",),
    ("alltoallv", "pairwise_sendrecv_replace"): ("in place",),
    ("alltoallv", "scattered"): ("not in place",),
    ("reduce_scatter", "noncommutative"): (_POWER_OF_TWO, "regular"),
    ("reduce_scatter", "pairwise"): ("commutative",),
    ("reduce_scatter", "recursive_halving"): ("commutative",),
    ("reduce_scatter_block", "noncommutative"): (_POWER_OF_TWO,),
    ("reduce_scatter_block", "pairwise"): ("commutative",),
    ("reduce_scatter_block", "recursive_halving"): ("commutative",),
    ("scan", "smp"): ("consecutive",),
}
# MPICH does not set the parameters of an algorithm that a file leaves out. These are the defaults of the
# variables from which it takes them otherwise, with which the algorithms were measured.
_TREE_PARAMETERS = (
    "k=2",
    "topo_overhead=0",
    "topo_diff_groups=0",
    "topo_diff_switches=0",
    "topo_same_switches=0",
)
_PARAMETERS = {
    ("allreduce", "recursive_multiplying"): ("k=2",),
    ("allreduce", "tree"): ("tree_type=knomial_1", "chunk_size=0", "buffer_per_child=0", *_TREE_PARAMETERS),
    ("allreduce", "recexch"): ("k=2", "single_phase_recv=0"),
    ("allreduce", "k_reduce_scatter_allgather"): ("k=2", "single_phase_recv=0"),
    ("bcast", "tree"): ("tree_type=kary", "is_non_blocking=1", *_TREE_PARAMETERS),
    ("bcast", "pipelined_tree"): (
        "tree_type=kary",
        "k=2",
        "is_non_blocking=1",
        "chunk_size=8192",
        "recv_pre_posted=0",
    ),
    ("barrier", "k_dissemination"): ("k=2",),
    ("allgather", "k_brucks"): ("k=2",),
    ("allgather", "recexch_doubling"): ("k=2", "single_phase_recv=0"),
    ("allgather", "recexch_halving"): ("k=2", "single_phase_recv=0"),
    ("alltoall", "k_brucks"): ("k=2",),
}
_NOT_ALL_PARAMETERS = {("barrier", "recexch")}


@dataclass(frozen=True)
class Library:
    """What an MPICH has compiled in."""

    coll: Tree
    ch4: Tree
    keys: frozenset[str]  # those of the keys and names that were asked for that it knows

    @staticmethod
    def read(libmpi: Path) -> Library:
        """Find the trees in a library. Raises CommandError if it has none."""
        with libmpi.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            trees = list(_trees(data))
            known = frozenset(key for key in _all_keys() if _has_text(data, key))
        coll = _first_match(trees, lambda text: '"algorithm=MPIR_Allreduce_intra_' in text)
        ch4 = _first_match(trees, lambda text: '"composition=MPIDI_Allreduce_intra_' in text)
        missing = [v for v in (COLL_VARIABLE, CH4_VARIABLE) if v not in known]
        if coll is None or ch4 is None or missing:
            raise CommandError(
                f"{libmpi} has no trees of the device ch4, as MPICH has from 4.0 on, so nothing can be "
                "exported to it"
            )
        return Library(coll, ch4, known)


def _all_keys() -> set[str]:
    found = {COLL_VARIABLE, CH4_VARIABLE}
    for collective, (key, _) in _KEYS.items():
        found.add(f"{key}<=")
        found |= {_tree_leaf(collective, word) for word in _words(collective)}
    for collective in (*_COMPOSITIONS, "alltoallv", "scan", "exscan", "gather", "scatter"):
        found |= {_tree_leaf(collective, word) for word in _words(collective)}
    found |= {_composition(collective) for collective in _COMPOSITIONS}
    return found


def _words(collective: str) -> list[str]:
    names = host_algorithms.known_names(_VENDOR, collective)
    return [_word(collective, name) for name in names]


def _word(collective: str, name: str) -> str:
    """MPICH's own name of an algorithm."""
    return host_algorithms.variables(_VENDOR, collective, name)[
        f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"
    ]


def _tree_leaf(collective: str, word: str) -> str:
    scope = "allcomm" if word == "nb" else "intra"
    return f"algorithm=MPIR_{collective.capitalize()}_{scope}_{word}"


def _composition(collective: str) -> str:
    return f"composition=MPIDI_{collective.capitalize()}_intra_composition_{_COMPOSITIONS[collective]}"


def _has_text(data: mmap.mmap, text: str) -> bool:
    """Whether the library has a string: text that ends with a zero byte."""
    return data.find(text.encode() + b"\0") >= 0


def _trees(data: mmap.mmap) -> list[str]:
    found = []
    begin = data.find(b'{"collective=')
    while begin >= 0:
        end = data.find(b"\0", begin)
        end = len(data) if end < 0 else end
        found.append(data[begin:end].decode(errors="replace"))
        begin = data.find(b'{"collective=', end)
    return found


def _first_match(texts: Sequence[str], is_wanted: Callable[[str], bool]) -> Tree | None:
    for text in texts:
        if is_wanted(text):
            try:
                tree = json.loads(text)
            except ValueError:
                continue
            if isinstance(tree, dict):
                return tree
    return None


def export(tables: Sequence[Table], library: Library) -> Export:
    """The export of tables with different numbers of ranks."""
    notes: list[str] = []
    named: list[tuple[int, str, int, str]] = []
    coll = json.loads(json.dumps(library.coll))
    ch4 = json.loads(json.dumps(library.ch4))
    # From the largest number of ranks down, because each new branch comes before those that are there.
    for table in sorted(tables, key=lambda table: table.ranks, reverse=True):
        for collective, choices in table.choices.items():
            usable = _usable_choices(collective, choices, table.ranks, library, notes)
            if all(choice.name is None for choice in usable):
                continue
            if collective not in _KEYS and best_at_all_sizes(usable) is None:
                notes.append(cannot_choose_by_size(_VENDOR, collective, table.ranks))
                continue
            _replace_for_ranks(coll, collective, table.ranks, usable, partial(_algorithm, collective))
            if collective in _COMPOSITIONS:
                _replace_for_ranks(ch4, collective, table.ranks, usable, partial(_network, collective))
            named += [
                (table.ranks, collective, choice.size_bytes, choice.name)
                for choice in usable
                if choice.name is not None
            ]
    settings = {COLL_VARIABLE: f"{{folder}}/{COLL_FILE}", CH4_VARIABLE: f"{{folder}}/{CH4_FILE}"}
    texts = {COLL_FILE: as_text(coll), CH4_FILE: as_text(ch4)}
    return Export(texts, {SETTINGS: settings}, sorted(named), notes)


def _usable_choices(
    collective: str, choices: Sequence[Choice], ranks: int, library: Library, notes: list[str]
) -> list[Choice]:
    """The choices without those that this MPICH cannot name, or that do not apply to the number of ranks."""
    found = []
    for choice in choices:
        if choice.name is not None:
            why = _reason_against(collective, choice.name, ranks, library)
            if why:
                where = f"{collective} of {choice.size_bytes} bytes, {format_count(ranks, 'rank')}"
                notes.append(f"{where}: MPICH decides by itself, because {why}")
                choice = Choice(choice.size_bytes, None)
        found.append(choice)
    return found


def _reason_against(collective: str, name: str, ranks: int, library: Library) -> str:
    word = _word(collective, name)
    if _tree_leaf(collective, word) not in library.keys:
        return f"its files cannot name {name}"
    if collective in _COMPOSITIONS and _composition(collective) not in library.keys:
        return "it does not know the composition that runs an algorithm by name"
    if f"collective={collective}" not in library.coll:
        return "its trees do not have this collective"
    if (collective, word) in _NOT_ALL_PARAMETERS:
        return f"its files cannot set all parameters of {name}"
    restrictions = _RESTRICTIONS.get((collective, word), ())
    if _POWER_OF_TWO in restrictions and ranks & (ranks - 1) != 0:
        return f"{name} needs a power of two of ranks, so another algorithm was measured"
    if "in place" in restrictions:
        return f"{name} is for calls in place, so another algorithm was measured"
    return ""


def _algorithm(collective: str, name: str) -> tuple[Tree, Sequence[str]]:
    """The leaf of an algorithm, and what must hold for it."""
    word = _word(collective, name)
    parameters: Tree = {parameter: {} for parameter in _PARAMETERS.get((collective, word), ())}
    return {_tree_leaf(collective, word): parameters}, _RESTRICTIONS.get((collective, word), ())


def _network(collective: str, name: str) -> tuple[Tree, Sequence[str]]:
    """The leaf of ch4 for an algorithm of the other file."""
    return {_composition(collective): {}}, ()


def _replace_for_ranks(
    trees: Tree,
    collective: str,
    ranks: int,
    choices: Sequence[Choice],
    leaf: Callable[[str], tuple[Tree, Sequence[str]]],
) -> None:
    """Change what communicators of ``ranks`` ranks do. Every other case goes on as before."""
    key = f"collective={collective}"
    tree = trees[key]
    # The trees of some collectives do not ask for the kind of communicator.
    kinds = tree if "comm_type=intra" in tree else {"comm_type=intra": tree, "comm_type=inter": tree}
    before = kinds["comm_type=intra"]
    after: Tree = {}
    if ranks > 1:
        after[f"comm_size<={ranks - 1}"] = before
    after[f"comm_size<={ranks}"] = _tree_by_size(collective, ranks, choices, leaf, before)
    after["comm_size=any"] = before
    trees[key] = {**kinds, "comm_type=intra": after}


def _tree_by_size(
    collective: str,
    ranks: int,
    choices: Sequence[Choice],
    leaf: Callable[[str], tuple[Tree, Sequence[str]]],
    before: Tree,
) -> Tree:
    def branch(name: str | None) -> Tree:
        return before if name is None else _tree_with_guards(*leaf(name), before)

    if collective not in _KEYS:
        return branch(choices[0].name)
    key, is_of_all_blocks = _KEYS[collective]
    factor = ranks if is_of_all_blocks else 1
    found: Tree = {}
    chosen = bands(choices)
    if chosen[0].least > 0:
        found[f"{key}<={chosen[0].least * factor - 1}"] = before
    for band in chosen:
        # The next band begins at one byte more in each block.
        most = (band.most + 1) * factor - 1
        if most <= _LARGEST_LENGTH:
            found[f"{key}<={most}"] = branch(band.name)
    found[f"{key}=any"] = before
    # The length of an alltoall in place comes from an argument that MPI ignores then.
    return _tree_with_guards(found, ("not in place",), before) if collective == "alltoall" else found


def _tree_with_guards(tree: Tree, restrictions: Sequence[str], before: Tree) -> Tree:
    for restriction in reversed(restrictions):
        if restriction == _POWER_OF_TWO:
            continue  # the number of ranks is known
        holds, fails = _GUARDS[restriction]
        cases = {holds: tree, fails: before}
        tree = {fails: before, holds: tree} if holds.endswith("=any") else cases
    return tree


def as_text(tree: Mapping[str, Any]) -> str:
    """The text of a file.

    MPICH maps a file into memory and reads on to a zero byte, which there is only if the file does not fill
    its last page.
    """
    text = json.dumps(tree, indent=1) + "\n"
    return text + "\n" if len(text) % _PAGE_BYTES == 0 else text
