# SPDX-License-Identifier: BSD-2-Clause
"""Pages that are one file, and text in them that cannot become markup."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from mrc.report.html import page, policy, table

HOSTILE = "</script><!--<b>&\"'"


def test_a_page_is_a_whole_document_with_the_style_of_all_pages_before_its_own() -> None:
    made = page("a page", "<h1>x</h1>", style="h1 { color: red; }")
    assert made.startswith("<!doctype html>\n")
    assert made.endswith("</body>\n</html>\n")
    shared = (files("mrc.report") / "page.css").read_text().strip()
    assert f"<style>\n{shared}\nh1 {{ color: red; }}\n</style>" in made
    assert "<main>\n<h1>x</h1>\n</main>" in made
    assert "<script" not in made


def test_a_title_and_data_cannot_become_markup() -> None:
    made = page(HOSTILE, "", script="let x;", data={"name": HOSTILE})
    assert "<b>" not in made
    assert made.count("</script>") == 2
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', made)
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
def test_a_page_may_load_nothing_that_is_not_in_it(scripts: bool, asks: bool, says: str) -> None:
    assert policy(scripts=scripts, asks=asks) == says
    assert f'content="{says}"' in page("x", "", script="let x;" if scripts else "", asks=asks)


def test_a_table_escapes_its_cells_and_aligns_its_columns() -> None:
    made = table(["EV", HOSTILE], [["0x1", 1234], [HOSTILE, None]], 1, mono=1)
    assert '<tr><td class="l mono">0x1</td><td>1,234</td></tr>' in made
    assert "<td>-</td>" in made
    assert '<th class="l">EV</th>' in made
    assert "<b>" not in made
    assert "more" not in made


def test_a_table_says_how_many_rows_it_left_out() -> None:
    made = table([], [[number] for number in range(1005)], 0, most=5)
    assert made.count("<tr>") == 5
    assert made.endswith("<p class=note>and 1,000 more</p>")
    assert "<th>" not in made
