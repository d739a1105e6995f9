# SPDX-License-Identifier: BSD-3-Clause
"""The imports of the package go in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "offbeat"
# What everybody uses.
TOP = {"__init__", "_core", "arrays", "errors", "expressions", "field_types", "files", "machine", "units"}
# What each part may import, besides itself.
MAY_IMPORT = {
    "__main__": {"commands", "top"},
    "commands": {
        "reports",
        "tune",
        "calibrate",
        "predict",
        "simulate",
        "bench",
        "rules",
        "trace",
        "live",
        "mpi",
    }
    | {"top"},
    "reports": {"tune", "calibrate", "predict", "simulate", "bench", "rules", "trace", "live", "top"},
    "predict": {"simulate", "bench", "trace", "top"},
    "simulate": {"bench", "top"},
    "tune": {"simulate", "bench", "rules", "trace", "mpi", "top"},
    "calibrate": {"bench", "mpi", "top"},
    "bench": {"trace", "mpi", "top"},
    "rules": {"bench", "mpi", "top"},
    "trace": {"top"},
    "live": {"top"},
    "mpi": {"top"},
    "torch": {"mpi", "top"},
    "top": set(),
    # Programs import these two names; the package itself does not.
    "diagnosis": {"trace"},
    "metrics": {"trace"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """The part to which ``offbeat.bench.plan`` belongs; names that the package defines are of the top."""
    first = [*module.split("."), "__init__"][1]
    is_module = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").exists()
    return first if is_module and first not in TOP else "top"


def imported(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """The line and the full name of everything that a module imports, anywhere in it."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def wrong_imports(path: Path, source: str) -> list[str]:
    """One line for each import that the table does not allow."""
    own = part_of(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    return [
        f"{path.relative_to(PACKAGE)}:{line}: {own} may not import {part_of(name)}: {name}"
        for line, name in imported(path, source)
        if name.split(".")[0] == "offbeat" and part_of(name) not in {own, *MAY_IMPORT[own]}
    ]


def test_the_table_has_one_direction() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()


def test_every_module_belongs_to_a_part() -> None:
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert parts - TOP == set(MAY_IMPORT) - {"top"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_table(path: Path) -> None:
    assert wrong_imports(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("errors.py", "from offbeat import units, trace"),
        ("errors.py", "from . import mpi"),
        ("mpi/install.py", "import offbeat.bench"),
        ("mpi/install.py", "from offbeat.commands.start import build_command"),
        ("mpi/__init__.py", "from ..trace.reader import read"),
        ("trace/reader.py", "def read():\n    from offbeat.bench import plan"),
        ("trace/reader.py", "if TYPE_CHECKING:\n    import offbeat.reports.page as page"),
        ("bench/plan.py", "from ..reports import table"),
        ("reports/page.py", "from offbeat import metrics"),
        ("reports/page.py", "from offbeat.mpi import launch"),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str) -> None:
    assert len(wrong_imports(PACKAGE / module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("units.py", "from offbeat.errors import CommandError"),
        ("mpi/libraries.py", "import offbeat, offbeat.mpi.install"),
        ("bench/plan.py", "from . import results\nfrom .. import __version__, trace"),
        ("commands/run.py", "import os.path\nfrom offbeat.mpi import launch"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert wrong_imports(PACKAGE / module, source) == []
