# SPDX-License-Identifier: BSD-3-Clause
"""Child processes that share work, one for each core, and end when the parent does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

from offbeat.bench.rank_processes import end_with_parent

Input = TypeVar("Input")
Result = TypeVar("Result")


def apply(
    function: Callable[[Input], Result],
    inputs: Iterable[Input],
    on_result: Callable[[Result], None],
    processes: int,
    seconds: float | None = None,
) -> None:
    """Call ``function`` with each input in child processes, and ``on_result`` with each result here.

    After ``seconds``, calls that have not ended have no result.
    """
    with _environment():
        pool = futures.ProcessPoolExecutor(processes, get_context("spawn"), _end_with, (os.getpid(),))
        try:
            with _no_interrupts():
                calls = [pool.submit(function, each) for each in inputs]
            for done in futures.as_completed(calls, seconds):
                on_result(done.result())
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():  # they would finish the calls that they have
                worker.terminate()
            if isinstance(error, futures.TimeoutError):  # not the built-in one in Python 3.10
                return
            raise
        pool.shutdown()


def _end_with(parent: int) -> None:
    end_with_parent()
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Delay Ctrl-C to the end of this block, and keep it from child processes that start in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment() -> Iterator[None]:
    """Set what child processes that start in this block need.

    The coroutines of many ranks are spread over memory, so huge pages save address translations (glibc 2.35
    or later). A file of the working directory must not stand for a module (Python 3.11 or later).
    """
    before = {name: os.environ.get(name) for name in ("GLIBC_TUNABLES", "PYTHONSAFEPATH")}
    tunables = before["GLIBC_TUNABLES"]
    if tunables is None or "glibc.malloc.hugetlb" not in tunables:
        os.environ["GLIBC_TUNABLES"] = ":".join(filter(None, [tunables, "glibc.malloc.hugetlb=1"]))
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
