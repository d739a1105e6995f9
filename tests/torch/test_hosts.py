# SPDX-License-Identifier: BSD-3-Clause
"""The backend on several virtual hosts without MPI. Hosts share nothing but a network."""

from __future__ import annotations

import re

import hosts
import jobs
import pytest
from fabric import BY_FABRIC, needs_fabric

pytestmark = pytest.mark.skipif(hosts.obstacle() is not None, reason=str(hosts.obstacle()))


# How many hosts there are, and how many ranks each has.
SHAPES = [(2, 1), (3, 1), (4, 1), (2, 2)]


@pytest.mark.in_turn(1, "program", "shape")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("program", "least_checks"), [("collectives.py", 500), ("sequences.py", 50), ("training.py", 5)]
)
def test_programs(program: str, least_checks: int, shape: tuple[int, int]) -> None:
    arguments = {"sequences.py": ("30", "11"), "training.py": ("1",)}.get(program, ())
    with hosts.Cluster(shape[0]) as cluster:
        ranks = jobs.start_on_hosts(cluster, shape[1], program, *arguments, settings={"OFFBEAT_VERBOSE": "1"})
    jobs.all_right(ranks, least_checks)
    assert re.search(r"of \d ranks on \d nodes: messages go by TCP, from 10\.77\.0\.1", ranks[0].err)


@needs_fabric
@pytest.mark.in_turn(1, "program", "shape")
@pytest.mark.parametrize("shape", [(2, 1), (2, 2)])
@pytest.mark.parametrize(("program", "arguments"), [("collectives.py", ()), ("sequences.py", ("30", "11"))])
def test_programs_by_libfabric(program: str, arguments: tuple[str, ...], shape: tuple[int, int]) -> None:
    settings = {"OFFBEAT_VERBOSE": "1", "OFFBEAT_NETWORK": BY_FABRIC}
    with hosts.Cluster(shape[0]) as cluster:
        ranks = jobs.start_on_hosts(cluster, shape[1], program, *arguments, settings=settings)
    jobs.all_right(ranks, 50)
    assert re.search(r"messages go by libfabric, by tcp\S* from eth0", ranks[0].err), jobs.text_of(ranks)


NETWORKS = ["tcp", pytest.param(BY_FABRIC, marks=needs_fabric)]


@pytest.mark.in_turn(1, "network", "hosts_in_job", "length")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("hosts_in_job", [2, 3])
@pytest.mark.parametrize("length", ["short", "long"])
def test_an_unplugged_host_is_named(network: str, hosts_in_job: int, length: str) -> None:
    """No packet says that it has gone."""
    with hosts.Cluster(hosts_in_job) as cluster:
        ranks = jobs.start_on_hosts(
            cluster, 1, "out_of_reach.py", "unplugged", length, settings={"OFFBEAT_NETWORK": network}
        )
    for each in [ranks[0], *ranks[2:]]:
        found = re.search(r"^unplugged: ([\d.]+) s: (.*)", each.out, re.MULTILINE)
        assert found, jobs.text_of(ranks)
        assert "the machine of rank 1 no longer answers" in found[2], jobs.text_of(ranks)
        assert float(found[1]) < jobs.soon_s(), jobs.text_of(ranks)


@pytest.mark.in_turn(1, "length")
@pytest.mark.parametrize("length", ["short", "long"])
def test_a_stopped_rank_is_waited_for(length: str) -> None:
    """Its machine still answers, for four seconds."""
    with hosts.Cluster(2) as cluster:
        ranks = jobs.start_on_hosts(cluster, 1, "out_of_reach.py", "stopped", length)
    for each in ranks:
        found = re.search(r"^stopped: ([\d.]+) s: right", each.out, re.MULTILINE)
        assert found, jobs.text_of(ranks)
        assert float(found[1]) > 3, jobs.text_of(ranks)


@pytest.mark.in_turn(1, "network", "shape")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("shape", [(3, 1), (2, 2)])
def test_a_killed_rank_is_named(network: str, shape: tuple[int, int]) -> None:
    with hosts.Cluster(shape[0]) as cluster:
        ranks = jobs.start_on_hosts(
            cluster, shape[1], "killed_elsewhere.py", settings={"OFFBEAT_NETWORK": network}
        )
    for rank, each in enumerate(ranks):
        if rank == 1:
            continue
        found = re.search(r"^killed: ([\d.]+) s: (.*)", each.out, re.MULTILINE)
        assert found, jobs.text_of(ranks)
        assert "rank 1 has died" in found[2], jobs.text_of(ranks)
        assert float(found[1]) < jobs.soon_s(), jobs.text_of(ranks)
