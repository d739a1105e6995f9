# SPDX-License-Identifier: BSD-3-Clause
"""Make one HTML page of text, tables and figures. It needs no other file and no network."""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING

from offbeat.reports.sheet import RankBars, Sheet
from offbeat.units import format_share

if TYPE_CHECKING:  # a page without figures needs neither plotly nor NumPy
    from offbeat.reports.figures import Figure
    from offbeat.trace.findings import Diagnosis


@dataclass(frozen=True)
class Item:
    """A numbered finding, with advice."""

    text: str
    advice: str
    details: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page, with its heading."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    items: Sequence[Item] = ()
    after: str = ""  # the text between the items and the commands
    commands: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    sheets: Sequence[Sheet] = field(default_factory=tuple)
    bars: RankBars | None = None
    warned_of: str = "Missing"


def trace_sections(
    path: str,
    facts: Sequence[tuple[str, str]],
    missing: Sequence[str],
    paragraphs: Sequence[str],
    diagnosis: Diagnosis,
    after: str,
    commands: Sequence[str],
    figures: Sequence[Figure],
    sheets: Sequence[Sheet],
    *,
    prefix: str = "",
) -> list[Section]:
    """The sections of a trace: first the conclusions, then the figures and tables behind them."""
    items = [
        Item(finding.sentence, advice, finding.details)
        for finding, advice in zip(diagnosis.findings, diagnosis.advice, strict=True)
    ]
    figures = [replace(figure, name=prefix + figure.name) for figure in figures]
    timelines = [figure for figure in figures if figure.name.startswith(f"{prefix}timeline")]
    of_steps = [figure for figure in figures if figure.name == f"{prefix}steps"]
    others = [figure for figure in figures if figure not in (*timelines, *of_steps)]
    return [
        Section(
            f"{prefix}diagnosis", "What matters", paragraphs, facts, missing, items, after, commands, of_steps
        ),
        Section(f"{prefix}worst", "The worst calls", figures=timelines),
        Section(f"{prefix}arrival", f"Arrival and time in {path}", figures=others, sheets=sheets),
    ]


def bench_sections(
    path: str,
    facts: Sequence[tuple[str, str]],
    warnings: Sequence[str],
    figures: Sequence[Figure],
    sheets: Sequence[Sheet],
    *,
    prefix: str = "",
) -> list[Section]:
    """The sections of a benchmark: the algorithms to use, then curves, then the tables behind them."""
    choices = [sheet for sheet in sheets if sheet.caption.endswith("what to use")]
    others = [sheet for sheet in sheets if sheet not in choices]
    figures = [replace(figure, name=prefix + figure.name) for figure in figures]
    return [
        Section(f"{prefix}choice", "Which algorithm", facts=facts, warnings=warnings, sheets=choices),
        Section(f"{prefix}curves", "Delay over size", figures=figures),
        Section(f"{prefix}patterns", f"Under arrival patterns: {path}", sheets=others),
    ]


def simulation_sections(
    facts: Sequence[tuple[str, str]], figures: Sequence[Figure], sheets: Sequence[Sheet]
) -> list[Section]:
    """The sections of a simulation: the machine, the curves and the tables."""
    return [
        Section("curves", "Delay", facts=facts, figures=figures),
        Section("tables", "Times, and who waits for whom", sheets=sheets),
    ]


def live_sections(
    stuck: Sequence[str],
    after: str,
    commands: Sequence[str],
    sheets: Sequence[Sheet],
    bars: RankBars,
) -> list[Section]:
    """The sections of a job that runs: its collectives, and how long each rank waits."""
    return [
        Section(
            "collectives", "Collectives", warnings=stuck, warned_of="Ranks wait", after=after,
            commands=commands, sheets=sheets,
        ),
        Section("ranks", "Ranks", bars=bars),
    ]  # fmt: skip


def render(title: str, version: str, sections: Sequence[Section], *, reload_s: float | None = None) -> str:
    """The HTML of the whole page. A browser loads it again after ``reload_s``, if that is set."""
    contents = "".join(f'<li><a href="#{s.name}">{_text(s.title)}</a></li>' for s in sections)
    body = "\n".join(_section(section) for section in sections)
    figures = any(section.figures for section in sections)
    script = how = ""
    if figures:
        from plotly.offline import get_plotlyjs

        script = f'<script type="text/plain" id="plotly">{_packed(get_plotlyjs())}</script>\n'
        script += f"<script>{_text_beside_module('page.js')}</script>"
        how = " Figures can be zoomed with the mouse; the buttons below each\none save it as a file."
    again = f'\n<meta http-equiv="refresh" content="{reload_s:.0f}">' if reload_s is not None else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">{again}
