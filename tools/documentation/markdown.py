# SPDX-License-Identifier: BSD-2-Clause
"""Markdown as readers of the repository see it, made fit for the site: links that leave docs, and lists."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CODE_OR_LINK = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|(?<!!)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)\s]+)\)")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")
_NESTED_ITEM = re.compile(r" {2,3}(?=(?:[-*+]|\d+\.) )")
# The longest word of code, in letters, that fits into a column of a table on a telephone.
_SHORT = 26
_FENCE = re.compile(r" *(```+|~~~+)")


def inside(markdown: str, source: str) -> str:
    """The text with links that leave docs replaced: by the page of CHANGELOG.md, or by the file's name as code.

    `source` is the page's path below docs. Raises FileNotFoundError when there is no such file.
    """
    folder = posixpath.join("docs", posixpath.dirname(source))

    def replaced(found: re.Match[str]) -> str:
        text, target = found["text"], found["target"]
        if target is None:
            return found[0]
        path, _, anchor = target.partition("#")
        whole = posixpath.normpath(posixpath.join(folder, path))
        if whole == "CHANGELOG.md":
            return f"[{text}]({posixpath.relpath('docs/changelog.md', folder)}{'#' + anchor if anchor else ''})"
        if whole.startswith("docs/") and not (ROOT / whole).is_dir():
            return found[0]
        if not (ROOT / whole).exists():
            raise FileNotFoundError(f"docs/{source} links to {target}: there is no {whole}")
        name = text.strip("`")
        return f"`{whole}`" if name in whole else f"{name} (`{whole}`)"

    return _outside_code(markdown, lambda line: _CODE_OR_LINK.sub(replaced, line))


def unescaped(markdown: str) -> str:
    """The text with each `\\|`, which code in a table of the repository needs, as the `|` of Python-Markdown."""

    def plain(found: re.Match[str]) -> str:
        return found[0].replace("\\|", "|") if found["target"] is None else found[0]

    return _outside_code(markdown, lambda line: _CODE_OR_LINK.sub(plain, line) if line.startswith("|") else line)


def whole(html: str) -> str:
    """The page with each short word of code marked, so that no line breaks in it: `--depth` has two places for that."""
    return re.sub(rf"<code>([^<\s]{{1,{_SHORT}}})</code>", r'<code class="whole">\1</code>', html)


def spaced(markdown: str) -> str:
    """The text with an empty line before each list that follows text, and lists in lists indented by four spaces."""
    lines: list[str] = []

    def written(line: str) -> str:
        starts = _LIST_ITEM.match(line) and lines and lines[-1].strip() and not _in_list(lines)
        return ("\n" if starts else "") + _NESTED_ITEM.sub("    ", line)

    return _outside_code(markdown, written, lines)


def _outside_code(markdown: str, change: Callable[[str], str], lines: list[str] | None = None) -> str:
    """The text with each line that is not in a block of code changed; `lines` are those before it."""
    lines = [] if lines is None else lines
    fence = ""
    for line in markdown.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence:
            line = change(line)
        lines.append(line)
    return "\n".join(lines)


def _in_list(lines: list[str]) -> bool:
    """Whether the last paragraph began as an item of a list."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if _LIST_ITEM.match(line.lstrip("\n")):
            return True
    return False
