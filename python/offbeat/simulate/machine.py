# SPDX-License-Identifier: BSD-3-Clause
"""Read the TOML files that describe machines to simulate (docs/how-to/simulate.md)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from offbeat import _core
from offbeat.errors import CommandError
from offbeat.machine import Fingerprint
from offbeat.simulate.machine_costs import (
    Beyond,
    Board,
    FittedAlgorithm,
    Level,
    Message,
    Protocol,
    core_in_words,
)
from offbeat.simulate.toml_table import LEAST, Table, quoted
from offbeat.units import format_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_INT = (1 << 31) - 1


@dataclass(frozen=True)
class Machine:
    """A cluster of equal nodes. Each simulation says how many."""

    name: str
    source: str
    within_node: tuple[Protocol, ...]  # shortest messages first
    between_nodes: tuple[Protocol, ...]
    node_bandwidth_gb_per_s: float  # for all messages together that leave a node; may be infinite
    combine_ns_per_byte: float
    copy_ns_per_byte: float
    envelope_bytes: int  # bytes that each message has in addition to its data
    eager_limit_bytes: int
    board: Board | None  # None: the ranks of a node send messages, too
    message_within_node: Message
    message_between_nodes: Message
    eager_limit_within_node_bytes: int
    node_gap_us: float  # between messages that leave a node
    node_receive_bandwidth_gb_per_s: float  # for all messages together that enter a node; may be infinite
    node_memory_bandwidth_gb_per_s: float  # for all that the cores of a node do together; may be infinite
    step_ns: float = 0.0  # of a core, to begin an exchange, a copy or a combination
    beyond: tuple[Beyond, ...] = ()  # smallest cache first
    levels: tuple[Level, ...] = ()  # inside a node, nearest first; empty: as the board says
    message_lines: float = 0.0  # for which a message within a node waits, one after the other
    algorithms: tuple[FittedAlgorithm, ...] = ()
    not_measured: str = ""  # the level whose parameters are a copy of the other's; empty: none
    calibrated: Fingerprint | None = None  # None: it was written by hand

    def with_network_of(self, other: Machine) -> Machine:
        """Nodes of this machine, between which messages take what they take between those of the other."""
        return replace(
            self,
            name=f"{self.name}, {other.name}",
            source=f"Nodes: {self.source}\n\nBetween nodes: {other.source}",
            between_nodes=other.between_nodes,
            message_between_nodes=other.message_between_nodes,
            node_bandwidth_gb_per_s=other.node_bandwidth_gb_per_s,
            node_receive_bandwidth_gb_per_s=other.node_receive_bandwidth_gb_per_s,
            node_gap_us=other.node_gap_us,
            envelope_bytes=other.envelope_bytes,
            eager_limit_bytes=other.eager_limit_bytes,
            algorithms=tuple(each for each in self.algorithms if each.level == "within_node")
            + tuple(each for each in other.algorithms if each.level == "between_nodes"),
            not_measured=other.not_measured if other.not_measured == "between_nodes" else "",
            calibrated=None,
        )

    def warning(self, nodes: int, ranks_per_node: int) -> str | None:
        """A line if simulated ranks send messages on a level that was never measured."""
        if self.not_measured == "between_nodes" and nodes > 1:
            other, where = "within_node", "between nodes"
        elif self.not_measured == "within_node" and ranks_per_node > 1:
            other, where = "between_nodes", "within a node"
        else:
            return None
        return (
            f"{self.name}: messages {where} were not measured: [{self.not_measured}] is a copy of [{other}], "
            "so these times are not those of the machine"
        )

    def simulated(self, nodes: int, ranks_per_node: int) -> _core.SimulatedMachine:
        """Make ``nodes`` nodes with ``ranks_per_node`` ranks each."""
        board = self.board
        levels = self.levels or (() if board is None else board.levels(self.copy_ns_per_byte))
        return _core.SimulatedMachine(
            nodes * ranks_per_node,
            ranks_per_node,
            within_node=[_in_seconds(each) for each in self.within_node],
            between_nodes=[_in_seconds(each) for each in self.between_nodes],
            injection_rate=self.node_bandwidth_gb_per_s * 1e9,
            gamma=self.combine_ns_per_byte * 1e-9,
            copy=self.copy_ns_per_byte * 1e-9,
            envelope_bytes=self.envelope_bytes,
            eager_bytes=self.eager_limit_bytes,
            board=None if board is None else self._board_in_seconds(board),
            within_node_message=self.message_within_node.in_seconds(),
            between_nodes_message=self.message_between_nodes.in_seconds(),
            within_node_eager_bytes=self.eager_limit_within_node_bytes,
            node_gap=self.node_gap_us * 1e-6,
            ejection_rate=self.node_receive_bandwidth_gb_per_s * 1e9,
            memory_rate=self.node_memory_bandwidth_gb_per_s * 1e9,
            step=self.step_ns * 1e-9,
            beyond=[each.in_seconds() for each in self.beyond],
            levels=[each.in_seconds() for each in levels],
            message_lines=self.message_lines,
        )

    def _board_in_seconds(self, board: Board) -> tuple[float, float, float, int]:
        # Levels have the times of whole copies.
        return board.in_seconds(0.0 if self.levels else self.copy_ns_per_byte)

    def facts(self) -> list[tuple[str, str]]:
        """The description of the machine, for people."""
        within = ["; ".join(map(str, self.within_node))]
        between = ["; ".join(map(str, self.between_nodes))]
        if math.isfinite(self.node_bandwidth_gb_per_s):
            between.append(f"{self.node_bandwidth_gb_per_s:g} GB/s a node")
        if math.isfinite(self.node_receive_bandwidth_gb_per_s):
            between.append(f"{self.node_receive_bandwidth_gb_per_s:g} GB/s into a node")
        if self.node_gap_us:
            between.append(f"{self.node_gap_us:g} µs between messages of a node")
        for parts, message in ((within, self.message_within_node), (between, self.message_between_nodes)):
            if text := str(message):
                parts.append(text)
        if self.message_lines:
            within.append(f"waiting for {self.message_lines:g} lines")
        core = core_in_words(
            self.combine_ns_per_byte, self.copy_ns_per_byte, self.node_memory_bandwidth_gb_per_s
        )
        eager = f"to {format_size(self.eager_limit_bytes)}"
        if self.eager_limit_within_node_bytes != self.eager_limit_bytes:
            eager += f", within a node to {format_size(self.eager_limit_within_node_bytes)}"
        if self.step_ns:
            core += f", {self.step_ns:g} ns to begin"
        return [
            ("machine", self.name),
            ("within a node", ", ".join(within)),
            ("between nodes", ", ".join(between)),
            ("combining and copying", "; ".join([core, *map(str, self.beyond)])),
            ("eager", eager),
            ("shared memory", "; ".join(map(str, [self.board, *self.levels])) if self.board else "not used"),
        ]


def _in_seconds(protocol: Protocol) -> tuple[int, float, float, float, float, float]:
    copies = protocol.send_ns_per_byte * 1e-9, protocol.receive_ns_per_byte * 1e-9
    costs = protocol.latency_us * 1e-6, 1e-9 / protocol.bandwidth_gb_per_s, *copies
    return protocol.from_bytes, *costs, protocol.line_share


def names() -> list[str]:
    """The names of the machines that come with offbeat."""
    folder = resources.files("offbeat.simulate").joinpath("machines")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def path_of(name: str) -> str:
    """The path of the file of a machine that comes with offbeat. Another name is a path already."""
    if name not in names():
        return name
    return str(resources.files("offbeat.simulate").joinpath("machines", f"{name}.toml"))


def read(name: str) -> Machine:
    """Read a machine by the name of one that comes with offbeat, or by the path of a file.

    ``NODE+NETWORK`` is a machine with the nodes of one and the network of another.
    """
    node, plus, network = name.partition("+")
    if plus and not Path(name).exists():
        return read(node).with_network_of(read(network))
    if name in names():
        file = resources.files("offbeat.simulate").joinpath("machines", f"{name}.toml")
        return parse(file.read_text(encoding="utf-8"), f"machine {name}")
    try:
        return parse(Path(name).read_text(encoding="utf-8-sig"), name)
    except OSError as error:
        if "/" in name or name.endswith(".toml"):
            raise CommandError(f"cannot read {name}: {error.strerror}") from None
        known = ", ".join(names())
        unknown = f"unknown machine '{name}'; there are {known}, or write the path of a file"
        raise CommandError(unknown) from None
    except UnicodeDecodeError:
        raise CommandError(f"cannot read {name}: it is not text") from None


def parse(text: str, where: str) -> Machine:
    """Parse a machine. Raises CommandError, with the name ``where``, if the text is wrong."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CommandError(f"{where}: {error or 'nested too deeply'}") from None
    whole = Table(document, where)
    core = whole.table("core")
    within = whole.table("within_node")
    between = whole.table("between_nodes")
    eager_limit_bytes = whole.integer("eager_limit_bytes", default=8192)
    machine = Machine(
        name=whole.text("name"),
        source=whole.text("source", ""),
        node_bandwidth_gb_per_s=between.number("node_bandwidth_gb_per_s", least=LEAST, default=math.inf),
        node_receive_bandwidth_gb_per_s=between.number(
            "node_receive_bandwidth_gb_per_s", least=LEAST, default=math.inf
        ),
        node_gap_us=between.number("node_gap_us", default=0.0),
        message_within_node=_message(within),
        message_between_nodes=_message(between),
        eager_limit_bytes=eager_limit_bytes,
        eager_limit_within_node_bytes=within.integer("eager_limit_bytes", default=eager_limit_bytes),
        message_lines=within.number("message_lines", default=0.0),
        levels=_levels(within),
        within_node=_protocols(within, copied=True),
        between_nodes=_protocols(between, copied=False),
        combine_ns_per_byte=core.number("combine_ns_per_byte"),
        copy_ns_per_byte=core.number("copy_ns_per_byte", default=0.0),
        envelope_bytes=whole.integer("envelope_bytes", default=0),
        node_memory_bandwidth_gb_per_s=core.number(
            "node_memory_bandwidth_gb_per_s", least=LEAST, default=math.inf
        ),
        step_ns=core.number("step_ns", default=0.0),
        beyond=_beyond(core),
        board=_board(whole.table("board")) if "board" in document else None,
        algorithms=tuple(map(_algorithm, whole.tables("algorithm"))),
        not_measured=_level(whole, "not_measured", ""),
        calibrated=_calibrated(whole.table("calibrated")) if "calibrated" in document else None,
    )
    core.refuse_unknown_keys()
    whole.refuse_unknown_keys()
    if machine.levels:
        _check_levels(machine, within)
    return machine


