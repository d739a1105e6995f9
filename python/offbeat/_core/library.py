# SPDX-License-Identifier: BSD-3-Clause
"""Calls the compiled library by ctypes, so one compiled file serves every version of Python."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

_LIBRARY = "offbeat-python.so"


class UsageError(ValueError):
    """The user gave something that is wrong."""


class ExpressionError(ValueError):
    """An expression could not be parsed. The text names the column."""


_ERROR_OF_STATUS: dict[int, type[Exception]] = {
    1: UsageError,
    2: ExpressionError,
    3: MemoryError,
    4: RuntimeError,
}


def _load() -> ctypes.CDLL:
    # An editable installation has two folders: the sources, and site-packages with the compiled files.
    for folder in sys.modules["offbeat"].__path__:
        path = Path(folder) / "lib" / _LIBRARY
        if path.is_file():
            # The interpreter's lock stays held, so that a simulation can ask for signals.
            return ctypes.PyDLL(str(path))
    raise ImportError(f"this installation of offbeat has no {_LIBRARY}")


library = _load()


class Text(ctypes.Structure):
    """A text as the library takes it."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Answer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


library.offbeat_python_text.restype = _Answer


def as_text(value: str) -> Text:
    """Return a text as the library takes it. Bytes that are not UTF-8 stay as they are."""
    data = value.encode(errors="surrogateescape")
    return Text(data, len(data))


def as_int(value: int) -> ctypes.c_int:
    """Raise UsageError for a number that is no int in C."""
    if not -(2**31) <= value < 2**31:
        raise UsageError(f"{value} is too large")
    return ctypes.c_int(value)


def as_size(value: int) -> ctypes.c_size_t:
    """Raise UsageError for a number that is no size_t in C."""
    if not 0 <= value < 2**64:
        raise UsageError(f"{value} is no number of bytes")
    return ctypes.c_size_t(value)


def ask(function: str, *arguments: Any) -> Any:
    """Call a function of the library and return its answer, or raise its error."""
    status = getattr(library, f"offbeat_python_{function}")(*arguments)
    answer = library.offbeat_python_text()
    text = ctypes.string_at(answer.data, answer.size).decode(errors="surrogateescape") if answer.size else ""
    if status != 0:
        raise _ERROR_OF_STATUS[status](text)
    return json.loads(text)
