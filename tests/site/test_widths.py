# SPDX-License-Identifier: BSD-2-Clause
"""What `tools/site --measure` sees: pages wider than their window, images that are missing, pages without text."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from documentation import widths

TEXT = "<p>" + "A sentence of a page. " * 20 + "</p>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    if shutil.which("chromium") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("needs chromium")
        pytest.skip("needs chromium")
    return tmp_path


def page(site: Path, name: str, article: str) -> None:
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text(f"<!doctype html><body style='margin: 0'><article>{article}</article>", encoding="utf-8")


def test_each_fault_is_found_and_nothing_else(site: Path) -> None:
    wide = "<pre style='margin: 0; width: 500px'>wide</pre>"
    page(site, "good.html", f"{TEXT}<div style='overflow-x: auto'>{wide}</div>")
    page(site, "below/wide.html", TEXT + wide)
    page(site, "image.html", f"{TEXT}<img src='gone.svg'>")
    page(site, "short.html", "<p>Later.</p>")
    assert widths.faults(site, 400) == [
        "below/wide.html: is 500 px wide",
        "below/wide.html: pre ends at 500 px: wide",
        "image.html: no image gone.svg",
        "short.html: has 6 letters",
    ]


def test_a_folder_without_pages_is_not_a_good_site(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no pages: tools/site builds them"):
        widths.faults(tmp_path, 400)
