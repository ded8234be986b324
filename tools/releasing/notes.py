# SPDX-License-Identifier: BSD-2-Clause
"""The notes of a release: the newest section of CHANGELOG.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrc.errors import CallerError

_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True)
class Section:
    """`date` is "" where the heading has none."""

    version: str
    date: str
    body: str


def sections(changelog: str) -> list[Section]:
    """The sections of a changelog in the format of Keep a Changelog, newest first."""
    found = list(_HEADING.finditer(changelog))
    ends = [*(each.start() for each in found), len(changelog)][1:]
    return [
        Section(each["version"], each["date"] or "", changelog[each.end() : end].strip())
        for each, end in zip(found, ends, strict=True)
    ]


def notes(changelog: str, version: str, *, draft: bool = False) -> str:
    """The notes of release `version` as Markdown. A draft takes what is not released yet.

    Raises CallerError when the newest section is of another version, has no date or is empty, or when changes wait
    under "Unreleased".
    """
    newest = [each for each in sections(changelog) if each.body or each.version != UNRELEASED]
    if not newest:
        raise CallerError('CHANGELOG.md has no section: "## [VERSION] - DATE"')
    section = newest[0]
    if not draft:
        _must_be_released(section, version)
    title = f"mrc {version}, draft" if draft else f"mrc {version}, {section.date}"
    return f"# {title}\n\n{section.body}\n"


def _must_be_released(section: Section, version: str) -> None:
    if section.version == UNRELEASED:
        raise CallerError(
            f"CHANGELOG.md has changes under [{UNRELEASED}]: name the section [{version}] - DATE, or use --draft"
        )
    if section.version != version:
        raise CallerError(
            f"the newest section of CHANGELOG.md is [{section.version}], mrc/__init__.py says {version}: "
            "make them agree"
        )
    if not _DATE.fullmatch(section.date):
        raise CallerError(f"the section [{version}] of CHANGELOG.md needs a date: ## [{version}] - YYYY-MM-DD")
    if not section.body:
        raise CallerError(f"the section [{version}] of CHANGELOG.md is empty")
