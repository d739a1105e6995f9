# SPDX-License-Identifier: BSD-3-Clause
"""Predict the run of a traced program under other algorithms, from a benchmark or a simulation (paper 4)."""
