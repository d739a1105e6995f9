# SPDX-License-Identifier: BSD-3-Clause
"""Find the best algorithms for this machine, and write rules (docs/how-to/tune.md)."""
