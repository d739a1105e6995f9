# SPDX-License-Identifier: BSD-3-Clause
"""Write a file so that a reader never sees half of it, and so that one command at a time writes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeVar

from offbeat.errors import FAILED, CommandError

Answer = TypeVar("Answer")


def write_whole(path: Path, write: Callable[[TextIO], Answer]) -> Answer:
    """Call ``write`` with a new file, which takes the name ``path`` in the end. A symbolic link stays one.

    Raises CommandError if that fails, and if ``path`` is a device or a FIFO: renaming would replace it.
    """
    target = Path(os.path.realpath(path))
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():
            raise CommandError(f"cannot write {path}: it is not a regular file", FAILED)
        with new.open("w", encoding="utf-8", newline="") as file:
            answer = write(file)
        new.replace(target)
        return answer
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", FAILED) from None
    finally:
        _remove_if_present(new)


@contextmanager
def locked_for_writing(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other commands from writing the file ``path``. The kernel ends that if this process is killed.

    Raises CommandError if another command writes it, unless ``wait`` is set. Where no file can be made, as in
    a folder that cannot be written to, nothing is held.
    """
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    file = _open_locked(lock, wait=wait)
    if file is None:
        yield
        return
    if file < 0:
        raise CommandError(f"another command writes {path}: wait for it, or name another file", FAILED)
    try:
        yield
    finally:
        _remove_if_present(lock)
        os.close(file)


def _open_locked(lock: Path, *, wait: bool) -> int | None:
    """The descriptor of the locked file; None: it cannot be made; -1: another process has locked it."""
    while True:
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.exists(lock) and os.path.samestat(os.fstat(file), os.stat(lock)):
                return file
        except BlockingIOError:
            os.close(file)
            return -1
        except FileNotFoundError:  # whoever had the lock has just removed the file
            os.close(file)
            continue
        except OSError:  # a file system without locks
            os.close(file)
            return None
        os.close(file)  # whoever had the lock has removed the file


def _remove_if_present(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
