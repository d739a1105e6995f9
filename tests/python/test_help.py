# SPDX-License-Identifier: BSD-3-Clause
"""What --help says, completion, and that every command line in the pages and in the help is understood."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from fakes import Offbeat
from offbeat.__main__ import make_app
from offbeat.commands import help_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
GROUP: Any = typer.main.get_command(make_app())
WIDTH = 80


def verbs(group: Any = GROUP, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*before, name), command
        if hasattr(command, "commands"):
            yield from verbs(command, (*before, name))


VERBS = dict(verbs())


def shown(words: tuple[str, ...], command: Any) -> str:
    parent = None
    for word in ("offbeat", *words[:-1]):
        parent = typer.Context(GROUP if word == "offbeat" else VERBS[(word,)], info_name=word, parent=parent)
    with typer.Context(command, info_name=words[-1], parent=parent) as context:
        return str(command.get_help(context))


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_has_groups_examples_and_no_types_of_python(words: tuple[str, ...]) -> None:
    command = VERBS[words]
    text = shown(words, command)
    for word in ("TEXT", "INTEGER", "FLOAT", "PATH", "BOOLEAN", "<Enum", "None", "x>="):
        assert not re.search(
            rf"(?<![\w_]){re.escape(word)}(?!\w)(?! otherwise)", text.replace("on PATH", "")
        ), word
    if not hasattr(command, "commands"):
        assert help_pages.examples(command), "an example"
        assert "\nExamples:\n" in text
        assert any(
            parameter.name == "as_json" or parameter.name == "json_file" for parameter in command.params
        )


def test_first_lines_fit() -> None:
    longest = max(len(words[-1]) for words in VERBS)
    for words, command in VERBS.items():
        line = help_pages.first_line(command)
        assert len(line) + longest + 4 <= WIDTH, " ".join(words)
        assert line[0].isupper()
        assert not line.endswith(".")


def test_every_verb_is_in_one_group() -> None:
    grouped = [verb for of in help_pages.VERBS.values() for verb in of]
    assert len(grouped) == len(set(grouped))
    missing = [words[0] for words in VERBS if words[0] not in grouped]
    assert missing == []


# -- command lines


def understood(line: str) -> None:
    """Parse a command line as the tool does, without doing anything."""
    # Two blanks begin an explanation.
    words = shlex.split(re.split(r" {2,}", line)[0], comments=True)[1:]
    # What follows is the shell's.
    end = next(
        (i for i, word in enumerate(words) if word in ("|", ";", "&&", ">", "2>", "<") or word.endswith(";")),
        None,
    )
    words = words[:end]
    command, name = GROUP, "offbeat"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, f"{line}: no command {name}"
        command = command.commands[name]
    with command.make_context(name, words, resilient_parsing=False) as context:
        assert context is not None


def commands_in(page: Path) -> Iterator[str]:
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    for line in text.splitlines():
        found = re.match(
            r"^(?: {4,}|)(?:\$ )?(?:[A-Z_]+=\S+ )*(offbeat .*|eval \"\$\((offbeat .*)\)\"?.*)$", line
        )
        if found is not None and line.startswith(("    ", "$")):
            yield found[2] or found[1]


LINES = [(page, line) for page in PAGES for line in commands_in(page)]


def is_command(line: str) -> bool:
    """Not a line of the list of commands, of an error, or of another text that begins with the name."""
    return not re.match(r"offbeat \w+  ", line) and "..." not in line and "[" not in line.partition("--")[0]


@pytest.mark.parametrize(
    "page", sorted({page for page, _ in LINES}), ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_command_line_of_the_pages_is_understood(page: Path) -> None:
    checked = 0
    for line in (line for where, line in LINES if where == page and is_command(line)):
        try:
            understood(line)
        except Exception as error:  # typer's usage errors have no public base class
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            pytest.fail(f"{page.name}: {line}: {message}")
        except SystemExit:
            pass
        checked += 1
    assert checked or page.name != "commands.md"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_example_of_the_help_is_understood(words: tuple[str, ...]) -> None:
    for line in help_pages.examples(VERBS[words]):
        found = re.match(r'eval "\$\((.*?)\)".*', line)
        understood(found[1] if found else line)


def test_a_wrong_command_line_would_be_seen() -> None:
    for line in ("offbeat bench --size 8", "offbeat fly", "offbeat run -n x ./a", "offbeat rules chek a"):
        with pytest.raises(Exception, match=r"(?i)no such|valid|no command"):
            understood(line)


# -- completion


def test_a_shell_completes_verbs_options_and_values(offbeat: Offbeat) -> None:
    def completed(line: str) -> str:
        done = offbeat(
            _OFFBEAT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1)
        )
        return done.stdout

    assert completed("offbeat be").split() == ["bench"]
    assert "--algorithms" in completed("offbeat bench --al")
    assert completed("offbeat bench --format n").split() == ["nccl"]
    assert completed("offbeat explain allr").split() == ["allreduce"]
    assert {"openmpi", "mpich"} <= set(completed("offbeat rules show --mpi ").split())
    # The tests may run without a shell among their parent processes, so typer must not look for one.
    shown = offbeat("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "complete_bash" in shown.stdout
