# SPDX-License-Identifier: BSD-3-Clause
"""The command lines that pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_FENCED = re.compile(r"^( *)```\w*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^\n)((?:(?:    .*)?\n)+)", re.MULTILINE)
_IN_TEXT = re.compile(r"`((?:OFFBEAT_\w+=\S+ )?offbeat [a-z][^`]*)`")
_ARITHMETIC = re.compile(r"\$\(\([^()]*(?:\([^()]*\))?[^()]*\)\)")
_ASSIGNED = re.compile(r"^[A-Z_]+=")
_ENDS = ("&&", "||", ";", "|", "&", ">", "done", "do")


def lines(page: str) -> Iterator[str]:
    """The lines of the code blocks of a page, continued lines as one."""
    blocks = [found[2] for found in _FENCED.finditer(page)]
    page = _FENCED.sub("", page)
    blocks += [found[1] for found in _INDENTED.finditer(page)]
    for block in blocks:
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())


def mentions(page: str) -> Iterator[list[str]]:
    """The words of the calls of `offbeat` in the text, which need not be complete."""
    for found in _IN_TEXT.finditer(page):
        words = found[1].split()
        yield words[words.index("offbeat") + 1 :]


def commands(page: str, program: str) -> Iterator[list[str]]:
    """The arguments of each call of a program. A variable of the shell has the value 8."""
    for line in lines(page):
        line = re.sub(r"^(\$|for .*; do) ", "", line)
        line = re.sub(r'^eval "\$\((.*?)\)"', r"\1", line)
        line = re.split(r" {2,}(?=[^-'\" ])| #", line)[0]  # what stands to the right of a command is words
        line = re.sub(r"\$\{?\w+\}?", "8", _ARITHMETIC.sub("7", line))
        try:
            words = shlex.split(line)
        except ValueError:  # not a command: an apostrophe of a text
            continue
        while words and _ASSIGNED.match(words[0]):
            del words[0]
        end = next((index for index, word in enumerate(words) if word.rstrip(";") in _ENDS), len(words))
        if words[:1] == [program]:
            yield [word.rstrip(";") for word in words[1:end]]
