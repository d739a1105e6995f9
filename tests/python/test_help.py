# SPDX-License-Identifier: BSD-3-Clause
"""What --help says, completion, and that every command line in the pages and in the help is understood."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import Offbeat
from offbeat.commands import help_pages
from offbeat.commands.command_line import Command, Group
from offbeat.commands.root import ROOT
from offbeat.commands.root import VERBS as SECTIONS
from offbeat.errors import CommandError

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("benchmarks/*.md")]
WIDTH = 80


def verbs(group: Group = ROOT, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    for name, command in group.commands.items():
        yield (*before, name), command
        if isinstance(command, Group):
            yield from verbs(command, (*before, name))


VERBS = dict(verbs())


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_has_groups_examples_and_no_types_of_python(words: tuple[str, ...]) -> None:
    command = VERBS[words]
    text = help_pages.text(command)
    for word in ("TEXT", "INTEGER", "FLOAT", "PATH", "BOOLEAN", "<Enum", "None", "x>="):
        assert not re.search(
            rf"(?<![\w_]){re.escape(word)}(?!\w)(?! otherwise)", text.replace("on PATH", "")
        ), word
    if not isinstance(command, Group):
        assert help_pages.examples(command), "an example"
        assert "\nExamples:\n" in text
        assert any(parameter.name in ("as_json", "json_file") for parameter in command.parameters)


def test_first_lines_fit() -> None:
    longest = max(len(words[-1]) for words in VERBS)
    for words, command in VERBS.items():
        line = help_pages.first_line(command)
        assert len(line) + longest + 4 <= WIDTH, " ".join(words)
        assert line[0].isupper()
        assert not line.endswith(".")


def test_every_verb_is_in_one_group() -> None:
    grouped = [verb for of in SECTIONS.values() for verb in of]
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
    command, rest = ROOT.named(words[next((i for i, word in enumerate(words) if word[:1] != "-"), 0) :])
    command.parse(rest)


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
    "page", sorted({page for page, _ in LINES}), ids=lambda page: str(page.relative_to(REPOSITORY))
)
def test_every_command_line_of_the_pages_is_understood(page: Path) -> None:
    checked = 0
    for line in (line for where, line in LINES if where == page and is_command(line)):
        try:
            understood(line)
        except CommandError as error:
            pytest.fail(f"{page.name}: {line}: {error}")
        checked += 1
    assert checked or page.name != "commands.md"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_example_of_the_help_is_understood(words: tuple[str, ...]) -> None:
    for line in help_pages.examples(VERBS[words]):
        found = re.match(r'eval "\$\((.*?)\)".*', line)
        understood(found[1] if found else line)


def test_a_wrong_command_line_would_be_seen() -> None:
    for line in ("offbeat bench --size 8", "offbeat fly", "offbeat run -n x ./a", "offbeat rules chek a"):
        with pytest.raises(CommandError, match=r"No such|Invalid value"):
            understood(line)


# -- completion


def test_a_shell_completes_verbs_options_and_values(offbeat: Offbeat) -> None:
    def completed(line: str) -> list[str]:
        return offbeat(*line.split(" ")[1:], _OFFBEAT_COMPLETE="1").stdout.split()

    assert completed("offbeat be") == ["bench"]
    assert completed("offbeat rules ch") == ["check"]
    assert "--algorithms" in completed("offbeat bench --al")
    assert completed("offbeat bench --format n") == ["nccl"]
    assert completed("offbeat explain allr") == ["allreduce"]
    assert {"openmpi", "mpich"} <= set(completed("offbeat rules show --mpi "))
    assert completed("offbeat report -o ") == [], "the shell completes names of files"


def test_bash_completes(offbeat: Offbeat, tmp_path: Path) -> None:
    """The script that it is taught, with the function called as bash calls it."""
    script = offbeat("--show-completion", "bash").stdout
    words = 'COMP_WORDS=(offbeat bench --format n) COMP_CWORD=3; _offbeat offbeat; echo "${COMPREPLY[@]}"'
    folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", f"complete() {{ :; }}\n{script}\n{words}"],
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("nccl\n", "")
    assert "_offbeat" in offbeat("--show-completion", "zsh").stdout
    assert "write one of bash, zsh, fish" in offbeat("--show-completion", "tcsh").stderr


# -- hints


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("bench --bytes 8", "; did you mean '--sizes'? offbeat tune calls it --bytes"),
        ("bench --size 8", "; did you mean '--sizes'?"),
        ("report -n 4 run.trace", "; it is an option of offbeat run, trace, doctor, bench, tune,"),
        ("rules chek x", "; did you mean 'check'?"),
    ],
)
def test_an_error_says_what_may_be_meant(offbeat: Offbeat, line: str, hint: str) -> None:
    assert hint in offbeat(*line.split()).stderr


# -- what is imported


@pytest.mark.parametrize("words", ["--version", "run --json -n 2 -- true", "env -- true"])
def test_commands_that_a_program_waits_for_import_little(words: str, tmp_path: Path) -> None:
    """Only offbeat and the standard library, and no module of it that takes long."""
    show = "print(*sys.modules, file=sys.stderr)"
    ask = f"import sys; from offbeat.__main__ import main; main(sys.argv[1:]); {show}"
    environment = {**os.environ, "HOME": str(tmp_path)}

    def imported(*command: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", *command], env=environment, capture_output=True, text=True, check=True
        )
        return set(done.stderr.split())

    found = imported(ask, *words.split()) - imported(f"import sys; {show}")
    assert "offbeat.commands.command_line" in found
    roots = {name.partition(".")[0] for name in found}
    assert roots - set(sys.stdlib_module_names) == {"offbeat"}
    slow = {"argparse", "asyncio", "concurrent", "decimal", "difflib", "email", "fractions", "logging"}
    slow |= {
        "dataclasses",
        "inspect",
        "platform",
        "random",
        "statistics",
        "sysconfig",
        "tempfile",
        "textwrap",
    }
    assert not roots & slow
    assert "importlib.metadata" not in found
    assert len([name for name in found if name.startswith("offbeat")]) <= 33
