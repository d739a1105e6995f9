# SPDX-License-Identifier: BSD-3-Clause
"""How jobs get to the hosts: each rank to the right one, and the preload by `offbeat env` and srun."""

from __future__ import annotations

from collections import Counter

import pytest
from harness import PROGRAMS, VENV, clean_environment, compile_program, execute
from hosts import Cluster, parse_shape
from launch import on_hosts, until_it_begins

# As a user types it; the last word stands for the options that say how many ranks and where.
USERS_LINE = 'eval "$(offbeat env -vv --allreduce nap -- "$0")" && exec srun "$@" "$0"'


@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_ranks_are_where_they_should_be(cluster: Cluster, name: str, starter: str) -> None:
    mpi = on_hosts(name, cluster, parse_shape("3+2+1"), starter)
    # Open MPI's mpirun may wait for ever for what ends as soon as it has begun.
    command = [*mpi.launch(6), "sh", "-c", "hostname; sleep 0.3"]
    environment = clean_environment(mpi)
    result = until_it_begins(mpi, lambda: execute(command, environment, timeout=20)).succeeded()
    assert Counter(result.stdout.split()) == {"n0": 3, "n1": 2, "n2": 1}, str(result)


def test_srun_with_the_variables_of_offbeat_env(cluster: Cluster, name: str) -> None:
    """All of srun is under the preload then, too, and takes no notice of it."""
    mpi = on_hosts(name, cluster, parse_shape("4x2"), "srun")
    program = compile_program(mpi, PROGRAMS / "sum_once.c")
    command = mpi.launch(mpi.ranks)
    srun = command.index("srun")
    environment = clean_environment(mpi)
    environment["PATH"] = f"{VENV / 'bin'}:{environment['PATH']}"
    line = [*command[:srun], "sh", "-c", USERS_LINE, str(program), *command[srun + 1 :]]
    result = until_it_begins(mpi, lambda: execute(line, environment, timeout=60)).succeeded()
    assert result.report.served == result.report.intercepted == result.calls == 2, str(result)
    assert "ranks: 8: nap (OFFBEAT_ALLREDUCE)" in result.stderr, str(result)
