# SPDX-License-Identifier: BSD-3-Clause
"""Traces of collective calls (docs/trace-format.md) as NumPy arrays.

trace = offbeat.trace.read("run.trace")
trace.calls(3)                       the calls of rank 3, one structured array, times of one clock
trace.dataframe()                    the same of all ranks, with pandas
for block in trace.blocks(trace.communicators[0]):
    block.arrival                    calls x ranks, nanoseconds
"""

try:
    import numpy as _  # noqa: F401  # everything below needs it: one clear line instead of a traceback
except ImportError as error:  # pragma: no cover
    from offbeat.errors import CommandError

    raise CommandError("reading traces needs NumPy: pip install 'offbeat[report]'") from error

from offbeat.trace.layout import COLLECTIVES, Flag
from offbeat.trace.matching import Block
from offbeat.trace.rank_file import RankFile
from offbeat.trace.reader import Communicator, Trace, read

__all__ = ["COLLECTIVES", "Block", "Communicator", "Flag", "RankFile", "Trace", "read"]
