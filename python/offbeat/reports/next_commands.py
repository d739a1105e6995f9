# SPDX-License-Identifier: BSD-3-Clause
"""What to type after a finding."""

from __future__ import annotations

import shlex

from offbeat.bench.plan import COLLECTIVES as BENCHED
from offbeat.bench.plan import USUAL
from offbeat.trace import COLLECTIVES
from offbeat.trace.diagnosis import Finding
from offbeat.trace.metrics import Calls


def of_finding(calls: Calls, finding: Finding) -> list[str]:
    """The pattern of this trace, and a benchmark under it at the size of the finding."""
    trace, name = calls.trace, COLLECTIVES[finding.group.collective]
    pattern = f"offbeat report {shlex.quote(str(trace.path))} --pattern skew.txt"
    if name not in BENCHED:
        return [pattern]
    which = "" if name == USUAL else f" --collectives {name}"
    # Of bytes that are whole floats; a barrier has none.
    size = f" --sizes {max(4, finding.group.most_bytes // 4 * 4)}" if name != "barrier" else ""
    skew = f"--patterns balanced,./skew.txt --skew {finding.lateness_us[1]:.0f}us"
    return [pattern, f"offbeat bench -n {trace.ranks}{which}{size} {skew}"]
