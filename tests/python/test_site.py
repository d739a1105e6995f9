# SPDX-License-Identifier: BSD-3-Clause
"""The site is built without a warning, says what the code says, and stays short."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import draw_gallery
import generated
import pytest
import result_file
import shell
from offbeat import _core
from offbeat.bench import arrival_patterns, plan
from offbeat.commands.root import ROOT as COMMAND
from offbeat.expressions import split_list

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")]
MOST_WORDS = 35_000
VERBS = generated.verbs()


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def build(builder: str, folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += [
        "--builder",
        builder,
        "--doctree-dir",
        str(folder / "doctrees"),
        str(DOCS),
        str(folder / builder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The HTML pages and the man pages, with all links and anchors resolved."""
    folder = tmp_path_factory.mktemp("site")
    build("html", folder)
    build("man", folder)
    return folder


def test_every_algorithm_is_on_the_site(site: Path) -> None:
    page = (site / "html" / "reference" / "algorithms.html").read_text()
    for algorithm in _core.algorithms():
        if algorithm["name"] != "native":
            assert f'id="{generated.anchor(algorithm)}"' in page, algorithm


def test_no_generated_part_is_missing(site: Path) -> None:
    for page in (site / "html").rglob("*.html"):
        assert "generated: " not in page.read_text(), page
    used = {name for page in PAGES for name, _ in generated.MARK.findall(page.read_text())}
    assert used == set(generated.PARTS)


def test_the_man_pages_describe_the_commands_and_the_settings(site: Path) -> None:
    manual = (site / "man" / "offbeat.1").read_text()
    for verb in generated.verbs():
        assert f"offbeat {verb}" in manual
    settings = (site / "man" / "offbeat-settings.7").read_text()
    for setting in _core.settings():
        assert setting["name"] in settings


def test_the_pages_stay_short() -> None:
    words = {page: len(page.read_text().split()) for page in [*PAGES, ROOT / "README.md"]}
    assert sum(words.values()) <= MOST_WORDS, words


# -- algorithms


@pytest.mark.parametrize(
    "algorithm",
    [each for each in _core.algorithms() if each["name"] != "native"],
    ids=lambda each: f"{each['collective']}-{each['name']}",
)
def test_the_file_of_an_algorithm_describes_it(algorithm: _core.Algorithm) -> None:
    """The page of algorithms shows these fields; a combinator may leave the cost to the formula."""
    text = generated.described(generated.header(generated.file_of(algorithm)))
    assert "Idea" not in text
    assert len(text.split()) > 20
    assert algorithm["source"]
    assert algorithm["summary"]
    assert algorithm["cost"]


def test_algorithms_follow_registry_and_rules() -> None:
    page = generated.algorithms()
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert headings == [each["name"] for each in _core.collectives() if each["served"]]
    for algorithm in _core.algorithms():
        if algorithm["name"] != "native":
            assert f"Formula: `{algorithm['cost']}`." in page
            assert page.count(f"({generated.anchor(algorithm)})=") == 1
    built_in = [rule["text"].split()[0] for rule in _core.built_in_rules().rules]
    for collective in headings:
        assert len(generated.rules_of(collective)) == built_in.count(collective)


def test_a_header_becomes_paragraphs_and_pictures() -> None:
    text = generated.described(
        ["Idea: one", "two < 3.", "", "   a   b", "     c", "", "Cost: n*m.", "Order: any."]
    )
    assert text == "One two \\< 3.\n\n```text\na   b\n  c\n```\n\n*Cost*: n\\*m.\n\n*Order*: any."


def test_the_c_interface_has_every_function() -> None:
    header = (ROOT / "include" / "offbeat" / "offbeat.h").read_text()
    functions = set(re.findall(r"^[a-z][\w *]*?\b(offbeat_\w+)\(", header, re.MULTILINE))
    assert len(functions) > 10
    shown = "\n".join(re.findall(r"^```c\n(.*?)^```", generated.c_interface(), re.MULTILINE | re.DOTALL))
    assert [name for name in sorted(functions) if f"{name}(" not in shown] == []
    types = re.findall(r"^typedef (?:enum|struct) (offbeat_\w+)", header, re.MULTILINE)
    assert len(types) > 3
    assert [name for name in types if f" {name}" not in shown] == []


# -- commands


def test_every_verb_has_its_help_on_the_page() -> None:
    page = (DOCS / "reference" / "commands.md").read_text()
    assert sorted(verb for part, verb in generated.MARK.findall(page) if part == "help" and verb) == sorted(
        VERBS
    )
    overview = generated.shown_help()
    assert [verb for verb in VERBS if not re.search(rf"^ +{verb} ", overview, re.MULTILINE)] == []
    help_of_rules = generated.shown_help("rules")
    assert "offbeat rules check" in help_of_rules


def test_the_help_of_the_benchmark_lists_its_collectives() -> None:
    listed = re.search(r"Collectives: ([^.]*)\.", " ".join(generated.help_of("bench").split()))
    assert listed is not None
    assert tuple(listed[1].split(", ")) == plan.COLLECTIVES


