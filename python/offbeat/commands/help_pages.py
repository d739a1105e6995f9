# SPDX-License-Identifier: BSD-3-Clause
"""How ``--help`` looks: verbs and options in groups, and examples at the end.

Paragraphs of a docstring whose lines are all commands are its examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

# The verbs by what they are for, in the order of the help.
VERBS = {
    "Run a program": ("run", "env", "trace", "doctor"),
    "Understand a trace": ("report", "predict", "export"),
    "Measure and choose": ("bench", "compare", "tune", "calibrate", "rules", "explain"),
    "Look without running": ("simulate", "pattern", "info"),
}
ALL_VERBS = tuple(verb for verbs in VERBS.values() for verb in verbs)
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
_OTHER_OPTIONS_TITLE = "Options"


class Command(TyperCommand):
    """A verb."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_text(self, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{name: [] for name in _OPTION_GROUPS}}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            name = "Arguments" if is_argument else _group_of(parameter.name or "")
            groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)
        _write_examples(self, formatter)


_Function = TypeVar("_Function", bound=Callable[..., Any])


class App(typer.Typer):
    """An app whose verbs have the help of this module."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[_Function], _Function]:
        return super().command(name, **{"cls": Command, **options})


class Group(TyperGroup):
    """A verb with verbs of its own, such as ``offbeat rules``."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        _write_text(self, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section(_OTHER_OPTIONS_TITLE):
            formatter.write_dl([record for record in records if record is not None])
        _write_examples(self, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name, verbs in self._groups(ctx):
            with formatter.section(name):
                formatter.write_dl([(verb, first_line(self.get_command(ctx, verb))) for verb in verbs])

    def _groups(self, ctx: Any) -> Iterator[tuple[str, Sequence[str]]]:
        yield "Commands", self.list_commands(ctx)


class Verbs(Group):
    """The command ``offbeat`` itself."""

    def _groups(self, ctx: Any) -> Iterator[tuple[str, Sequence[str]]]:
        known = self.list_commands(ctx)
        grouped = [verb for verbs in VERBS.values() for verb in verbs]
        for name, verbs in VERBS.items():
            yield name, [verb for verb in verbs if verb in known]
        others = [verb for verb in known if verb not in grouped]
        if others:
            yield "Others", others


def first_line(command: Any) -> str:
    """What a verb does, in the list of all verbs: the first sentence of its help, without the full stop."""
    return (command.help or "").strip().partition("\n")[0].rstrip(".")


def examples(command: Any) -> list[str]:
    """The command lines at the end of the help."""
    return _divided(command.help or "")[1]


def _write_text(command: Any, formatter: Any) -> None:
    with formatter.indentation():
        for paragraph in _divided(command.help or "")[0]:
            formatter.write_paragraph()
            formatter.write_text(paragraph)


def _write_examples(command: Any, formatter: Any) -> None:
    if lines := examples(command):
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _group_of(name: str) -> str:
    return next((group for group, names in _OPTION_GROUPS.items() if name in names), _OTHER_OPTIONS_TITLE)


def _divided(text: str) -> tuple[list[str], list[str]]:
    """The paragraphs of a help text, and its examples."""
    paragraphs = text.strip().split("\n\n")
    shown = [paragraph for paragraph in paragraphs if not _is_example(paragraph)]
    lines = [
        line.strip() for paragraph in paragraphs if _is_example(paragraph) for line in paragraph.split("\n")
    ]
    return [" ".join(paragraph.split()) for paragraph in shown], lines


def _is_example(paragraph: str) -> bool:
    return all(line.strip().startswith(("offbeat ", 'eval "$(offbeat')) for line in paragraph.split("\n"))
