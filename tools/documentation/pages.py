# SPDX-License-Identifier: BSD-2-Clause
"""The pages of the site that are made of the sources: commands, the public modules, the changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from documentation.commands import pages as command_pages
from documentation.promised import modules

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COMMANDS, MODULES = "COMMANDS", "MODULES"


def generated() -> dict[str, str]:
    """Path below docs and text of every page that is made."""
    return {
        **command_pages(),
        **{f"api/{name}.md": _module(name, use) for name, use in modules().items()},
        "changelog.md": _changes(),
    }


def navigation(nav: Any) -> Any:
    """The navigation of mkdocs.yml with the pages that are made in the places that it leaves for them."""
    if isinstance(nav, dict):
        return {title: navigation(below) for title, below in nav.items()}
    if isinstance(nav, list):
        return [each for below in nav for each in (_modules() if below == MODULES else [navigation(below)])]
    return _commands() if nav == COMMANDS else nav


def _commands() -> list[dict[str, str] | str]:
    return [{"Overview": path} if path == "commands/index.md" else path for path in command_pages()]


def _modules() -> list[dict[str, str]]:
    return [{name: f"api/{name}.md"} for name in modules()]


def _module(name: str, use: str) -> str:
    return f"# {name}\n\n{use[:1].upper()}{use[1:]}.\n\n::: {name}\n"


def _changes() -> str:
    """CHANGELOG.md, whose links are seen from the root."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")
