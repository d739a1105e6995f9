# SPDX-License-Identifier: BSD-3-Clause
"""The public name of ``offbeat.trace.diagnosis`` (docs/how-to/reading-a-report.md)."""

from offbeat.trace.diagnosis import Diagnosis, Finding, Kind, Occurrence, Period, diagnose

__all__ = ["Diagnosis", "Finding", "Kind", "Occurrence", "Period", "diagnose"]