<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">
<link rel="icon" href="data:,">
<title>{_text(title)}</title>
<style>{_text_beside_module("page.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header><h1>{_text(title)}</h1></header>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
<main id="content" tabindex="-1">
{body}
</main>
<footer><p>Made by offbeat {_text(version)}.{how}</p></footer>
{script}
</body>
</html>
"""


def _packed(text: str) -> str:
    """A text of a page that a browser unpacks, in less than half of the bytes."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _section(section: Section) -> str:
    parts = [f'<section id="{section.name}" aria-labelledby="{section.name}-title">']
    parts.append(f'<h2 id="{section.name}-title">{_text(section.title)}</h2>')
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in section.paragraphs]
    if section.facts:
        rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in section.facts)
        parts.append(f"<dl>{rows}</dl>")
    if section.warnings:
        lines = "".join(f"<li>{_text(line)}</li>" for line in section.warnings)
        heading = _text(section.warned_of)
        parts.append(f'<div class="missing"><h3>{heading}</h3><ul>{lines}</ul></div>')
    if section.items:
        parts.append(f"<ol>{''.join(map(_item, section.items))}</ol>")
    if section.commands:
        commands = _text("\n".join(section.commands))
        parts.append(f'<p>{_text(section.after)}</p><pre tabindex="0"><code>{commands}</code></pre>')
    parts += [_figure(figure) for figure in section.figures]
    parts += [_table(sheet) for sheet in section.sheets]
    parts += [_bars(section.bars)] if section.bars is not None else []
    return "\n".join([*parts, "</section>"])


def _item(item: Item) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in item.details)
    details = f"<ul>{lines}</ul>" if lines else ""
    return f"<li><p><strong>{_text(item.text)}</strong></p>{details}<p>{_text(item.advice)}</p></li>"


def _figure(figure: Figure) -> str:
    # The text "</" could end the script element too early.
    data = figure.plot.to_json().replace("</", "<\\/")
    name = figure.name
    return f"""<figure id="figure-{name}" aria-labelledby="{name}-title">
<h3 id="{name}-title">{_text(figure.title)}</h3>
<figcaption id="{name}-text">{_text(figure.text)}</figcaption>
<div class="plot" id="{name}" role="img" aria-labelledby="{name}-title" aria-describedby="{name}-text"></div>
<script type="application/json" data-figure="{name}">{data}</script>
<p class="save"><button type="button" data-save="svg" data-of="{name}">Save as SVG</button>
<button type="button" data-save="png" data-of="{name}">Save as PNG</button></p>
</figure>"""


def _table(sheet: Sheet) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in sheet.columns)
    lines = []
    for row in sheet.rows:
        cells = [f'<th scope="row">{_text(row[0].marked)}</th>'] if row else []
        for number, cell in enumerate(row[1:], start=1):
            kind = " ".join(filter(None, (cell.tone.value, "words" if number in sheet.left else "")))
            cells.append(f'<td class="{kind}">{_text(cell.marked)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    note = f'<p class="note">{_text(sheet.note)}</p>' if sheet.note else ""
    caption = _text(sheet.caption)
    return (
        f'<div class="table" role="region" aria-label="{caption}" tabindex="0"><table>'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{note}"
    )


def _bars(bars: RankBars) -> str:
    first, second = (_text(name) for name in bars.parts)
    legend = (
        f'<span class="key"><i class="first"></i> {first}</span> '
        f'<span class="key"><i class="second"></i> {second}</span>'
    )
    ticks = "".join(f"<span>{percent}%</span>" for percent in (0, 50, 100))
    lines = []
    for rank, shares in bars.rows:
        drawn = "".join(
            f'<i class="{part}" style="width:{100 * share:.1f}%"></i>'
            for part, share in zip(("first", "second"), shares, strict=True)
        )
        numbers = "".join(f"<td>{format_share(share)}</td>" for share in shares)
        lines.append(f'<tr><th scope="row">{rank}</th><td class="wide"><div>{drawn}</div></td>{numbers}</tr>')
    note = f'<p class="note">{_text(bars.note)}</p>' if bars.note else ""
    return (
        f'<table class="bars"><caption>{_text(bars.caption)}: {legend}</caption>'
        f'<thead><tr><th scope="col">rank</th><th scope="col" class="wide"><div>{ticks}</div></th>'
        f'<th scope="col">{first}</th><th scope="col">{second}</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>{note}"
    )


def _text_beside_module(name: str) -> str:
    return resources.files("offbeat.reports").joinpath(name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return html.escape(text)


# This policy forbids the page to fetch anything, whatever a library in it tries.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
