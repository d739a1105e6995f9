# SPDX-License-Identifier: BSD-3-Clause
"""The generated parts of the site, as Markdown.

A page asks for a part with a line `<!-- generated: NAME [ARGUMENT] -->`; PARTS has the names. The parts come
from the registry of the C++ core, the file of rules, the headers of the algorithm files, the C header, and
the parser of the command line, so they cannot differ from what offbeat does. What was measured comes from
benchmarks/results/ (measured.py).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import measured
import offbeat.__main__
from markdown_table import table
from offbeat import _core
from offbeat.bench import arrival_patterns
from offbeat.commands import root
from offbeat.commands.command_line import Group

ROOT = Path(__file__).resolve().parent.parent
COLLECTIVES = ROOT / "src" / "collectives"
MARK = re.compile(r"^<!-- generated: (\w+)(?: (\w+))? -->$", re.MULTILINE)
FIELD = re.compile(r"^([A-Z][a-z]+(?: [a-z]+)?): ")  # such as `Other sizes: `
SERVES = re.compile(r'\.name = "(\w+)",.*?\.serves = (\{[^}]*\}|\w+),', re.DOTALL)
ANY = "any"  # an algorithm that is declared for each collective


# -- the headers of the algorithm files


@functools.cache
def algorithm_files() -> dict[tuple[str, str], Path]:
    """The file that defines an algorithm, by name and collective."""
    found = {}
    for path in sorted(COLLECTIVES.rglob("*.[ch]pp")):
        for declared in re.finditer(SERVES, path.read_text()):
            name, serves = declared[1], re.findall(r"Collective::(\w+)", declared[2])
            for collective in serves or [ANY]:
                found[name, collective] = path
    return found


def file_of(algorithm: _core.Algorithm) -> Path:
    files = algorithm_files()
    name = algorithm["name"]
    return files.get((name, algorithm["collective"])) or files[name, ANY]


def header(path: Path) -> list[str]:
    """The lines of the comment at the top of a file, without their marks and the licence."""
    lines = []
    for line in path.read_text().splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[3:])
    return lines


def escaped(text: str) -> str:
    """Text of a comment, in which nothing but `code` has a meaning in Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if index % 2 else re.sub(r"([<*\[\]|~$])", r"\\\1", part) for index, part in enumerate(parts)
    )


def described(lines: list[str]) -> str:
    """The Markdown of a header: a paragraph for each field, and pictures as they are."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        kind = "picture" if line.startswith("  ") else "text"
        starts = not line or FIELD.match(line) or not blocks or blocks[-1][0] != kind
        if not line:
            blocks.append(("gap", []))
        elif starts and not (blocks and kind == "picture" and blocks[-1][0] == "picture"):
            blocks.append((kind, [line]))
        else:
            blocks[-1][1].append(line)
    written = []
    for kind, block in blocks:
        if kind == "picture":
            written.append("```text\n" + textwrap.dedent("\n".join(block)) + "\n```")
        elif kind == "text":
            text = escaped(" ".join(block))
            written.append(FIELD.sub(r"*\1*: ", text) if not text.startswith("Idea: ") else capital(text[6:]))
    return "\n\n".join(written)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


# -- algorithms


def with_parameters(algorithm: _core.Algorithm) -> str:
    parameters = f"({algorithm['parameters']})" if algorithm["parameters"] else ""
    return algorithm["name"] + parameters


def anchor(algorithm: _core.Algorithm) -> str:
    return f"{algorithm['collective']}-{algorithm['name']}".replace("_", "-")


def rules_of(collective: str) -> list[tuple[str, ...]]:
    """The built-in rules of a collective: host, nodes, ranks per node, bytes, algorithm and reason."""
    rules = []
    for line in (ROOT / "src" / "selection" / "rules.txt").read_text().splitlines():
        rule, _, reason = line.partition("#")
        fields = rule.split(maxsplit=5)
        if fields[:1] == [collective]:
            rules.append((*fields[1:5], fields[5].strip(), reason.strip()))
    return rules


def rule_table(collective: str) -> str:
    rows = [(*(f"`{field}`" for field in rule[:-1]), escaped(rule[-1])) for rule in rules_of(collective)]
    return table(("host", "nodes", "ranks on a node", "bytes", "algorithm", "reason"), rows)


def section(algorithm: _core.Algorithm, described_before: dict[Path, _core.Algorithm]) -> list[str]:
    """The section of an algorithm, with the text of its file if no section before has that."""
    path = file_of(algorithm)
    written = [f"({anchor(algorithm)})=", f"### `{algorithm['name']}`"]
    if algorithm["parameters"]:
        written += [f"Spelling: `{with_parameters(algorithm)}`."]
    if path in described_before:
        same = described_before[path]
        name = f"[`{same['name']}` of {same['collective']}](#{anchor(same)})"
        written += [f"{capital(escaped(algorithm['summary']))}. The idea is that of {name}."]
    else:
        described_before[path] = algorithm
        written += [described(header(path))]
    facts = [f"Formula: `{algorithm['cost']}`."]
    if algorithm["needs"]:
        facts += [f"Needs: {algorithm['needs']}."]
    if HAS_OPERATION[algorithm["collective"]] and not algorithm["every_run"]:
        facts += ["**The bits may differ from run to run.**"]
    return [*written, " ".join(facts)]


HAS_OPERATION = {each["name"]: each["has_operation"] for each in _core.collectives()}


def algorithms() -> str:
    """A section for each collective: its rules, and its algorithms as their files describe them."""
    written: list[str] = []
    described_before: dict[Path, _core.Algorithm] = {}
    for collective in _core.collectives():
        if not collective["served"]:
            continue
        name = collective["name"]
        those = [
            each for each in _core.algorithms() if each["collective"] == name and each["name"] != "native"
        ]
        index = [
            (f"[`{with_parameters(each)}`](#{anchor(each)})", escaped(each["summary"])) for each in those
        ]
        written += [f"## {name}", f"`MPI_{collective['function']}` moves {collective['moves']}."]
        written += [table(("algorithm", "what it does"), index)]
        written += ["The built-in rules; the first one that fits decides:", rule_table(name)]
        for algorithm in those:
            written += section(algorithm, described_before)
    return "\n\n".join(written)


# -- commands


@contextlib.contextmanager
def columns(number: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(number)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def help_of(*arguments: str) -> str:
    """What `offbeat ARGUMENTS --help` prints."""
    out = io.StringIO()
    with columns(96), contextlib.redirect_stdout(out):
        offbeat.__main__.main([*arguments, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def verbs() -> list[str]:
    return root.ROOT.names


def shown_help(*verb: str) -> str:
    """The help of a verb, and of its subcommands if it has any."""
    command, _ = root.ROOT.named(verb)
    below = command.names if verb and isinstance(command, Group) else []
    texts = [help_of(*verb), *(help_of(*verb, name) for name in below)]
    return "\n\n".join(f"```text\n{text}\n```" for text in texts)


def patterns() -> str:
    """The arrival patterns of the benchmark."""
    rows = [
        (f"`{name}`", escaped(each.summary), escaped(each.formula))
        for name, each in arrival_patterns.PATTERNS.items()
    ]
    return table(("pattern", "who is late", "delay"), rows)


# -- settings


def setting(name: str, level: str = "##") -> str:
    """The heading of a setting, its meaning and its values."""
    found = next(each for each in _core.settings() if each["name"] == name)
    facts = f"Values: {found['values']}. Default: {found['default'] or 'unset'}."
    if found["equal_on_all_ranks"]:
        facts += " Must be equal on all ranks."
    return f"{level} `{name}`\n\n{escaped(capital(found['meaning']))}.\n\n{escaped(facts)}"


def other_settings() -> str:
    """The settings to which the page says nothing more."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    told = {name for part, name in MARK.findall(page) if part == "setting"}
    names = [each["name"] for each in _core.settings() if each["name"] not in told]
    return "\n\n".join(setting(name, "###") for name in names)


