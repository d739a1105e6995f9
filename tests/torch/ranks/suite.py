# SPDX-License-Identifier: BSD-3-Clause
"""The tests that torch has for gloo, with another backend: suite.py [--some COUNT SEED] [NAME...].

BACKEND is the backend, and WORLD_SIZE the number of ranks. Without names all tests run, or COUNT of them.
Prints a line "NAME: OUTCOME" for each test.
"""

from __future__ import annotations

import functools
import os
import random
import re
import sys
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

BACKEND = os.environ.get("BACKEND", "offbeat")
TESTS_OF = "gloo"
# The tests look at the name of the backend, the first time as their module is imported.
os.environ["BACKEND"] = TESTS_OF
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("INIT_METHOD", "env://")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())

import offbeat.torch  # noqa: E402, F401
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

for feature in ("ddp", "subgroup"):
    DistTestCases.backend_feature[feature].add(TESTS_OF)

from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)


def with_backend(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch.distributed that makes groups of BACKEND instead of TESTS_OF, and checks that."""

    @functools.wraps(function)
    def replaced(*arguments: Any, **named: Any) -> Any:
        if named.get("backend") == TESTS_OF:
            named["backend"] = BACKEND
        group = function(*arguments, **named)
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            assert dist.get_backend(group) == BACKEND
        return group

    return replaced


dist.init_process_group = with_backend(dist.init_process_group)
dist.new_group = with_backend(dist.new_group)


class TestDistBackendWithFork(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
    def setUp(self) -> None:
        super().setUp()
        # Forked ranks have torch. Ranks that are spawned would import it, which takes longer than most tests.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def outcome_of(name: str) -> str:
    result = unittest.TestResult()
    unittest.TestSuite([TestDistBackendWithFork(name)]).run(result)
    for _, text in (*result.failures, *result.errors):
        print(text, file=sys.stderr, flush=True)
    if result.failures or result.errors:
        return "failed"
    return f"skipped: {result.skipped[0][1]}" if result.skipped else "passed"


def names_of_all() -> list[str]:
    return list(unittest.defaultTestLoader.getTestCaseNames(TestDistBackendWithFork))


def main(arguments: list[str]) -> None:
    names = arguments or names_of_all()
    if arguments[:1] == ["--some"]:
        able = [name for name in names_of_all() if not re.search("cuda|gpu|nccl", name)]
        # Many are skipped on a machine without GPUs. At least one is not.
        names = ["test_all_reduce_sum", *random.Random(arguments[2]).sample(able, int(arguments[1]))]
    for name in names:
        print(f"{name}: {outcome_of(name)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
