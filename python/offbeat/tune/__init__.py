# SPDX-License-Identifier: BSD-3-Clause
"""Find the best algorithm for each collective and size on this machine, and write rules (docs/tune.md)."""
