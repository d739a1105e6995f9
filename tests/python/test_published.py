# SPDX-License-Identifier: BSD-3-Clause
"""The files in benchmarks/published: each has the keys, units and sources that its README.md lists."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2] / "benchmarks" / "published"
FILES = sorted(ROOT.rglob("*.toml"))
Document = Mapping[str, Any]

COLLECTIVES = ("allgather", "allgatherv", "allreduce", "alltoall", "barrier", "bcast", "gather", "reduce")
COLUMNS = (["bytes", "us"], ["bytes", "us", "us_low", "us_high"], ["ranks", "us"])
LEVELS = ("pair", "L3", "NUMA domain", "socket", "node", "other node")
MEMORIES = ("L2", "L3", "another core's cache", "DRAM", "DRAM of the other socket")
PLACES = ("own NUMA domain", "own socket", "other socket")

NODE = {"name", "sockets", "cores_per_socket", "not_found", "sources", "cache", "level", "bandwidth"}
CACHE = {"level", "cores", "mib", "source"}
LEVEL = {"name", "cores", "latency_ns", "kind", "source"}
MEMORY = {"place", "latency_ns", "kind", "source"}
BANDWIDTH = {"memory", "of", "cores", "operation", "gb_per_s", "kind", "source"}
ORIGIN = {"kind", "machine", "system", "mpi", "benchmark", "how_read", "source", "remarks"}
TIMES = ORIGIN | {"collective", "columns", "statistic", "datatype", "series"}
FACTOR = {"collective", "of", "beside", "less_percent", "ranks", "bytes"}


def has_keys(table: Document, required: set[str], optional: Iterable[str] = ()) -> None:
    assert required <= table.keys() <= required | set(optional), sorted(table)
    for key, value in table.items():
        if isinstance(value, int | float):
            assert value > 0 or (key == "bytes" and value == 0), f"{key} = {value}"


def is_increasing(values: Iterable[float]) -> bool:
    return all(before < after for before, after in itertools.pairwise(values))


def check_node(document: Document) -> None:
    has_keys(document, NODE, ["memory"])
    sources = document["sources"]
    for source in sources.values():
        has_keys(source, {"what", "url"})
        assert source["url"].startswith("https://") or (ROOT / "nodes" / source["url"]).is_file(), source
    named = [*document["cache"], *document["level"], *document["bandwidth"], *document.get("memory", [])]
    assert {each["source"] for each in named} <= sources.keys()
    for each in document["cache"]:
        has_keys(each, CACHE)
        assert each["level"] in ("L2", "L3")
    for each in document["level"]:
        has_keys(each, LEVEL, ["low_ns", "high_ns", "remote_home_ns", "note"])
        assert each["name"] in LEVELS
        assert each.get("low_ns", 0) <= each["latency_ns"] <= each.get("high_ns", float("inf"))
    assert is_increasing(each["cores"] for each in document["level"])
    assert is_increasing(each["latency_ns"] for each in document["level"])
    assert document["level"][-1]["cores"] == document["sockets"] * document["cores_per_socket"]
    for each in document.get("memory", []):
        has_keys(each, MEMORY, ["note"])
        assert each["place"] in PLACES
    for each in document["bandwidth"]:
        has_keys(each, BANDWIDTH, ["note"])
        assert each["memory"] in MEMORIES
        assert each["of"] in ("core", *LEVELS)
        assert each["operation"] in ("read", "copy", "update", "triad")
    for each in (*document["level"], *document["bandwidth"], *document.get("memory", [])):
        assert each["kind"] in ("measured", "vendor", "estimated")
    assert {each["cores"] for each in document["bandwidth"]} > {1}


def check_origin(document: Document) -> None:
    assert document["source"].startswith("https://")
    assert document["machine"] == "unnamed" or (ROOT / "nodes" / f"{document['machine']}.toml").is_file()
    assert document["how_read"].startswith(("text", "graph"))
    assert ("uncertainty_percent" in document) == document["how_read"].startswith("graph")


def check_times(document: Document) -> None:
    has_keys(document, TIMES, ["uncertainty_percent"])
    check_origin(document)
    columns = document["columns"]
    assert document["collective"] in (*COLLECTIVES, "message")
    assert columns in COLUMNS
    assert document["series"]
    cores = cores_of(document["machine"])
    for series in document["series"]:
        size = "bytes" if columns[0] == "ranks" else "ranks"
        kind = {"level"} if document["collective"] == "message" else {"algorithm", "mapping"}
        has_keys(series, {"nodes", "rows", size} | kind)
        rows = series["rows"]
        assert rows
        assert all(len(row) == len(columns) for row in rows)
        assert is_increasing(row[0] for row in rows)
        for _, *times in rows:
            assert 0 < times[0] < 1e8
            assert len(times) == 1 or times[1] <= times[0] <= times[2]
        most = max(row[0] for row in rows) if columns[0] == "ranks" else series["ranks"]
        assert series["nodes"] <= most <= series["nodes"] * cores


def cores_of(machine: str) -> float:
    if machine == "unnamed":
        return float("inf")
    node = tomllib.loads((ROOT / "nodes" / f"{machine}.toml").read_text())
    return float(node["sockets"] * node["cores_per_socket"])


def check_factors(document: Document) -> None:
    has_keys(document, ORIGIN | {"factor"})
    check_origin(document)
    for each in document["factor"]:
        has_keys(each, FACTOR)
        assert each["collective"] in COLLECTIVES
        assert each["less_percent"] < 100
        assert is_increasing(each["ranks"])
        assert is_increasing(each["bytes"])


def check(path: Path, document: Document) -> None:
    folder = path.relative_to(ROOT).parts[0]
    if folder == "nodes":
        check_node(document)
        return
    check_of: dict[str, Callable[[Document], None]] = {"times": check_times, "factors": check_factors}
    check_of[document["kind"]](document)
    assert (document["kind"] == "factors") == (folder == "factors")
    assert (document.get("collective") == "message") == (folder == "messages")
    if folder == "collectives":
        are_several = [each["nodes"] > 1 for each in document["series"]]
        assert set(are_several) == {path.parent.name == "several-nodes"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_published_file_has_the_keys_units_and_sources_of_its_kind(path: Path) -> None:
    check(path, tomllib.loads(path.read_text(encoding="utf-8")))


def test_the_folder_has_nodes_of_four_vendors_and_ten_tables_of_one_node() -> None:
    assert len({path.name.split("-")[0] for path in (ROOT / "nodes").iterdir()}) >= 4
    assert len(list((ROOT / "collectives" / "one-node").iterdir())) >= 10
    assert {path.suffix for path in ROOT.rglob("*") if path.is_file()} == {".toml", ".md"}


def swap_sizes(document: Any) -> None:
    document["series"][0]["rows"][:2] = reversed(document["series"][0]["rows"][:2])


def make_a_time_zero(document: Any) -> None:
    document["series"][0]["rows"][0][1] = 0


def take_too_many_ranks(document: Any) -> None:
    document["series"][0]["ranks"] = 129


def take_two_nodes(document: Any) -> None:
    document["series"][0]["nodes"] = 2


def leave_out_the_source(document: Any) -> None:
    del document["source"]


def name_another_source(document: Any) -> None:
    document["level"][0]["source"] = "rumour"


def swap_levels(document: Any) -> None:
    document["level"].reverse()


def guess(document: Any) -> None:
    document["bandwidth"][0]["kind"] = "guessed"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            ("collectives/one-node/rome-mpich-allreduce.toml", damage)
            for damage in (
                swap_sizes,
                make_a_time_zero,
                take_too_many_ranks,
                take_two_nodes,
                leave_out_the_source,
            )
        ),
        *(("nodes/amd-rome-7742-2x64.toml", damage) for damage in (name_another_source, swap_levels, guess)),
    ],
)
def test_a_damaged_file_is_refused(name: str, damage: Callable[[Any], None]) -> None:
    path = ROOT / name
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    check(path, copy.deepcopy(document))
    damage(document)
    with pytest.raises(AssertionError):
        check(path, document)
