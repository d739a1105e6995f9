# SPDX-License-Identifier: BSD-3-Clause
"""The words of a command line, and the verbs that take them.

A verb is a function. Each of its parameters is annotated with an ``Option`` or an ``Argument``, and the type
of the parameter says how a word becomes its value. Everything else follows from that: parsing, the errors,
the help (``help_pages``) and what a shell completes (``shell_completion``). Every ``offbeat run`` waits for
these imports, so there are only small ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, get_args, get_origin

from offbeat.errors import CommandError

Complete = Callable[[str], Sequence[str]]
_NOTHING = object()  # the default of a parameter that has none
_NUMBERS: Mapping[type, str] = {int: "a whole number", float: "a number"}


class Option:
    """An option of a verb. Without ``spellings`` it has the name of its parameter.

    ``--store/--no-store`` is a flag that can also be turned off. ``variable`` is an environment variable that
    stands for the option. An option that is ``counted`` may be repeated, as in -vv.
    """

    def __init__(
        self,
        *spellings: str,
        help: str,
        metavar: str = "",
        variable: str = "",
        counted: bool = False,
        complete: Complete | None = None,
    ) -> None:
        self.spellings = spellings
        self.help = help
        self.metavar = metavar
        self.variable = variable
        self.counted = counted
        self.complete = complete


class Argument:
    """An argument of a verb, which has no name before it."""

    def __init__(self, metavar: str, help: str, complete: Complete | None = None) -> None:
        self.metavar = metavar
        self.help = help
        self.complete = complete


class Parameter:
    """A parameter of the function of a verb, as its annotation declares it."""

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        annotated, self.declared = get_args(annotation)
        several = [kind for kind in get_args(annotated) or (annotated,) if kind is not type(None)]
        outer = several[0] if get_origin(annotated) is not list else annotated
        self.name = name
        self.repeated = get_origin(outer) is list
        self.type: Any = get_args(outer)[0] if self.repeated else outer
        self.required = default is _NOTHING
        self.default = None if self.required else default

    @property
    def is_option(self) -> bool:
        """Whether a name comes before its value."""
        return isinstance(self.declared, Option)

    @property
    def takes_value(self) -> bool:
        """Whether a word belongs to it. A flag has none."""
        return not (self.type is bool or (self.is_option and self.declared.counted))

    @cached_property
    def spellings(self) -> dict[str, bool]:
        """How the option is written. The value of a flag that is written so."""
        written = self.declared.spellings or (f"--{self.name.replace('_', '-')}",)
        return {each: not index for spelling in written for index, each in enumerate(spelling.split("/"))}

    @property
    def longest(self) -> str:
        """The name of the option in messages."""
        return max(self.spellings, key=len)

    @property
    def choices(self) -> list[str]:
        """All its values, if there are few and they have names."""
        is_enum = isinstance(self.type, type) and issubclass(self.type, Enum)
        return [each.value for each in self.type] if is_enum else []

    def read(self, words: Sequence[Any]) -> Any:
        """The value that these words give. Raises CommandError."""
        if not self.takes_value:
            return len(words) if self.declared.counted else words[-1]
        return [self._read(word) for word in words] if self.repeated else self._read(words[-1])

    def _read(self, word: str) -> Any:
        if self.choices:
            if word not in self.choices:
                raise self._wrong(f"'{word}' is not one of {', '.join(map(repr, self.choices))}")
            return self.type(word)
        try:
            return self.type(word)
        except ValueError:
            raise self._wrong(f"'{word}' is not {_NUMBERS[self.type]}") from None

    def _wrong(self, why: str) -> CommandError:
        names = self.spellings if self.is_option else [self.declared.metavar]
        return CommandError(f"Invalid value for {' / '.join(map(repr, names))}: {why}")


_HELP = Parameter("help", Annotated[bool, Option("-h", "--help", help="Show this message and exit.")], False)


class Context(ExitStack):
    """What a verb can ask about its command line. What the verb enters here is left when it ends."""

    def __init__(self, command: Command, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.command = command
        self.given = frozenset(given)  # the names of the parameters that the user wrote


class Command:
    """A verb. If it is not ``interspersed``, the first argument ends its options: a program has its own."""

    def __init__(self, function: Callable[..., Any], name: str = "", *, interspersed: bool = True) -> None:
        self.function = function
        self.name = name or function.__name__  # all words, such as `rules check`
        self.interspersed = interspersed

    @property
    def help(self) -> str:
        """The text that the function is documented with."""
        import inspect

        return inspect.getdoc(self.function) or ""

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        """What the function says about its parameters. The module inspect would do it, but imports much."""
        code, known = self.function.__code__, self.function.__annotations__
        names = code.co_varnames[: code.co_argcount]
        return {name: eval(known[name], self.function.__globals__) for name in names}

    @cached_property
    def parameters(self) -> list[Parameter]:
        """Everything that it takes."""
        # The parameters at the end have the defaults.
        defaults = reversed(self.function.__defaults__ or ())
        known = dict(zip(reversed(self._annotations), defaults, strict=False))
        declared = [
            Parameter(name, annotation, known.get(name, _NOTHING))
            for name, annotation in self._annotations.items()
            if annotation is not Context
        ]
        return [*declared, _HELP]

    @property
    def options(self) -> list[Parameter]:
        """What has a name."""
        return [each for each in self.parameters if each.is_option]

    @property
    def arguments(self) -> list[Parameter]:
        """What is told by its place."""
        return [each for each in self.parameters if not each.is_option]

    def option(self, spelling: str) -> Parameter | None:
        """The option that is written so."""
        return next((each for each in self.options if spelling in each.spellings), None)

    def call(self, words: Sequence[str]) -> int:
        """Do what the words say, and return the exit code."""
        given, rest = self._split(words)
        if _HELP.name in given:
            from offbeat.commands import help_pages

            print(help_pages.text(self))
            return 0
        return self._call(given, rest)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """The values that the words give, by parameter. Raises CommandError."""
        return self._values(*self._split(words))

    def _call(self, given: dict[str, list[Any]], rest: list[str]) -> int:
        values = self._values(given, rest)
        with Context(self, given) as context:
            contexts = {name: context for name, each in self._annotations.items() if each is Context}
            return self.function(**contexts, **values) or 0

    def _split(self, words: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
        """The words of each option that is there, by the name of its parameter, and the other words."""
        given: dict[str, list[Any]] = {}
        others: list[str] = []
        left = list(reversed(words))
        while left:
            word = left.pop()
            if others and not self.interspersed:
                return given, [*others, word, *reversed(left)]
            if word == "--":
                return given, [*others, *reversed(left)]
            if word == "-" or not word.startswith("-"):
                others.append(word)
                continue
            parameter, spelling, value = self._option_in(word)
            if not parameter.takes_value:
                if value is not None and word.startswith("--"):
                    raise CommandError(f"Option '{spelling}' does not take a value")
                left += [f"-{value}"] if value else []  # -vv is -v -v
                value = parameter.spellings[spelling]  # type: ignore[assignment]
            elif value is None:
                if not left:
                    raise CommandError(f"Option '{spelling}' requires an argument")
                value = left.pop()
            given.setdefault(parameter.name, []).append(value)
        return given, others

    def _option_in(self, word: str) -> tuple[Parameter, str, str | None]:
        """The option that a word names, how it is written, and the value if it is in the same word."""
        whole = self.option(word)
        if whole is not None:
            return whole, word, None
        is_long = word.startswith("--")
        name, equals, value = word.partition("=") if is_long else (word[:2], "", word[2:])
        parameter = self.option(name)
        if parameter is None:
            from offbeat.commands import hints

            raise CommandError(f"No such option: {name if is_long else word}{hints.of_option(self, name)}")
        return parameter, name, value if equals or not is_long else None

    def _values(self, given: Mapping[str, Sequence[Any]], words: Sequence[str]) -> dict[str, Any]:
        """The values of all parameters. Raises CommandError if one is wrong or missing."""
        found = {}
        by_place = dict(self._by_place(words))
        for parameter in self.parameters:
            if parameter is _HELP:
                continue
            of_variable = os.environ.get(parameter.declared.variable) if parameter.is_option else None
            written = given.get(parameter.name) or by_place.get(parameter.name)
            if written:
                found[parameter.name] = parameter.read(written)
            elif of_variable:
                found[parameter.name] = parameter.read([of_variable])
            elif parameter.required:
                raise CommandError(
                    f"Missing option '{parameter.longest}'"
                    if parameter.is_option
                    else f"Missing argument '{parameter.declared.metavar}'"
                )
            else:
                found[parameter.name] = parameter.default
        return found

    def _by_place(self, words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
        place = 0
        for index, argument in enumerate(self.arguments):
            behind = len(self.arguments) - index - 1
            end = max(len(words) - behind, place) if argument.repeated else place + 1
            yield argument.name, words[place:end]
            place = end
        if len(words) > place:
            raise CommandError(f"Got unexpected extra argument '{words[place]}'")


class Group(Command):
    """A verb that has verbs of its own. ``sections`` has their names, ``find`` finds one."""

    def __init__(
        self,
        function: Callable[..., Any],
        sections: Mapping[str, Sequence[str]],
        find: Callable[[str], Command],
    ) -> None:
        super().__init__(function, interspersed=False)
        self.sections = sections
        self.find = find

    @property
    def names(self) -> list[str]:
        """The names of its verbs."""
        return [name for names in self.sections.values() for name in names]

    @property
    def commands(self) -> dict[str, Command]:
        """Its verbs, all of which are imported for this."""
        return {name: self.find(name) for name in self.names}

    def _call(self, given: dict[str, list[Any]], rest: list[str]) -> int:
        if given:
            return super()._call(given, [])
        command, left = self.named(rest)
        return command.call(left if rest else ["--help"])

    def named(self, words: Sequence[str]) -> tuple[Command, Sequence[str]]:
        """The verb that the words begin with, and its own words. Raises CommandError if there is none."""
        if not words:
            return self, []
        name, *left = words
        if name not in self.names:
            from offbeat.commands import hints

            raise CommandError(f"No such command '{name}'{hints.of_name(name, self.names)}")
        command = self.find(name)
        if isinstance(command, Group) and left and not left[0].startswith("-"):
            return command.named(left)
        return command, left
