# SPDX-License-Identifier: BSD-3-Clause
"""Write figures as SVG and PNG files. An installed Chrome or Chromium draws them, without network access."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import kaleido
from choreographer.browsers.chromium import Chromium
from kaleido.errors import ChromeNotFoundError

from offbeat.errors import FAILED, CommandError
from offbeat.reports.figures import Figure

_WIDTH = 1000
_TIMEOUT_S = 90


_NO_BROWSER = "--figures needs Chrome or Chromium, which is not here: apt install chromium"


def check_browser() -> None:
    """Check that a browser is installed. Raises CommandError if not."""
    named = os.environ.get("BROWSER_PATH")
    if not (os.path.exists(named) if named else Chromium.find_browser(skip_local=False)):
        raise CommandError(_NO_BROWSER)


def write(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png for each figure, and make the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make {folder}: {error.strerror}", FAILED) from None
    # Without this, kaleido prints its progress to standard error.
    logging.getLogger("kaleido").setLevel(logging.ERROR)
    logging.getLogger("choreographer").setLevel(logging.ERROR)
    jobs = []
    for figure in figures:
        height = figure.plot.layout.height or 420
        for suffix in ("svg", "png"):
            jobs.append(
                {
                    "fig": figure.plot,
                    "path": str(folder / f"{figure.name}.{suffix}"),
                    "opts": {"format": suffix, "width": _WIDTH, "height": height, "scale": 1},
                }
            )
    try:
        kaleido.write_fig_from_object_sync(jobs, kopts={"mathjax": False, "timeout": _TIMEOUT_S})
    except ChromeNotFoundError:
        raise CommandError(_NO_BROWSER) from None
    except Exception as error:
        # A browser can fail in ways that nobody can list. The first line of the error says how it failed.
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CommandError(f"--figures: the browser failed: {first}", FAILED) from None
    return [Path(str(job["path"])) for job in jobs]
