# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the package that need no second rank."""

from __future__ import annotations

import datetime
import importlib
import subprocess
import sys
import types
from pathlib import Path

import offbeat.torch
import pytest
import torch.distributed as dist
from offbeat.torch import _build, _mpirun
from torch._C._distributed_c10d import Backend, ErrorType, _ProcessGroupWrapper

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    import os

    environment = os.environ | settings
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("network", ["tcp", "libfabric", "libfabric:verbs"])
def test_who_wants_another_network_gets_no_mpi(monkeypatch: pytest.MonkeyPatch, network: str) -> None:
    """Not even under the preload on several nodes, where MPI is started otherwise."""
    nodes = {"node/0": b"here", "node/1": b"there"}
    store = types.SimpleNamespace(set=lambda *_: None, get=nodes.__getitem__)
    started: list[str] = []
    monkeypatch.setattr(offbeat.torch, "_is_preloaded", lambda: True)
    monkeypatch.setattr(importlib, "import_module", started.append)
    monkeypatch.setenv("OFFBEAT_NETWORK", network)
    offbeat.torch._start_mpi_between_nodes(store, 0, 2)
    assert started == []
    monkeypatch.delenv("OFFBEAT_NETWORK")
    offbeat.torch._start_mpi_between_nodes(store, 0, 2)
    assert started == ["mpi4py.MPI"]


def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    done = run("-m", "offbeat.torch", CXX=str(tmp_path / "no-c++"), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("offbeat: ")
    assert "no C++ compiler" in line
    assert "set CXX" in line


def test_a_compiler_that_fails_leaves_its_output(tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "fatal error: no room" >&2; exit 1\n'
    )
    compiler.chmod(0o755)
    done = run("-m", "offbeat.torch", CXX=str(compiler), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert "fatal error: no room" in done.stderr.splitlines()[-1]
    (log,) = tmp_path.rglob("error.log")
    assert "no room" in log.read_text()
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.only_deep
def test_ranks_that_compile_at_once_compile_once(tmp_path: Path) -> None:
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = [pool.submit(run, "-m", "offbeat.torch", XDG_CACHE_HOME=str(tmp_path)) for _ in range(3)]
    ended = [job.result() for job in jobs]
    assert [each.returncode for each in ended] == [0, 0, 0]
    assert sum("compiling" in each.stderr for each in ended) == 1
    assert len({each.stdout for each in ended}) == 1


def test_a_backend_knows_that_a_begun_call_has_failed() -> None:
    options = types.SimpleNamespace(store=dist.HashStore(), group_rank=0, group_size=1, timeout=20)
    backend = offbeat.torch._create(options, None)
    gloo = dist.ProcessGroupGloo(dist.HashStore(), 0, 1, datetime.timedelta(seconds=20))
    state = _ProcessGroupWrapper(backend, gloo).get_error  # which a Backend has in C++ only
    assert state() == ErrorType.SUCCESS
    backend.abort()
    begun = dist.BarrierOptions()
    begun.asyncOp = True
    with pytest.raises(dist.DistBackendError, match="has given up"):
        backend.barrier(begun).wait()
    assert state() == ErrorType.COMM_ERROR


@pytest.mark.parametrize("waits_in", ["wait", "shutdown"])
def test_a_group_lives_as_long_as_a_thread_waits_in_it(waits_in: str, tmp_path: Path) -> None:
    library = tmp_path / "stand_in.so"
    source = Path(__file__).with_name("stand_in.c")
    headers = f"-I{_build.header_folder()}"
    subprocess.run(["cc", "-shared", "-fPIC", headers, str(source), "-o", str(library)], check=True)
    done = run(str(Path(__file__).parent / "ranks/shut_down.py"), str(library), waits_in)
    assert done.stdout == "freed 0 times while a thread waits, 1 afterwards, 0 too early\n", done.stderr


def test_options_that_have_no_effect_are_an_error(tmp_path: Path) -> None:
    of_nccl = types.SimpleNamespace(backend="nccl")  # passed to all backends of "cpu:offbeat,cuda:nccl"
    offbeat.torch._require_no_options(of_nccl)
    own = Backend.Options("offbeat", datetime.timedelta(seconds=20))
    for options in (own, dist.ProcessGroupGloo._Options(), {"timeout": 20}):
        with pytest.raises(RuntimeError, match=r"takes no pg_options.*`timeout` of init_process_group"):
            dist.init_process_group(
                "offbeat", init_method=f"file://{tmp_path}/store", rank=0, world_size=1, pg_options=options
            )


def test_variables_of_mpirun() -> None:
    environment = {
        "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "job",
    }  # fmt: skip
    _mpirun.set_torch_variables(environment)
    assert environment["RANK"] == "1"
    assert environment["WORLD_SIZE"] == "2"
    assert environment["LOCAL_RANK"] == "1"
    assert environment["MASTER_ADDR"] == "127.0.0.1"
    assert 20000 <= int(environment["MASTER_PORT"]) < 30000


def test_several_nodes_have_no_made_up_address() -> None:
    environment = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    _mpirun.set_torch_variables(environment)
    assert environment["RANK"] == "3"
    assert "MASTER_ADDR" not in environment


def test_torchrun_goes_first() -> None:
    environment = {"RANK": "5", "PMI_RANK": "3", "PMI_SIZE": "4"}
    _mpirun.set_torch_variables(environment)
    assert environment == {"RANK": "5", "PMI_RANK": "3", "PMI_SIZE": "4"}


def test_the_entry_point_registers() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points."torch.distributed.backends"]\noffbeat = "offbeat.torch:register"' in text
    importlib.import_module("offbeat.torch").register()
    assert "offbeat" in dist.Backend.backend_list
