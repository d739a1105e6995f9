# SPDX-License-Identifier: BSD-3-Clause
"""``offbeat.trace.diagnosis`` under the name that docs/reading-a-report.md uses."""

from offbeat.trace.diagnosis import Diagnosis, Finding, Kind, Period, Place, diagnose

__all__ = ["Diagnosis", "Finding", "Kind", "Period", "Place", "diagnose"]
