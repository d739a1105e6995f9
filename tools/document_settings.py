#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Update docs/reference/settings.md from the table of settings in the installed package.

    build/venv/bin/python tools/document_settings.py

The heading and the first paragraph of each section come from that table (src/base/settings.cpp). The rest of
a section stays as it is. Run this tool after you change the table and install the package;
tests/python/test_docs.py fails until then.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from offbeat import _core

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"
COLUMNS = 120


def reference(setting: _core.Setting) -> str:
    """The heading and the first paragraph of a setting's section."""
    meaning = setting["meaning"]
    meaning = f"{meaning[0].upper()}{meaning[1:]}."
    facts = f"Values: {setting['values']}. Default: {setting['default'] or 'unset'}."
    if setting["equal_on_all_ranks"]:
        facts += " Must be equal on all ranks."
    lines = [line for text in (meaning, facts) for line in textwrap.wrap(text, COLUMNS)]
    return "\n".join([f"## `{setting['name']}`", "", *lines, ""])


def written(page: str) -> str:
    """The updated page. Raises ValueError if a section has no setting, because its text would be lost."""
    introduction, *sections = re.split(r"^(?=## `)", page, flags=re.MULTILINE)
    further = {}  # by setting: the text below the first paragraph of its section
    for section in sections:
        name = section.split("`")[1]
        _heading, _reference, *rest = section.strip().split("\n\n", 2)
        further[name] = "".join(f"\n{text}\n" for text in rest)
    settings = _core.settings()
    lost = further.keys() - {setting["name"] for setting in settings}
    if lost:
        raise ValueError(f"{', '.join(sorted(lost))}: no such setting; move the text of its section")
    parts = [reference(setting) + further.get(setting["name"], "") for setting in settings]
    return "\n".join([introduction.rstrip() + "\n", *parts])


def main() -> int:
    try:
        PAGE.write_text(written(PAGE.read_text()))
    except ValueError as error:
        print(f"{PAGE.name}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
