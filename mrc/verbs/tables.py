# SPDX-License-Identifier: BSD-2-Clause
"""Objects as people read them: a labelled table, one attribute a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum, Flag
from typing import Any


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """`title`, then a line for each (label, value)."""
    pairs = [(label, _shown(value)) for label, value in rows]
    width = max((len(label) for label, _ in pairs), default=0)
    return "\n".join([title, *(f"  {label:<{width}} : {value}" for label, value in pairs)])


def brief(name: str, whose: str, *, closed: bool, says: str = "") -> str:
    """One line for repr(): `<CQ of h0: 3 of 256 completions waiting>`, `<CQ of h0 closed>`."""
    return f"<{name} {whose} closed>" if closed else f"<{name} {whose}: {says}>"


def flags(value: Flag) -> str:
    """`LOCAL_WRITE|REMOTE_WRITE`, or `none`."""
    return "|".join(str(each.name) for each in type(value) if each in value) or "none"


def _shown(value: object) -> str:
    if isinstance(value, Flag):
        return flags(value)
    if isinstance(value, Tabular):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.rows())
    return value.name if isinstance(value, Enum) else str(value)


class Tabular:
    """A dataclass that prints as a table of its fields; those that are None are left out."""

    __slots__ = ()

    def rows(self) -> list[tuple[str, Any]]:
        """Return (name, value) of each field that is not None, in the order of the fields."""
        pairs = [(each.name, getattr(self, each.name)) for each in fields(self)]  # type: ignore[arg-type]
        return [(name, value) for name, value in pairs if value is not None]

    def __str__(self) -> str:
        return table(type(self).__name__, self.rows())
