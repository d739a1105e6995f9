# SPDX-License-Identifier: BSD-3-Clause
"""One module for each verb of the command line; each has ``register(app)``."""

from offbeat.commands import bench, compare, env, export, info, pattern, predict, report, run, simulate, trace

COMMANDS = (run, trace, env, report, predict, bench, simulate, compare, pattern, export, info)