def _calibrated(table: Table) -> Fingerprint:
    found = Fingerprint(
        processor=table.text("processor"),
        cores=table.integer("cores", least=1),
        mpi=table.text("mpi"),
        version=table.text("version"),
    )
    table.refuse_unknown_keys()
    return found


def _protocols(table: Table, *, copied: bool) -> tuple[Protocol, ...]:
    found = [_protocol(table, 0, copied=copied)]
    for longer in table.tables("longer"):
        begin = longer.integer("from_bytes", least=found[-1].from_bytes + 1)
        found.append(_protocol(longer, begin, copied=copied))
        longer.refuse_unknown_keys()
    table.refuse_unknown_keys()
    return tuple(found)


def _protocol(table: Table, from_bytes: int, *, copied: bool) -> Protocol:
    return Protocol(
        from_bytes,
        table.number("latency_us"),
        table.number("bandwidth_gb_per_s", least=LEAST),
        *(table.number(f"{side}_ns_per_byte", default=0.0) for side in ("send", "receive") if copied),
        *([table.number("line_share", default=1.0)] if copied else []),
    )


def _levels(within_node: Table) -> tuple[Level, ...]:
    found: list[Level] = []
    for table in within_node.tables("level"):
        if found and found[-1].cores == 0:
            raise table.wrong("cores", "the level before has all cores of the node already")
        cores = table.integer("cores", most=_MOST_INT, default=0)
        if found and 0 < cores <= found[-1].cores:
            raise table.wrong("cores", f"{cores} is not more than the {found[-1].cores} of the level before")
        rates = (
            table.number(f"{of}_gb_per_s", least=LEAST, default=math.inf) for of in ("core", "link", "memory")
        )
        found.append(Level(cores, table.number("line_ns"), *rates))
        table.refuse_unknown_keys()
    return tuple(found)


