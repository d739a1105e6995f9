# SPDX-License-Identifier: BSD-3-Clause
"""``offbeat.trace.metrics`` under the name that docs/reading-a-report.md uses."""

from offbeat.trace.metrics import CALL, Calls, Group, blocks_with_rows, collect, groups, mean_skew_us

__all__ = ["CALL", "Calls", "Group", "blocks_with_rows", "collect", "groups", "mean_skew_us"]
