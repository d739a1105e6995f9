# SPDX-License-Identifier: BSD-3-Clause
"""Start measuring ranks, read what they write while they run, and end them in time."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from offbeat.bench.records import Records
from offbeat.errors import FAILED, CommandError
from offbeat.mpi import launch

_POLL_S = 0.1


class Limits(NamedTuple):
    """When ranks are ended by force."""

    end: float  # as Unix time
    silence_s: float  # after this long without any news


def follow(
    built: launch.Launch,
    folder: Path,
    output: Path,
    limits: Limits,
    records: Records,
    on_change: Callable[[Records], None],
    *,
    show_output: bool,
) -> None:
    """Start ranks, and fill ``records`` with what they write into ``output`` until they end.

    What mpirun and the ranks print goes to a file in ``folder``. ``show_output`` prints that file in the end.
    Raises CommandError if they cannot be started, fail, or reach one of the limits.
    """
    with (folder / "said").open("wb") as said:
        try:
            job = subprocess.Popen(
                built.command,
                env=built.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                preexec_fn=end_with_parent,
            )
        except OSError as error:
            raise CommandError(f"cannot execute {built.command[0]}: {error.strerror}") from None
        reader = _Reader(output, records)
        try:
            _follow(job, reader, limits, records, on_change)
        finally:
            end_job(job)
            reader.take()
    text = (folder / "said").read_text(encoding="utf-8", errors="replace").strip()
    if records.error is not None:
        raise CommandError(records.error, FAILED)
    if job.returncode != 0 or not records.ended:
        last_words = f": {failure_text(text)}" if text and not show_output else ""
        failure = f"the benchmark job ended with exit code {job.returncode} while {records.doing}{last_words}"
        if show_output and text:
            print(text, file=sys.stderr)
        raise CommandError(failure, FAILED)
    if show_output and text:
        print(text)


def failure_text(text: str) -> str:
    """The line of a failed job's output that says most. Lines of ranks and of mpirun come in any order."""
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or [text]
    return next((line for line in lines if line.startswith("offbeat-bench: ")), lines[0])


class _Reader:
    """Reads the lines of the ranks while they write them."""

    def __init__(self, path: Path, records: Records) -> None:
        self._path, self._records = path, records
        self._offset = 0
        self._lines = 0
        self._rest = b""

    def take(self) -> bool:
        """Read the new lines. Returns whether there was anything new."""
        news = b""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            news = file.read()
        self._offset += len(news)
        *lines, self._rest = (self._rest + news).split(b"\n")
        for line in lines:
            self._lines += 1
            self._records.add(line, f"{self._path}, line {self._lines},")
        return bool(news)


def _follow(
    job: subprocess.Popen[bytes],
    reader: _Reader,
    limits: Limits,
    records: Records,
    on_change: Callable[[Records], None],
) -> None:
    last_news = time.time()
    while job.poll() is None:
        if reader.take():
            last_news = time.time()
        on_change(records)
        silence_s = time.time() - last_news
        doing = f"nothing happened for {silence_s:.0f} s while {records.doing}"
        if silence_s > limits.silence_s:
            raise CommandError(f"{doing}: a deadlock, or a call that takes longer", FAILED)
        if time.time() > limits.end:
            raise CommandError(
                f"{doing}, and the budget is spent: give a longer --budget; if that changes nothing, this "
                "call hangs",
                FAILED,
            )
        time.sleep(_POLL_S)


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel to terminate this process when its parent ends, however it does."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_job(job: subprocess.Popen[bytes]) -> None:
    """Stop mpirun, and with it the ranks, if it still runs."""
    if job.poll() is None:
        job.terminate()
        try:
            job.wait(timeout=5)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
