# SPDX-License-Identifier: BSD-3-Clause
"""The page of ``offbeat top``, which is written again at each look."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from offbeat import __version__, files
from offbeat.live import activity, jobs
from offbeat.reports import live_sheets, page

_LONGEST_TITLE = 200
_MOST_STUCK = 8


@dataclass
class Page:
    """One file, and the last look that it shows."""

    path: Path
    _title: str = ""
    _facts: list[tuple[str, str]] = field(default_factory=list)
    _sections: list[page.Section] = field(default_factory=list)

    def show(
        self,
        job: jobs.Job,
        recent: activity.Activity | None,
        ranks: str,
        ask: tuple[str, str] | None,
        *,
        reload_s: float | None,
    ) -> None:
        """Write what one look has shown.

        ``ask`` is a sentence and the command to type next. A browser loads the page again after ``reload_s``.
        """
        total = activity.between(None, job.processes)
        now = recent if recent is not None else total
        sheets, bars = live_sheets.of_page(recent, total)
        stuck = [live_sheets.stuck_line(each) for each in now.stuck[:_MOST_STUCK]]
        after, command = ask if ask is not None else ("", "")
        self._title = f"offbeat top: {job.program}"[:_LONGEST_TITLE]
        self._facts = [("ranks", ranks), ("seen", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))]
        self._sections = page.live_sections(stuck, after, [command] if command else [], sheets, bars)
        state = "the job runs"
        if reload_s is not None:
            pause = "second" if reload_s == 1 else f"{reload_s:g} seconds"
            state += f"; this page is loaded again every {pause}"
        self._write(state, reload_s)

    def end(self, state: str) -> None:
        """Say that the page stays as it is, and why. A browser no longer loads it again."""
        self._write(state, None)

    def _write(self, state: str, reload_s: float | None) -> None:
        facts = page.Section("job", "Job", facts=[*self._facts, ("state", state)])
        text = page.render(self._title, __version__, [facts, *self._sections], reload_s=reload_s)
        files.write_whole(self.path, lambda file: file.write(text))
