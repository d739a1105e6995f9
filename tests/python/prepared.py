# SPDX-License-Identifier: BSD-3-Clause
"""Runs commands of offbeat in processes that are forked from one which has imported what they need.

To import numpy, rich and the verbs takes most of the time of most commands. Each line of the input is a
request; the answers are the number of the process, and its exit code, as subprocess gives it.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
from typing import Any

from offbeat.commands.root import ROOT


def become(request: dict[str, Any]) -> None:
    """Give this process the folder, environment and files of a command that a shell has just started."""
    os.chdir(request["folder"])
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update(coerced | request["environment"])
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.path[0] = request["folder"]
    sys.argv = ["offbeat", *request["arguments"]]


assert ROOT.commands  # which imports all of them
gc.freeze()  # otherwise the end of each command would copy the memory of all objects
answers = os.fdopen(os.dup(1), "w")  # not inherited by what a command starts
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        become(json.loads(line))
        runpy.run_module("offbeat", run_name="__main__", alter_sys=True)
        sys.exit()
    print(process, file=answers, flush=True)
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