def _check_levels(machine: Machine, within_node: Table) -> None:
    """Refuse two answers to one question."""
    level = within_node.tables("level")[0]
    board = machine.board
    if board is not None and (board.far_line_ns or board.ranks_per_cache):
        raise level.wrong("line_ns", "it takes the place of far_line_ns and ranks_per_cache of [board]")
    if all(math.isinf(each.memory_gb_per_s) for each in machine.levels):
        return
    if not machine.beyond:
        raise level.wrong("memory_gb_per_s", "it needs a [[core.beyond]], the last of which it limits")
    limits = [machine.node_memory_bandwidth_gb_per_s]
    limits += [each.node_memory_bandwidth_gb_per_s for each in machine.beyond]
    if any(map(math.isfinite, limits)):
        raise level.wrong("memory_gb_per_s", "it takes the place of node_memory_bandwidth_gb_per_s")


def _beyond(core: Table) -> tuple[Beyond, ...]:
    found: list[Beyond] = []
    for table in core.tables("beyond"):
        least = found[-1].cache_bytes + 1 if found else 0
        found.append(
            Beyond(
                cache_bytes=table.integer("cache_bytes", least=least),
                ranks_per_cache=table.integer("ranks_per_cache", most=_MOST_INT, default=1),
                combine_ns_per_byte=table.number("combine_ns_per_byte"),
                copy_ns_per_byte=table.number("copy_ns_per_byte"),
                node_memory_bandwidth_gb_per_s=table.number(
                    "node_memory_bandwidth_gb_per_s", least=LEAST, default=math.inf
                ),
            )
        )
        table.refuse_unknown_keys()
    return tuple(found)


