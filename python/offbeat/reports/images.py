# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG and PNG files, drawn by an installed Chrome or Chromium; no network."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import kaleido
from kaleido.errors import ChromeNotFoundError

from offbeat.errors import FAILED, CommandError
from offbeat.reports.figures import Figure

_WIDTH = 1000
_TIMEOUT_S = 90


def write(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """NAME.svg and NAME.png of each figure; the folder is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make {folder}: {error.strerror}", FAILED) from None
    # It says on standard error what it is doing.
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
        raise CommandError(
            "--figures needs Chrome or Chromium, which is not here: apt install chromium"
        ) from None
    except Exception as error:
        # What a browser can do is not to be foreseen; the first line says what it was.
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CommandError(f"--figures: the browser failed: {first}", FAILED) from None
    return [Path(str(job["path"])) for job in jobs]
