# SPDX-License-Identifier: BSD-3-Clause
"""What a traced program would take under other algorithms (paper 4), by a benchmark or a simulation."""
