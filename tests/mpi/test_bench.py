# SPDX-License-Identifier: BSD-3-Clause
"""offbeat bench on real MPIs: every collective is right, and the host's own algorithms can be named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import VENV, Mpi, clean_environment, execute

NAMED = {"openmpi": "linear", "mpich": "recursive_doubling", "impi": "recursive_doubling"}


@pytest.mark.mpis(lambda mpi: mpi.prefix is not None and mpi.family != "mpiabi")
def test_all_collectives(mpi: Mpi, tmp_path: Path) -> None:
    output = tmp_path / "b.json"
    ranks = 2 if mpi.slow_when_oversubscribed else 3
    command = [
        str(VENV / "bin" / "offbeat"), "bench", "-n", str(ranks), "--mpi", str(mpi.prefix),
        "--collectives", "allreduce,barrier,bcast,reduce,allgather,alltoall,reduce_scatter",
        "--sizes", "4,1004", "--patterns", "last_delayed", "--algorithms", f"ring,native({NAMED[mpi.kind]})",
        "--budget", "12", "--json", str(output),
    ]  # fmt: skip
    result = execute(command, clean_environment(mpi), 120)
    assert "WRONG" not in result.stdout, result
    assert result.returncode == 0, result
    document = json.loads(output.read_text())
    # On a busy machine the budget may end before the last cell; what is there is right.
    measured = {cell["collective"] for cell in document["cells"] if cell["status"] == "measured"}
    assert {"allreduce", "barrier", "bcast"} <= measured
    assert all(cell["wrong"] is None for cell in document["cells"])
