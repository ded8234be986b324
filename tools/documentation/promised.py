# SPDX-License-Identifier: BSD-2-Clause
"""What docs/api/README.md promises: the public modules, and the members of public classes that are left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs/api/README.md"
CONSTRUCTOR = "constructor"
_LISTED = re.compile(r"^\| `(mrc[\w.]*)` \| ([^|]*) \|", re.MULTILINE)
_OWN = re.compile(r"^- ((?:`mrc[\w.*]+`(?:, )?)+): (.+)$", re.MULTILINE)


def modules() -> dict[str, str]:
    """The public modules in the order of the page, and what each is for."""
    return dict(_LISTED.findall(PAGE.read_text(encoding="utf-8")))


def own_members() -> dict[str, set[str]]:
    """Patterns of public classes, and their members that only the package's own modules use. CONSTRUCTOR stands for
    how such a class is made."""
    own: dict[str, set[str]] = {}
    for classes, names in _OWN.findall(PAGE.read_text(encoding="utf-8")):
        members = set(re.findall(r"`(\w+)`", names)) | set(re.findall(rf"\b{CONSTRUCTOR}\b", names))
        for each in re.findall(r"`([\w.*]+)`", classes):
            own[each] = members
    return own


_MARKERS = {"readonly", "public", "python", "with_gil", "may_raise"}
_INTEGERS = {"any_int", "unsigned"}


def plain(annotation: Any) -> Any:
    """An annotation as griffe has it, without what it says to C alone (mrc/wire/compiled.py)."""
    while type(annotation).__name__ == "ExprSubscript" and str(annotation.left) in _MARKERS:
        annotation = annotation.slice
    return "int" if str(annotation) in _INTEGERS else annotation
