# SPDX-License-Identifier: BSD-3-Clause
"""Recognise the framework whose training a trace shows."""

from __future__ import annotations

from offbeat.trace import horovod, pytorch
from offbeat.trace.metrics import Calls
from offbeat.trace.training import Training


def training_of_calls(calls: Calls) -> Training | None:
    """The training in a trace. None if no framework is recognised."""
    return horovod.horovod_training_of_calls(calls) or pytorch.pytorch_training_of_calls(calls)
