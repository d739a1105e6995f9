# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark under arrival patterns: what it is to measure, how that is done, and what the results say."""
