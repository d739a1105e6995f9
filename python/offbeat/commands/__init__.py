# SPDX-License-Identifier: BSD-3-Clause
"""One module for each verb of the command line; each has ``register(app)``."""

from offbeat.commands import bench, compare, env, info, pattern, run, trace

COMMANDS = (run, trace, env, bench, compare, pattern, info)
