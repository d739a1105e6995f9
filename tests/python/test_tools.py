# SPDX-License-Identifier: BSD-3-Clause
"""./test changes the machine only for the stages that need it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script ./test as a module whose stages do nothing."""
    loader = importlib.machinery.SourceFileLoader("test_command", str(ROOT / "test"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, loader.name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    loader.exec_module(module)
    monkeypatch.setattr(module, "set_up", lambda arguments: None)
    monkeypatch.setattr(module, "STAGES", dict.fromkeys(module.STAGES, lambda _: module.Count(passed=1)))
    monkeypatch.setattr(module.setup, "install_torch", lambda: "nobody asked for it")
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    return module


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [([], False), (["mpi"], False), (["--clients"], False), (["cluster"], True), (["--all-mpi"], True)],
)
def test_the_kernels_scheduler_is_only_changed_for_virtual_hosts(
    monkeypatch: pytest.MonkeyPatch, command: ModuleType, arguments: list[str], changes: bool
) -> None:
    called = []
    monkeypatch.setattr(command.hosts, "schedule_without_sessions", lambda: called.append(True))
    monkeypatch.setattr("sys.argv", ["./test", *arguments])
    assert command.main() == 0
    assert bool(called) == changes
