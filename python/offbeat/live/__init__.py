# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that run now: the counters of their ranks, and what they say."""