def test_every_pattern_has_a_formula() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", generated.patterns(), re.MULTILINE)
    assert [name for name, _, _ in rows] == list(arrival_patterns.PATTERNS)


def test_every_setting_has_one_section() -> None:
    page = generated.inserted((DOCS / "reference" / "settings.md").read_text())
    sections = re.findall(r"^##+ `(\w+)`\n\n(.*)\n\n(.*)$", page, re.MULTILINE)
    assert sorted(name for name, _, _ in sections) == sorted(each["name"] for each in _core.settings())
    for name, meaning, facts in sections:
        setting = next(each for each in _core.settings() if each["name"] == name)
        assert meaning == generated.escaped(generated.capital(setting["meaning"])) + "."
        assert facts.startswith("Values: ")
        assert setting["equal_on_all_ranks"] == facts.endswith("Must be equal on all ranks.")


# -- command lines


def parse(words: list[str]) -> None:
    """Parse the arguments of `offbeat` as the program does. Raises what its parser raises."""
    command, rest = COMMAND.named(words)
    chosen = command.parse(rest)
    for each in [chosen.get("allreduce"), *split_list(chosen.get("algorithms") or "")]:
        if each and not re.match(r"native\(|default$|pipeline\(.*native|8", each):
            assert any(serves(each, collective["name"]) for collective in _core.collectives()), each


def serves(expression: str, collective: str) -> bool:
    try:
        _core.check_expression(collective, expression)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_command_lines_are_parsed(page: Path) -> None:
    """Lines of a code block that begin with offbeat and a verb, but for those that leave something out."""
    for words in shell.commands(generated.inserted(page.read_text()), "offbeat"):
        if words[1:] and words[0] in VERBS and "..." not in words:
            try:
                parse(words)
            except Exception as error:  # the parser has errors of several kinds
                pytest.fail(f"offbeat {' '.join(words)}: {error!r} {error}")


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_commands_in_the_text_exist(page: Path) -> None:
    for words in shell.mentions(page.read_text()):
        assert words[0] in VERBS, words
        verb = words[: 2 if words[0] == "rules" else 1]
        told = generated.help_of(*(verb if len(words) > 1 else verb[:1]))
        for option in words[len(verb) :]:
            if re.fullmatch(r"--?[a-z-]+", option) and option != "--":
                assert re.search(rf"{option}\b", told), f"offbeat {' '.join(words)}"


def test_command_lines_are_found() -> None:
    page = """Text with `offbeat info --settings`.

    A=1 offbeat bench --sizes 8 \\
        --budget $b   how fast
    eval "$(offbeat env -- ./p)"

    for p in 8; do
        offbeat run -n $((p-1)) ./p; done
"""
    expected = [
        ["bench", "--sizes", "8", "--budget", "8"], ["env", "--", "./p"], ["run", "-n", "7", "./p"],
    ]  # fmt: skip
    assert list(shell.commands(page, "offbeat")) == expected
    assert list(shell.mentions(page)) == [["info", "--settings"]]
    with pytest.raises(Exception, match="No such option"):
        parse(["bench", "--wrong"])
    with pytest.raises(AssertionError):
        parse(["bench", "--algorithms", "rng"])
    assert sum(len(list(shell.commands(each.read_text(), "offbeat"))) for each in PAGES) > 60


def test_scripts_have_the_options_that_pages_give_them() -> None:
    scripts = [path for path in ROOT.glob("*/*.py") if path.parent.name in ("tools", "benchmarks")]
    scripts.append(ROOT / "tests" / "cluster" / "start.py")
    seen = 0
    for page in [*PAGES, *OTHERS, ROOT / "benchmarks" / "README.md"]:
        for line in shell.lines(page.read_text()):
            for path in scripts:
                name = str(path.relative_to(ROOT))
                if re.match(rf"(\S*python3? )?{re.escape(name)} ", line):
                    own = line.partition(name)[2].partition("  ")[0]
                    text = path.read_text()
                    if "result_file.add_option" in text:
                        text += Path(result_file.__file__).read_text()
                    for option in re.findall(r"(?<= )--[a-z-]+", own):
                        seen += 1
                        assert f'"{option}"' in text, f"{page.name}: {line}"
    assert seen > 10


def test_what_a_page_quotes_is_said() -> None:
    """The page that tells a reader when to stop names what the report and the prediction say."""
    page = (DOCS / "how-to" / "does-it-help.md").read_text()
    quoted = re.findall(r"`((?:[A-Z]\w+|nothing|is) [a-z][^`]*)`", page.partition("Then read")[2])
    sources = "".join(path.read_text() for path in (ROOT / "python" / "offbeat").rglob("*s.py"))
    sources += (ROOT / "python" / "offbeat" / "trace" / "contention.py").read_text()
    assert len(quoted) >= 8
    assert [text for text in quoted if text not in sources] == []


# -- figures


