# SPDX-License-Identifier: BSD-3-Clause
"""Check what was read from a file against the types of the class that holds it."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

Instance = TypeVar("Instance")
_LARGEST_NUMBER = {int: 2**63, float: 1e300}  # a number above it, and one that is not a number, is damage
_SHOWN_CHARACTERS = 40


def checked(instance: Instance) -> Instance:
    """The instance of a class whose fields have types. Raises ValueError if a field has another type."""
    kind: Any = type(instance)
    for name, hint in _field_types(kind).items():
        value = getattr(instance, name)
        if not _has_type(value, hint):
            raise ValueError(f"{name} is {repr(value)[:_SHOWN_CHARACTERS]}")
    return instance


@cache
def _field_types(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _has_type(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint in (int, float):
        is_number = isinstance(value, int if hint is int else (int, float)) and not isinstance(value, bool)
        return is_number and abs(value) < _LARGEST_NUMBER[hint]
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return isinstance(value, hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, each) for each in arguments)
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    return not issubclass(origin, Sequence) or all(_has_type(each, arguments[0]) for each in value)
