# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark under arrival patterns: its plan, the measurement, and the ranking of the results."""
