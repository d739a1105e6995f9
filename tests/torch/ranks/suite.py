# SPDX-License-Identifier: BSD-3-Clause
"""torch's own tests of a distributed backend: suite.py [-k NAME]. WORLD_SIZE says on how many ranks."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("BACKEND", "offbeat")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("INIT_METHOD", "env://")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())

import offbeat.torch  # noqa: F401
from torch.testing._internal.common_distributed import DistTestCases

# The module of the tests reads these as it is imported.
for feature in ("ddp", "subgroup"):
    DistTestCases.backend_feature[feature].add(os.environ["BACKEND"])

from torch.testing._internal.common_utils import run_tests  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)


class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests()
