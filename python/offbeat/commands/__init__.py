# SPDX-License-Identifier: BSD-3-Clause
"""One module for each verb of the command line; each has ``register(app)``."""

from offbeat.commands import (
    bench,
    calibrate,
    compare,
    doctor,
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
    run, env, trace, doctor, report, predict, export, bench, compare, tune, calibrate, rules, explain,
    simulate, pattern, info,
)  # fmt: skip