@pytest.mark.parametrize("figure", draw_gallery.FIGURES, ids=lambda figure: figure.name)
def test_figures_are_drawn_from_their_data(figure: draw_gallery.Figure) -> None:
    data = json.loads((draw_gallery.FOLDER / f"{figure.name}.json").read_text())
    drawing = (draw_gallery.FOLDER / f"{figure.name}.svg").read_text()
    assert data["commands"] == list(figure.commands)
    assert draw_gallery.drawn(figure, data["last_delay_us"]) == drawing, (
        "run tools/draw_gallery.py --from-data"
    )
    page = (DOCS / "gallery" / "index.md").read_text()
    assert f"({figure.name}.svg)" in page
    shown = list(shell.commands(page, "offbeat"))
    commands = [words for line in figure.commands for words in shell.commands(f"\n    {line}\n", "offbeat")]
    assert any(words in shown for words in commands), "one of its commands is on the page"


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_figures_have_a_text(page: Path) -> None:
    for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text()):
        assert len(text.split()) > 4, target
        assert (page.parent / target).exists()


@pytest.mark.parametrize("name", draw_gallery.MEASURED)
def test_measured_figures_are_drawn_from_their_result_files(name: str) -> None:
    drawing = (draw_gallery.FOLDER / f"{name}.svg").read_text()
    assert draw_gallery.MEASURED[name].draw() == drawing, "run tools/draw_gallery.py --from-data"


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_every_figure_names_its_data(page: Path) -> None:
    """All but the drawings and the screenshot in docs/images/, in which nothing was measured or simulated."""
    text = page.read_text()
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        drawing = (page.parent / target).resolve()
        if drawing.parent == DOCS / "images":
            continue
        if drawing.stem in draw_gallery.MEASURED:
            result = draw_gallery.MEASURED[drawing.stem].result
            section = text[: text.index(f"]({target})")].rpartition("\n## ")[2]
            made_by = set(generated.MARK.findall(section))
            assert made_by & {("measured", result), ("simulated", result)}, target
        else:
            assert drawing.stem in {figure.name for figure in draw_gallery.FIGURES}, target
            data = target.removesuffix(".svg") + ".json"
            assert f"({data})" in text[text.index(f"]({target})") :][:200], f"the data of {target}"
            assert {"commands", "x", "last_delay_us"} <= json.loads((page.parent / data).read_text()).keys()


NAMED = re.compile(r"benchmarks/results/(\w+\.json)")


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_result_files_that_pages_name_exist(page: Path) -> None:
    for name in NAMED.findall(generated.inserted(page.read_text())):
        assert (result_file.FOLDER / name).exists(), name


@pytest.mark.parametrize("path", sorted(result_file.FOLDER.iterdir()), ids=lambda path: path.name)
def test_result_files_say_what_made_them(path: Path) -> None:
    if path.name.startswith("paper_"):  # simulated, so they have no MPI and no load
        document = json.loads(path.read_text())
        assert {"command", "offbeat", "machine"} < document.keys()
    else:
        document = result_file.read(path)
        assert document["cells"]
        names = [each["name"] for each in document["mpis"]]
        assert [cell for cell in document["cells"] if "mpi" in cell and cell["mpi"] not in names] == []
    _, script, *words = document["command"].split()
    text = (ROOT / script).read_text() + Path(result_file.__file__).read_text()
    text += (ROOT / "benchmarks" / "papers" / "paper_tables.py").read_text()
    options = [word for word in words if re.fullmatch(r"--[a-z-]+", word)]
    assert [option for option in options if f'"{option}"' not in text] == []


# Tables of numbers that a unit test computes and checks, and a word by which the page names it.
CHECKED = {
    "explanation/models.md": "tests/unit/cost_test.cpp",
}


def rows_of_numbers(text: str) -> list[str]:
    """The rows of tables that have several numbers. In a heading numbers are names."""
    rows = re.findall(r"(?<=\|\n)^\|(?! ?-)(.*)\|$", text, re.MULTILINE)
    cells = {row: [cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows}
    return [row for row in rows if sum(bool(re.match(r"-?[\d.,]+( |$)", cell)) for cell in cells[row]) > 1]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=relative)
def test_tables_of_numbers_are_generated(page: Path) -> None:
    text = page.read_text()
    if page.parent.name == "reference":  # formats
        return
    if page.is_relative_to(DOCS) and (test := CHECKED.get(str(page.relative_to(DOCS)))):
        assert test in text
        assert rows_of_numbers(text)
        return
    assert rows_of_numbers(text) == []


def test_rows_of_numbers_are_found() -> None:
    table = "\n| size | 8 ranks | 16 ranks |\n|---|---|---|\n| 8 B | 1.5 | 2 (3 .. 4) |\n| `1` | x | 5 |\n"
    assert rows_of_numbers(table) == [" 8 B | 1.5 | 2 (3 .. 4) "]


def test_every_benchmark_writes_a_result_file() -> None:
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if path.name != "result_file.py"]
    assert len(scripts) > 10
    for path in scripts:
        text = path.read_text()
        assert "result_file.add_option(parser)" in text, path.name
        assert re.search(r"\b(results|written)\.write\(", text), path.name


# -- links of pages that are not on the site


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as MyST and GitHub make them."""
    text = generated.inserted(page.read_text())
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OTHERS, ids=relative)
def test_anchors_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors((page.parent / target) if target else page), f"{target}#{anchor}"
