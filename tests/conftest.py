# SPDX-License-Identifier: BSD-3-Clause
"""What all tests have in common."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator

import pytest

# A background job of a shell ignores SIGINT, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Give each test a TMPDIR of its own.

    An mpirun of Open MPI 5 that is killed leaves a folder there with its process number in the name, and a
    later mpirun with that number does not start ("The PMIx server's listener thread failed to start").
    """
    own = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with own as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        return (yield)
