# SPDX-License-Identifier: BSD-3-Clause
"""Fit a machine file to runs on the machine (docs/how-to/calibrate.md)."""
