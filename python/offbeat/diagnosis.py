# SPDX-License-Identifier: BSD-3-Clause
"""The public name of ``offbeat.trace.diagnosis`` and ``findings`` (docs/how-to/reading-a-report.md)."""

from offbeat.trace.diagnosis import diagnose
from offbeat.trace.findings import Diagnosis, Finding, Kind, Occurrence, Period

__all__ = ["Diagnosis", "Finding", "Kind", "Occurrence", "Period", "diagnose"]
