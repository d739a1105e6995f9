# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report, in a real browser: drawn, silent, without network, for keyboards and readers."""

import html.parser
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

import browser
import made_benches
import pytest
from browser import SeenEffect
from choreographer.browsers import Chromium
from fakes import Offbeat
from made_traces import iterations
from offbeat.commands.report import report

FIGURES = ["timeline-1", "mean-skew", "imbalance", "shares", "waiting"]
CURVES = ["curves-allreduce-balanced", "curves-allreduce-last-delayed", "curves-allreduce-random"]
ALL_DRAWN = (
    "document.readyState === 'complete' && "
    "[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.main-svg'))"
)
SCRIPTS = (
    "[...document.querySelectorAll('.plot')].map(plot => plot.id)",
    "document.querySelectorAll('#timeline-1 .bars .point').length",
    "document.querySelectorAll('#mean-skew .bars .point').length",
    "document.querySelectorAll('#curves-allreduce-random .scatterlayer .point').length",
    "document.activeElement.className + ' ' + getComputedStyle(document.activeElement).left",
    "Plotly.toImage('waiting', {format: 'svg', width: 600, height: 300})",
    "Plotly.toImage('waiting', {format: 'png', width: 600, height: 300}).then(url => url.slice(0, 22))",
    "[...document.querySelectorAll('a, button, [tabindex]')].filter(e => e.tabIndex >= 0).length",
    "[...document.querySelectorAll('#waiting .modebar-btn')].map(button => button.dataset.title)",
    "document.documentElement.scrollWidth <= document.documentElement.clientWidth",
    "[...document.querySelectorAll('.ytick text, .xtick text')].map(tick => tick.textContent)",
    # On a page of 500 pixels: the figures whose legend is under the buttons.
    """(async () => {
      document.body.style.width = '500px';
      const covered = [];
      for (const plot of document.querySelectorAll('.plot')) {
        await Plotly.Plots.resize(plot);
        const legend = plot.querySelector('.legend');
        const bar = plot.querySelector('.modebar');
        if (!legend || !bar) continue;
        const a = legend.getBoundingClientRect(), b = bar.getBoundingClientRect();
        if (a.right <= b.left || a.left >= b.right || a.bottom <= b.top || a.top >= b.bottom) continue;
        covered.push(plot.id);
      }
      return covered;
    })()""",
)


@dataclass
class Opened:
    page: Path
    seen: SeenEffect


def make_page(folder: Path) -> Path:
    """A trace with one late rank and a benchmark, in one page."""
    trace = iterations(
        folder / "<run>.trace", 6, 400, lambda rank, call: 2_000_000 * (rank == 3 and call % 10 == 9)
    )
    bench = made_benches.write(folder / "bench.json")
    page = folder / "report.html"
    report([trace, bench], output=page)
    return page


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    page = make_page(tmp_path_factory.mktemp("page"))
    return Opened(page, browser.visit(page, ALL_DRAWN, SCRIPTS, tabs=1))


def test_every_figure_is_drawn(opened: Opened) -> None:
    names, timeline, skew, curves = opened.seen.returned[:4]
    assert names == [*FIGURES, *CURVES]
    assert timeline >= 10, "waiting and communicating of the ranks"
    assert skew == 6
    assert curves == 5


def test_the_browser_has_nothing_to_complain_about(opened: Opened) -> None:
    assert opened.seen.complaints == []


def test_ticks_have_the_unit_of_their_axis(opened: Opened) -> None:
    assert [tick for tick in opened.seen.returned[10] if re.fullmatch(r"[\d.]+[kMGµmn]", tick)] == []


def test_buttons_cover_no_legend_of_a_narrow_page(opened: Opened) -> None:
    assert opened.seen.returned[11] == []


def test_nothing_is_asked_of_the_network(opened: Opened) -> None:
    page = opened.page.resolve().as_uri()
    others = [url for url in opened.seen.requests if url != page]
    assert [url for url in others if not url.startswith(("data:", "blob:"))] == []
    assert page in opened.seen.requests, "requests are seen at all"


def test_figures_can_be_zoomed_and_saved_but_not_uploaded(opened: Opened) -> None:
    assert set(opened.seen.returned[8]) == {
        "Download plot", "Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes",
    }  # fmt: skip


def test_the_first_key_reaches_the_skip_link_and_shows_it(opened: Opened) -> None:
    assert opened.seen.returned[4] == "skip 16px"


