# SPDX-License-Identifier: BSD-3-Clause
"""How ``--help`` looks: verbs and options in groups, and examples at the end.

Paragraphs of a docstring whose lines are all commands are its examples.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum

from offbeat.commands.command_line import Command, Group, Parameter

_WIDEST = 80
_WIDEST_TERM = 30
# The options by what they are about. Others are in "Options", which comes last.
_STARTING, _ALGORITHMS, _MEASURED, _OUTPUT = (
    "How ranks start", "Algorithms", "What is measured", "Output",
)  # fmt: skip
_OPTION_GROUPS = {
    _STARTING: ("ranks", "mpi", "launcher", "hosts", "hostfile", "mpirun_args"),
    _ALGORITHMS: ("allreduce", "algorithm", "algorithms", "host_names", "rules", "native"),
    _MEASURED: (
        "collectives", "collective", "communicators", "sizes", "types", "operations", "roots", "in_place",
        "patterns", "skew", "iterations", "warm_up", "same_buffers", "computing", "asleep", "budget", "seed",
        "objective", "every", "ranks_every", "paused",
    ),
    _OUTPUT: (
        "output", "output_format", "json_file", "as_json", "shell", "figures", "pattern", "force", "trace",
        "resume", "store", "verbose",
    ),
}  # fmt: skip
_OTHER_OPTIONS = "Options"


def text(command: Command) -> str:
    """The help of a verb."""
    columns = min(shutil.get_terminal_size().columns, _WIDEST) - 2
    return "\n".join(_lines(command, columns))


def first_line(command: Command) -> str:
    """What a verb does, in the list of all verbs: the first sentence of its help, without the full stop."""
    return command.help.partition("\n")[0].rstrip(".")


def examples(command: Command) -> list[str]:
    """The command lines at the end of the help."""
    return [line.strip() for part in _paragraphs(command) if _is_example(part) for line in part.split("\n")]


def _lines(command: Command, columns: int) -> Iterator[str]:
    name = "offbeat" if command.name == "offbeat" else f"offbeat {command.name}"
    arguments = ["COMMAND [ARGS]..."] if isinstance(command, Group) else map(_written, command.arguments)
    yield " ".join([f"Usage: {name} [OPTIONS]", *arguments])
    for paragraph in _paragraphs(command):
        if not _is_example(paragraph):
            yield ""
            yield from _wrapped(paragraph, columns, "  ")
    if isinstance(command, Group):
        for title, names in command.sections.items():
            rows = [(verb, first_line(command.find(verb))) for verb in names]
            yield from ["", f"{title}:", *_definitions(rows, columns)]
    for title, parameters in _sections(command).items():
        if parameters:
            yield from ["", f"{title}:", *_definitions(map(_described, parameters), columns)]
    if lines := examples(command):
        yield from ["", "Examples:", *(f"  {line}" for line in lines)]


def _sections(command: Command) -> dict[str, list[Parameter]]:
    titles = ("Arguments", *_OPTION_GROUPS, _OTHER_OPTIONS)
    found: dict[str, list[Parameter]] = {title: [] for title in titles}
    for parameter in command.parameters:
        found[_group_of(parameter.name) if parameter.is_option else "Arguments"].append(parameter)
    return found


def _group_of(name: str) -> str:
    return next((group for group, names in _OPTION_GROUPS.items() if name in names), _OTHER_OPTIONS)


def _written(argument: Parameter) -> str:
    """An argument in the first line of the help."""
    metavar: str = argument.declared.metavar
    if argument.repeated and not metavar.endswith("..."):
        metavar += "..."
    return metavar if argument.required or metavar.startswith("[") else f"[{metavar}]"


def _described(parameter: Parameter) -> tuple[str, str]:
    """A parameter as it is written, and what it does."""
    declared = parameter.declared
    if not parameter.is_option:
        return declared.metavar, declared.help
    notes = [f"env var: {declared.variable}"] if declared.variable else []
    if parameter.default not in (None, "", False) and not declared.counted:
        notes.append(f"default: {_default_of(parameter)}")
    if parameter.required:
        notes.append("required")
    # --store/--no-store is one way to write it; --store, -s are two.
    separator = " / " if set(parameter.spellings.values()) == {True, False} else ", "
    written = " ".join(filter(None, [separator.join(parameter.spellings), declared.metavar]))
    return written, declared.help + (f"  [{'; '.join(notes)}]" if notes else "")


def _default_of(parameter: Parameter) -> str:
    if parameter.type is bool:
        written = next(each for each, value in parameter.spellings.items() if value is parameter.default)
        return written.lstrip("-")
    return str(parameter.default.value if isinstance(parameter.default, Enum) else parameter.default)


def _definitions(rows: Iterable[tuple[str, str]], columns: int) -> Iterator[str]:
    """Two columns: terms and what they mean. A long term has a line of its own."""
    rows = list(rows)
    width = min(max(len(term) for term, _ in rows), _WIDEST_TERM) + 4
    for term, meaning in rows:
        lines = _wrapped(meaning, columns, " " * width)
        if len(term) <= _WIDEST_TERM and lines:
            lines[0] = f"  {term:<{width - 2}}{lines[0].strip()}"
            yield from lines
        else:
            yield from [f"  {term}", *lines]


def _wrapped(paragraph: str, columns: int, indent: str) -> list[str]:
    return textwrap.wrap(
        " ".join(paragraph.split(" ")).replace("\n", " "),
        columns,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _paragraphs(command: Command) -> list[str]:
    return command.help.strip().split("\n\n")


def _is_example(paragraph: str) -> bool:
    return all(line.strip().startswith(("offbeat ", 'eval "$(offbeat')) for line in paragraph.split("\n"))
