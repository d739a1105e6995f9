# SPDX-License-Identifier: BSD-3-Clause
"""Programs that nobody here wrote, under the preload. `./test --clients` installs them first."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "tools")]