# -- the C interface


def c_interface() -> str:
    """Each declaration of the C header under the comment that describes it, if it has one."""
    text = (ROOT / "include" / "offbeat" / "offbeat.h").read_text()
    written = []
    for part in text[text.index('extern "C" {') :].split("\n\n"):
        found = re.match(r"(?:/\*\*(.*?)\*/\n)?((?:typedef|\w[\w *]*\boffbeat_).*)", part.strip(), re.DOTALL)
        if found is None:
            continue
        comment, declaration = found[1] or "", found[2].strip()
        named = re.search(r"\b(offbeat_\w+)\s*\(", declaration) or re.search(r"\b(offbeat_\w+)", declaration)
        assert named is not None
        lines = [line.strip().removeprefix("*").strip() for line in comment.strip().splitlines()]
        prose = re.sub(r"^@param (\w+)", r"\n- `\1`:", escaped("\n".join(lines)), flags=re.MULTILINE)
        paragraphs = "\n\n".join(" ".join(paragraph.split()) for paragraph in prose.split("\n\n"))
        written += [f"## {named[1]}", paragraphs, f"```c\n{declaration}\n```"]
    return "\n\n".join(written)


PARTS: dict[str, Callable[..., str]] = {
    "algorithms": algorithms,
    "help": shown_help,
    "setting": setting,
    "other_settings": other_settings,
    "patterns": patterns,
    "c_interface": c_interface,
    "measured": measured.source,
    "board_table": measured.board_table,
    "board_targets": measured.board_targets,
    "nodes_table": measured.nodes_table,
    "late_nodes_table": measured.late_nodes_table,
    "tracing_table": measured.tracing_table,
    "training_tables": measured.training_tables,
    "model_check_table": measured.model_check_table,
    "model_check_times": measured.model_check_times,
    "published_check_table": measured.published_check_table,
    "many_cores_table": measured.many_cores_table,
    "many_nodes_summary": measured.many_nodes_summary,
    "many_nodes_table": measured.many_nodes_table,
    "one_node_table": measured.one_node_table,
    "one_node_bounds": measured.one_node_bounds,
    "simulated": measured.source_of_simulation,
    "paper_0_table": measured.paper_0_table,
    "paper_1_table": measured.paper_1_table,
    "paper_2_application": measured.paper_2_application,
    "paper_2_fits": measured.paper_2_fits,
    "paper_2_choices": measured.paper_2_choices,
    "paper_4_figure_4": measured.paper_4_figure_4,
    "paper_4_figure_8": measured.paper_4_figure_8,
    "paper_4_ft_study": measured.paper_4_ft_study,
    "paper_4_smpi_figure_4": measured.paper_4_smpi_figure_4,
    "paper_verdicts": measured.paper_verdicts,
}


def inserted(page: str) -> str:
    """The text of a page with its generated parts, none of which is empty."""

    def part(found: re.Match[str]) -> str:
        text = PARTS[found[1]](*filter(None, [found[2]]))
        assert text.strip(), f"the generated part {found[1]} is empty"
        return text

    return MARK.sub(part, page)
