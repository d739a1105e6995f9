# SPDX-License-Identifier: BSD-3-Clause
"""The rules that offbeat tune stores: where they hold, what a later tuning adds, and who uses them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes import FakeMpi, MakeMpi, Offbeat
from offbeat import machine
from offbeat.errors import CommandError
from offbeat.rules import rule_files, stored

ROW = ["allreduce", "openmpi", "1", "2", "..4KiB", "ring"]
REASON = "tuned 2026-11-26"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def store(home: Mapping[str, str], *rows: list[str], version: str = "5.0.9") -> Path:
    return stored.store("Open MPI", version, rows, [REASON] * len(rows), home)


def rows_in(path: Path) -> list[str]:
    return [rule["text"] for rule in rule_files.without_errors(str(path)).rules]


def test_what_is_stored_is_found(home: dict[str, str], tmp_path: Path) -> None:
    path = store(home, ROW)
    assert path.parent == tmp_path / "home" / ".config" / "offbeat" / "rules"
    assert path.name.startswith("openmpi-5.0.9-")
    assert stored.find("Open MPI", "5.0.9", home) == stored.StoredRules(path)
    assert rows_in(path) == [" ".join(ROW)]
    other = {**home, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert store(other, ROW).parent == tmp_path / "xdg" / "offbeat" / "rules"
    relative = {**home, "XDG_CONFIG_HOME": "xdg"}
    assert stored.folder(relative) == path.parent, "the specification says to ignore a relative path"


def test_the_users_own_rules_come_first(home: dict[str, str]) -> None:
    store(home, ROW)
    for users in ("my.rules", ""):
        assert stored.find("Open MPI", "5.0.9", {**home, "OFFBEAT_RULES": users}) == stored.StoredRules()


def test_rules_of_another_machine_or_version_give_one_warning(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store(home, ROW)
    found = stored.find("Open MPI", "5.0.10", home)
    assert found.path is None
    assert found.warning is not None
    assert f"{path} is for Open MPI 5.0.9 on " in found.warning
    assert ", not for Open MPI 5.0.10 on " in found.warning
    assert "\n" not in found.warning
    assert stored.find("MPICH", "4.3.1", home) == stored.StoredRules(), "of another MPI nobody needs to hear"
    here = machine.fingerprint("Open MPI", "5.0.9")
    for other in (here._replace(processor="Z80"), here._replace(cores=1 + here.cores)):
        monkeypatch.setattr(machine, "fingerprint", lambda mpi, version, other=other: other)
        warning = stored.find("Open MPI", "5.0.9", home).warning
        assert warning is not None
        assert f"not for {other}" in warning
    assert stored.find("Open MPI", "5.0.9", {}) == stored.StoredRules()


def test_stored_rules_with_an_error_are_not_used(home: dict[str, str]) -> None:
    path = store(home, ROW)
    path.write_text(path.read_text() + "allreduce * * * * rng\n")
    found = stored.find("Open MPI", "5.0.9", home)
    assert found.path is None
    assert found.warning is not None
    assert found.warning.startswith(f"stored rules are not used: {path}:")
    assert rows_in(store(home, ROW)) == [" ".join(ROW)], "the next tuning replaces the file"


def test_what_else_lies_in_the_folder_is_no_rule(home: dict[str, str], tmp_path: Path) -> None:
    folder = store(home, ROW).parent
    (folder / "a.rules").write_text("# fingerprint: [1]\n")
    (folder / "b.rules").write_text("# fingerprint: " + "[" * 100_000 + "\n")
    (folder / "c.rules").write_bytes(b"\xff\0" * 1000)
    (folder / "d.rules").mkdir()
    os.mkfifo(folder / "e.rules")
    assert stored.find("MPICH", "4.3.1", home) == stored.StoredRules()


def test_a_later_tuning_adds_to_an_earlier_one(home: dict[str, str]) -> None:
    bcast = ["bcast", "openmpi", "1", "2", "*", "binomial"]
    store(home, ROW, bcast)
    longer = [*ROW[:4], "1KiB..1MiB", "rabenseifner"]
    again = [*ROW[:-1], "linear"]
    path = store(home, longer, again)
    assert rows_in(path) == [" ".join(row) for row in (longer, again, bcast)]
    assert path.read_text().count("fingerprint") == 1


def test_measured_rules_come_before_simulated_ones(home: dict[str, str]) -> None:
    """Whichever was stored first, and a later simulation replaces an earlier one."""
    far = ["allreduce", "openmpi", "2..1024", "2", "*", "nap"]
    here = machine.fingerprint("Open MPI", "5.0.9")

    def simulate(*rows: list[str]) -> Path:
        return stored.store_for(here, rows, ["simulated: 0.50 of the MPI's time"] * len(rows), home)

    simulate([*ROW[:-1], "linear"], far)
    store(home, ROW)
    assert rows_in(simulate([*ROW[:-1], "bine"])) == [" ".join(ROW), " ".join(far)]
    assert rows_in(simulate([*far[:-1], "bine"])) == [" ".join(ROW), " ".join([*far[:-1], "bine"])]


def test_a_home_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(
        CommandError, match=r"cannot store the rules in .*home/\.config/offbeat/rules: Not a dir"
    ):
        store({"HOME": str(tmp_path / "home")}, ROW)
    with pytest.raises(CommandError, match="there is no home folder"):
        store({}, ROW)


# -- offbeat run and offbeat env


@pytest.fixture
def openmpi(fake_mpi: MakeMpi) -> FakeMpi:
    return fake_mpi("openmpi")


def environment_of(
    offbeat: Offbeat, openmpi: FakeMpi, *options: str, **variables: str
) -> tuple[dict[str, str], str]:
    done = offbeat("env", "--mpi", openmpi.prefix, "--shell", "json", *options, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_run_and_env_use_stored_rules(offbeat: Offbeat, openmpi: FakeMpi, tmp_path: Path) -> None:
    assert "OFFBEAT_RULES" not in environment_of(offbeat, openmpi)[0]
    path = store({"HOME": str(tmp_path)}, ROW)
    found, said = environment_of(offbeat, openmpi)
    assert (found["OFFBEAT_RULES"], said) == (str(path), "")
    assert (
        f"rules that offbeat tune stored for this machine: {path}"
        in environment_of(offbeat, openmpi, "-v")[1]
    )
    found, _ = environment_of(offbeat, openmpi, OFFBEAT_RULES="my.rules")
    assert found["OFFBEAT_RULES"] == "my.rules"

    program = openmpi.program(tmp_path / "program")
    done = offbeat("run", "-n", "2", "--", program)
    assert f"argument: OFFBEAT_RULES={path}\n" in done.stdout
    assert done.stderr == ""
    done = offbeat("trace", "-o", tmp_path / "t", "-n", "2", "--", program)
    assert "OFFBEAT_RULES" not in done.stdout, "the host MPI runs the collectives"


def test_stored_rules_that_do_not_fit_are_one_line(
    offbeat: Offbeat, openmpi: FakeMpi, tmp_path: Path
) -> None:
    store({"HOME": str(tmp_path)}, ROW, version="4.1.0")
    found, said = environment_of(offbeat, openmpi)
    assert "OFFBEAT_RULES" not in found
    assert len(said.splitlines()) == 1
    assert said.startswith("offbeat: stored rules are not used: ")
    assert said.endswith("offbeat tune makes new ones\n")


def test_explain_and_show_know_stored_rules(offbeat: Offbeat, openmpi: FakeMpi, tmp_path: Path) -> None:
    """They say what offbeat run uses: with --mpi, or if this MPI is the default."""
    bin_of = openmpi.prefix / "bin"
    calls = ("explain", "allreduce", "--bytes", "8", "--json")
    assert json.loads(offbeat(*calls, path=bin_of).stdout)["rules"] is None
    path = store({"HOME": str(tmp_path)}, ROW)
    for options in ((), ("--mpi", "openmpi")):
        found = json.loads(offbeat(*calls, *options, path=bin_of).stdout)
        assert (found["mpi"], found["rules"]) == ("openmpi", str(path))
        assert found["rows"][0]["expression"] == "ring"
        shown = offbeat("rules", "show", *options, path=bin_of).stdout
        assert shown.startswith(f"# {path} (offbeat tune stored them for Open MPI 5.0.9)\n")
        assert shown.index(" ring ") < shown.index("# built-in rules")
    said = offbeat("explain", "allreduce", path=bin_of).stdout
    assert said.endswith(
        f"Rules: {path}, which offbeat tune stored for Open MPI 5.0.9; then the built-in ones\n"
    )
    for arguments, variables in ((("--mpi", "mpich"), {}), ((), {"OFFBEAT_RULES": ""})):
        found = json.loads(offbeat(*calls, *arguments, path=bin_of, **variables).stdout)
        assert found["rules"] is None


def test_explain_finds_the_version_that_was_tuned(offbeat: Offbeat, openmpi: FakeMpi, tmp_path: Path) -> None:
    path = store({"HOME": str(tmp_path)}, ROW, version="5.0.11")  # that of offbeat's environment
    done = offbeat("explain", "allreduce", "--mpi", "openmpi", path=openmpi.prefix / "bin")
    assert done.stdout.endswith(
        f"Rules: {path}, which offbeat tune stored for Open MPI 5.0.11; then the built-in ones\n"
    )


def test_explain_says_that_stored_rules_do_not_fit(
    offbeat: Offbeat, openmpi: FakeMpi, tmp_path: Path
) -> None:
    store({"HOME": str(tmp_path)}, ROW, version="4.1.0")
    for arguments in (("explain", "allreduce"), ("rules", "show")):
        done = offbeat(*arguments, path=openmpi.prefix / "bin")
        assert done.returncode == 0
        assert done.stderr.startswith("offbeat: stored rules are not used: ")
