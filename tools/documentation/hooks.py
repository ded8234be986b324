# SPDX-License-Identifier: BSD-2-Clause
"""What MkDocs calls while it builds the site (mkdocs.yml)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

sys.path.extend(str(above) for above in Path(__file__).resolve().parents[1:3])

from documentation.markdown import inside, spaced, unescaped, whole
from documentation.pages import generated, navigation


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the anchors that they have in the repository; the navigation gets the pages that are made."""
    from pymdownx.slugs import slugify

    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    config.nav = navigation(config.nav)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages that are made of the sources join those of docs."""
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """The text of a page, before Python-Markdown reads it."""
    return spaced(unescaped(inside(markdown, page.file.src_uri)))


def on_page_content(html: str, **_: Any) -> str:
    """The text of a page, after Python-Markdown wrote it."""
    return whole(html)
