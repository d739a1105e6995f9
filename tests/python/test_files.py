# SPDX-License-Identifier: BSD-3-Clause
"""Files are written as a whole, and by one command at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from fakes import Offbeat, benchmark_of, result_of
from offbeat.errors import FAILED, CommandError
from offbeat.files import locked_for_writing, write_whole
from offbeat.rules import rule_files, stored


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    link, file = tmp_path / "link", tmp_path / "other" / "file"
    link.symlink_to(file)
    assert write_whole(link, lambda new: new.write("text")) == 4
    assert (link.is_symlink(), file.read_text()) == (True, "text")
    assert list((tmp_path / "other").iterdir()) == [file]


def test_devices_and_fifos_stay_what_they_are(tmp_path: Path) -> None:
    fifo = tmp_path / "bench.json"
    os.mkfifo(fifo)
    with pytest.raises(CommandError, match=r"bench\.json: it is not a regular file"):
        benchmark_of(result_of("native")).write(fifo)
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


def test_nothing_is_left_if_there_is_no_space(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def fail(_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CommandError, match=f"cannot write {path}: No space left on device"):
        write_whole(path, fail)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])


@pytest.mark.parametrize(
    "arguments", [["bench", "--json"], ["tune", "-o"], ["calibrate", "-o"]], ids=" ".join
)
def test_a_second_command_does_not_write_the_same_file(
    offbeat: Offbeat, tmp_path: Path, arguments: list[str]
) -> None:
    part = tmp_path / "out.json.part"
    part.write_text("what ranks write now")
    with locked_for_writing(tmp_path / "out.json"):
        # calibrate measures into the .json beside its machine file
        done = offbeat(*arguments, "out.toml" if arguments[0] == "calibrate" else "out.json", "--force")
    assert done.returncode == FAILED
    assert done.stderr == "offbeat: another command writes out.json: wait for it, or name another file\n"
    assert sorted(tmp_path.glob("*out*")) == [part], "nothing is lost, and no lock is left"


def _hold(path: Path, is_held: multiprocessing.synchronize.Event) -> None:
    with locked_for_writing(path):
        is_held.set()
        signal.pause()


def test_a_killed_command_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    context = multiprocessing.get_context("fork")
    is_held = context.Event()
    other = context.Process(target=_hold, args=(path, is_held))
    other.start()
    assert is_held.wait(60)
    with pytest.raises(CommandError, match="another command writes"), locked_for_writing(path):
        pass
    other.kill()
    other.join()
    with locked_for_writing(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_nothing_is_held(tmp_path: Path) -> None:
    with locked_for_writing(tmp_path / "nowhere" / "file"):
        pass


def _store(home: Path, size: int) -> None:
    row = ["allreduce", "openmpi", "1", "4", str(size), "ring"]
    stored.store("Open MPI", "5.0.9", [row], ["why"], {"HOME": str(home)})


def test_tunings_that_end_at_once_lose_no_rule(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    all_ = [context.Process(target=_store, args=(tmp_path, size)) for size in range(8, 24)]
    for each in all_:
        each.start()
    for each in all_:
        each.join()
    (path,) = (tmp_path / ".config" / "offbeat" / "rules").iterdir()
    found = {rule["text"].split()[4] for rule in rule_files.without_errors(str(path)).rules}
    assert found == {str(size) for size in range(8, 24)}
