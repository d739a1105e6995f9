# SPDX-License-Identifier: BSD-3-Clause
"""Lets a command finish even if nobody reads its standard output to the end.

The reader of a pipe, such as head, may close it before everything is printed. There may also be no standard
output at all. The command still does its other work, such as writing a page.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any, TextIO

from offbeat.errors import FAILED, CommandError

_ERROR_HANDLER_NAME = "offbeat.lost"  # the name of _replace_missing_characters()
_MICRO_SIGNS = "\u00b5\u03bc"


class _Output(io.FileIO):
    """A file whose reader may close it. The rest of the output is then dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._discard_further_output()
            return super().write(data)
        except OSError as error:
            self._discard_further_output()
            raise CommandError(f"cannot write to standard output: {error.strerror}", FAILED) from None

    def _discard_further_output(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def _replace_missing_characters(error: UnicodeError) -> tuple[bytes, int]:
    """What is printed instead of characters that the encoding lacks. A byte of a name stays that byte."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return b"".join(_bytes_of_character(character) for character in lost), error.end


def _bytes_of_character(character: str) -> bytes:
    if "\udc80" <= character <= "\udcff":
        return character.encode("utf-8", "surrogateescape")
    return b"u" if character in _MICRO_SIGNS else b"?"


def _open_null_device() -> TextIO:
    return open(os.devnull, "w")


def make_robust() -> None:
    """Replace ``sys.stdout``, unless a test or another program has done so."""
    codecs.register_error(_ERROR_HANDLER_NAME, _replace_missing_characters)
    if sys.stderr is None:
        sys.stderr = _open_null_device()
    if sys.stdout is None:
        sys.stdout = _open_null_device()
    elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.flush()
        known = sys.stdout
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(known.fileno(), "w", closefd=False)),
            encoding=known.encoding,
            errors=_ERROR_HANDLER_NAME if known.errors in ("strict", "surrogateescape") else known.errors,
            line_buffering=known.line_buffering,
        )
