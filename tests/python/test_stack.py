# SPDX-License-Identifier: BSD-3-Clause
"""A program's thread may have a stack of 16 KiB, so no function of the libraries keeps much on the stack."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

import pytest
from offbeat.mpi import libraries

MOST_BYTES = 2048
# How a function begins that takes stack. The second form is that of a frame of several pages.
FRAME = re.compile(
    r"^ *(\w+):\s+(?:sub\s+\$0x(\w{1,7}),%rsp|lea\s+-0x(\w{1,7})\(%rsp\),%r(?:sp|11))", re.MULTILINE
)


@pytest.mark.skipif(
    shutil.which("objdump") is None or platform.machine() != "x86_64", reason="reads instructions of x86-64"
)
@pytest.mark.parametrize("family", [*libraries.PRELOADS, "none"])
def test_no_function_has_a_large_frame(family: str) -> None:
    library = libraries.library_without_mpi() if family == "none" else libraries.preload_library(family)
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    frames = {int(at, 16): int(some or paged, 16) for at, some, paged in FRAME.findall(code)}
    assert len(frames) > 500
    large = {hex(at): size for at, size in frames.items() if size > MOST_BYTES}
    assert not large, f"addresses in {library}, for addr2line on the one in build/wheel"
