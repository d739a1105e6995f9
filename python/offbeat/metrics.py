# SPDX-License-Identifier: BSD-3-Clause
"""The public name of ``offbeat.trace.metrics`` (docs/how-to/reading-a-report.md)."""

from offbeat.trace.metrics import CALL, Calls, Group, blocks_with_rows, collect, groups, mean_skew_us

__all__ = ["CALL", "Calls", "Group", "blocks_with_rows", "collect", "groups", "mean_skew_us"]