def _message(table: Table) -> Message:
    return Message(
        send_overhead_us=table.number("send_overhead_us", default=0.0),
        receive_overhead_us=table.number("receive_overhead_us", default=0.0),
        send_gap_us=table.number("send_gap_us", default=0.0),
        receive_gap_us=table.number("receive_gap_us", default=0.0),
        handshake_us=table.number("handshake_us", default=0.0),
    )


def _board(table: Table) -> Board:
    board = Board(
        line_ns=table.number("line_ns"),
        far_line_ns=table.number("far_line_ns", default=0.0),
        line_gap_ns=table.number("line_gap_ns", default=0.0),
        put_line_ns=table.number("put_line_ns", default=0.0),
        ranks_per_cache=table.integer("ranks_per_cache", most=_MOST_INT, default=0),
    )
    table.refuse_unknown_keys()
    return board


def _algorithm(table: Table) -> FittedAlgorithm:
    level = _level(table, "level", "between_nodes")
    found = FittedAlgorithm(
        table.text("expression"),
        table.text("mpi", ""),
        level,
        table.number("latency_us"),
        table.number("bandwidth_gb_per_s", least=LEAST),
    )
    table.refuse_unknown_keys()
    return found


def _level(table: Table, key: str, default: str) -> str:
    level = table.text(key, default)
    if level not in ("within_node", "between_nodes", default):
        raise table.wrong(key, f"{quoted(level)} is neither between_nodes nor within_node")
    return level
