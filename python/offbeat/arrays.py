# SPDX-License-Identifier: BSD-3-Clause
"""The types of NumPy arrays that several modules name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
