# SPDX-License-Identifier: BSD-2-Clause
"""Pages that are one file, and text in them that cannot become markup."""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from mrc.report.html import Table, page, policy

HOSTILE = "</script><!--<b>&\"'"
TEMPLATE = """\
{% extends "mrc.report/page.html" %}
{% from "mrc.report/parts.html" import table %}
{% block title %}{{ title }}{% endblock %}
{% block style %}{{ resource("drawn_pages", "own.css") | safe }}{% endblock %}
{% block body %}
{% if shown is not none %}{{ table(shown) }}{% endif %}
{% endblock %}
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Makes pages of a template in a package of its own."""
    package = tmp_path / "drawn_pages"
    package.mkdir()
    for name, text in (
        ("__init__.py", ""),
        ("page.html", TEMPLATE),
        ("own.css", "h1 > b { color: red; }"),
        ("own.js", "let x = 1 < 2;"),
    ):
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(title: str = "a page", shown: Table | None = None, **options: Any) -> str:
        return page("drawn_pages", "page.html", title=title, shown=shown, **options)

    yield make
    sys.modules.pop("drawn_pages", None)


def test_a_page_is_a_whole_document_with_the_style_of_all_pages_before_its_own(made: Callable[..., str]) -> None:
    whole = made()
    assert whole.startswith("<!doctype html>\n")
    assert whole.endswith("</body>\n</html>\n")
    shared = (files("mrc.report") / "page.css").read_text().strip()
    assert f"<style>\n{shared}\nh1 > b {{ color: red; }}</style>" in whole
    assert "<title>a page</title>" in whole
    assert "<script" not in whole


def test_a_title_and_data_cannot_become_markup(made: Callable[..., str]) -> None:
    whole = made(HOSTILE, script="own.js", data={"name": HOSTILE})
    assert "<b>" not in whole
    assert whole.count("</script>") == 2
    assert "<script>\nlet x = 1 < 2;\n</script>" in whole
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', whole)
    assert json.loads(data) == {"name": HOSTILE}


@pytest.mark.parametrize(
    ("scripts", "asks", "says"),
    [
        (False, False, "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
        (True, False, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"),
        (True, True, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'; "
                     "connect-src 'self'"),
    ],
)  # fmt: skip
def test_a_page_may_load_nothing_that_is_not_in_it(
    made: Callable[..., str], scripts: bool, asks: bool, says: str
) -> None:
    assert policy(scripts=scripts, asks=asks) == says
    assert f'content="{says}"' in html.unescape(made(script="own.js" if scripts else "", asks=asks))


def test_a_value_that_a_template_wants_and_nobody_gave_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        page("mrc.conformance.report", "page.html")


def test_a_table_escapes_its_cells_and_aligns_its_columns(made: Callable[..., str]) -> None:
    whole = made(shown=Table(["EV", HOSTILE], [["0x1", 1234], [HOSTILE, None]], 1, mono=1))
    assert '<tr><td class="l mono">0x1</td><td>1,234</td></tr>' in whole
    assert "<td>-</td>" in whole
    assert '<th class="l">EV</th>' in whole
    assert "<b>" not in whole
    assert "more</p>" not in whole


def test_a_table_says_how_many_rows_it_left_out(made: Callable[..., str]) -> None:
    whole = made(shown=Table([], [[number] for number in range(1005)], 0, most=5))
    assert whole.count("<tr>") == 5
    assert "</table></div><p class=note>and 1,000 more</p>" in whole
    assert "<th>" not in whole
