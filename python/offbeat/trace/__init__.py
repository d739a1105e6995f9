# SPDX-License-Identifier: BSD-3-Clause
"""Read traces (docs/reference/trace-format.md) as NumPy arrays, and compute metrics from them.

For example::

    trace = offbeat.trace.read("run.trace")
    trace.calls(3)                       # the calls of rank 3, one structured array, times of one clock
    trace.dataframe()                    # the calls of all ranks; needs pandas
    for block in trace.blocks(trace.communicators[0]):
        block.arrival                    # calls x ranks, nanoseconds
"""

from offbeat.trace.layout import COLLECTIVES, Flag
from offbeat.trace.matching import Block
from offbeat.trace.rank_file import RankFile
from offbeat.trace.reader import Communicator, Trace, read

__all__ = ["COLLECTIVES", "Block", "Communicator", "Flag", "RankFile", "Trace", "read"]
