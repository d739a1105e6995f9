# SPDX-License-Identifier: BSD-3-Clause
"""One module for each verb of the command line; each has ``register(app)``."""

from offbeat.commands import (
    bench,
    calibrate,
    compare,
    env,
    explain,
    export,
    info,
    pattern,
    predict,
    report,
    rules,
    run,
    simulate,
    trace,
    tune,
)

COMMANDS = (
    run, trace, env, report, predict, bench, tune, calibrate, simulate, compare, pattern, export, rules,
    explain, info,
)  # fmt: skip
