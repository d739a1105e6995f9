# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program of this folder in several ranks: forked.py SIZE FOLDER PROGRAM [ARGUMENT...].

The ranks are forked from a process that has imported torch, because each import takes seconds. Their output
goes to `FOLDER/RANK.out` and `FOLDER/RANK.err`. Prints the exit code of each rank, as subprocess gives it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch.distributed  # noqa: F401


def become(rank: int, size: str, folder: Path) -> None:
    """Make this process a rank: its variables, and where its output goes."""
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update(numbers)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(folder / f"{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)


size, folder, program, *arguments = sys.argv[1:]
ranks: list[int] = []
for rank in range(int(size)):
    process = os.fork()
    if process == 0:
        become(rank, size, Path(folder))
        __file__ = str(Path(__file__).with_name(program))
        sys.argv = [__file__, *arguments]
        # The program runs in this module, so its objects live until Python ends.
        exec(compile(Path(__file__).read_text(), __file__, "exec", dont_inherit=True))
        sys.exit()
    ranks.append(process)
for process in ranks:
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status))