def test_figures_can_be_saved_as_svg_and_png(opened: Opened) -> None:
    svg, png = opened.seen.returned[5:7]
    assert svg.startswith("data:image/svg+xml")
    assert png == "data:image/png;base64,"


def test_buttons_links_and_tables_are_reachable_by_keyboard(opened: Opened) -> None:
    text = opened.page.read_text()
    reachable = text.count("<button ") + len(re.findall(r"<a ", text)) + text.count('tabindex="0"')
    assert opened.seen.returned[7] >= reachable - 5  # the library's source has a few of these words
    assert opened.seen.returned[9], "no part of the page is wider than the window"


class Outline(html.parser.HTMLParser):
    """What a screen reader would go by."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_structure_is_that_of_a_document(opened: Opened) -> None:
    outline = Outline()
    text = opened.page.read_text()
    outline.feed(text)
    named = [tag for tag, _ in outline.tags]
    assert [named.count(tag) for tag in ("h1", "main", "nav", "title")] == [1, 1, 1, 1]
    assert named.count("caption") == named.count("table") > 5
    headers = [attributes for tag, attributes in outline.tags if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in headers)
    levels = [int(tag[1]) for tag in named if re.fullmatch("h[1-6]", tag)]
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    identities = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    links = [str(attributes["href"]) for tag, attributes in outline.tags if tag == "a"]
    assert all(link.removeprefix("#") in identities for link in links)
    for tag, attributes in outline.tags:
        if tag == "figure":
            assert attributes["aria-labelledby"] in identities


def test_the_diagnosis_comes_first_in_words(opened: Opened) -> None:
    body = opened.page.read_text().partition("<main")[2].partition("<figure")[0]
    assert "Rank 3 is late by 2000 µs" in body
    assert "before every 10th such call (call numbers 10, 20, 30, ...; 40 of 400 such calls)" in body


def test_names_are_escaped_and_the_page_is_small(opened: Opened) -> None:
    text = opened.page.read_text()
    assert "<run>" not in text
    assert "&lt;run&gt;.trace" in text
    assert len(text) < 2 << 20


def test_many_ranks_and_calls_do_not_make_the_page_large(tmp_path: Path) -> None:
    small = make_page(tmp_path).stat().st_size
    trace = iterations(tmp_path / "large", 300, 700, lambda rank, call: (rank * 7919 + call * 31) % 50_000)
    report([trace], output=tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < small + 500_000


def test_figures_as_files(offbeat: Offbeat, tmp_path: Path) -> None:
    iterations(tmp_path / "run.trace", 3, 20, lambda rank, call: 1000 * rank)
    chromium = str(Chromium.find_browser(skip_local=True))
    done = offbeat("report", "run.trace", "--figures", "figures", BROWSER_PATH=chromium)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Wrote 10 files to figures" in done.stdout
    assert sorted(path.stem for path in (tmp_path / "figures").glob("*.svg")) == sorted(FIGURES)
    assert (tmp_path / "figures" / "waiting.svg").read_text().startswith("<svg ")
    assert (tmp_path / "figures" / "waiting.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_browser_there_is_one_clear_line(offbeat: Offbeat, tmp_path: Path) -> None:
    iterations(tmp_path / "run.trace", 3, 20, lambda rank, call: 1000 * rank)
    done = offbeat("report", "run.trace", "--figures", "figures", BROWSER_PATH="/nowhere")
    assert done.returncode == 2
    assert done.stdout == "", "it is known before the report is printed"
    assert done.stderr == (
        "offbeat: --figures needs Chrome or Chromium, which is not here: apt install chromium\n"
    )


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("plotly", ["report", "bench.json", "-o", "page.html"]),
        ("kaleido", ["report", "bench.json", "--figures", "figures"]),
    ],
)
def test_a_missing_package_is_named(
    offbeat: Offbeat, tmp_path: Path, module: str, arguments: list[str]
) -> None:
    made_benches.write(tmp_path / "bench.json")
    blocked = tmp_path / "blocked" / module
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text(f"raise ModuleNotFoundError(name='{module}')")
    paths = os.pathsep.join(filter(None, [str(blocked.parent), os.environ.get("PYTHONPATH")]))
    done = offbeat(*arguments, PYTHONPATH=paths)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"offbeat: this needs {module}: pip install 'offbeat[report]'\n"
    assert offbeat("info", PYTHONPATH=paths).returncode == 0
