# SPDX-License-Identifier: BSD-3-Clause
"""The site: ``python -m sphinx -W -b html docs build/site``, with the installed offbeat package."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

import offbeat
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

import generated  # noqa: E402

project = "offbeat"
author = "the authors of offbeat"
project_copyright = author
release = version = offbeat.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = f"offbeat {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

man_pages = [
    ("reference/commands", "offbeat", "MPI collectives that stay fast when ranks arrive late", author, "1"),
    ("reference/settings", "offbeat-settings", "environment variables of offbeat", author, "7"),
    ("reference/rules", "offbeat-rules", "which algorithm offbeat runs where", author, "7"),
    ("reference/expressions", "offbeat-expressions", "how to name algorithms of offbeat", author, "7"),
]

# Pages of the repository that are also pages of the site.
INCLUDED = {
    "ARCHITECTURE.md": "developer/architecture.md",
    "CONTRIBUTING.md": "developer/contributing.md",
    "CHANGELOG.md": "developer/changelog.md",
    "benchmarks/README.md": "developer/benchmarks.md",
}
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_the_site(text: str, source: str, page: str) -> str:
    """The Markdown of a file of the repository, with its links as they are from a page of the site.

    A link to a file that is not on the site becomes the path of that file.
    """

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in INCLUDED:
            path = f"docs/{INCLUDED[path]}"
        elif not path.startswith("docs/"):
            name = f"`{path}`"
            return name if label.strip("`") in (path, posixpath.basename(path)) else f"{label} ({name})"
        here = posixpath.dirname(f"docs/{page}")
        return f"[{label}]({posixpath.relpath(path, here)}{anchor})"

    return LINK.sub(link, text)


def read(app: Sphinx, page: str, content: list[str]) -> None:
    source = next((name for name, included in INCLUDED.items() if included == f"{page}.md"), None)
    if source is not None:
        content[0] = on_the_site((ROOT / source).read_text(), source, f"{page}.md")
        app.env.note_dependency(str(ROOT / source))
    else:
        content[0] = generated.inserted(on_the_site(content[0], f"docs/{page}.md", f"{page}.md"))


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)
