"""Deny lists: files that say which EVs are not to be used, between which hosts (docs/control.md, Deny lists)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc.control.errors import ControlError
from mrc.control.texts import ev_of
from mrc.errors import CallerError
from mrc.wire.usid import MAX_PLANES

_MOST_BYTES = 16 << 20
_MOST_ENTRIES = 65536
_KEYS = {"endpoint", "peer", "plane", "ev", "reason"}
_UPLINKS = 256


@dataclass(frozen=True, slots=True)
class Denied:
    """One entry; `endpoint` and `peer` None: everybody."""

    plane: int
    ev: int
    endpoint: str | None = None
    peer: str | None = None

    def ev_in(self, mode: str) -> int:
        """The whole EV in a network of this mode."""
        return self.plane << 24 | self.ev if mode.startswith("srv6") and self.ev < _UPLINKS else self.ev

    def is_for(self, names: Iterable[str]) -> bool:
        """Whether it is about the endpoint that has these names and addresses."""
        return self.endpoint is None or self.endpoint in names


@dataclass(frozen=True, slots=True)
class DenyList:
    """The entries of a file; `fabric` is the one it is about, None where it does not say."""

    entries: tuple[Denied, ...]
    fabric: str | None = None

    def of(self, name: str, addresses: Iterable[str]) -> list[Denied]:
        """The entries for the endpoint of this name (`mrc/h0`) at these addresses."""
        fabric, _, host = name.rpartition("/")
        if self.fabric not in (None, fabric):
            return []
        names = {name, host, *addresses}
        return [entry for entry in self.entries if entry.is_for(names)]


def read(path: str | Path) -> DenyList:
    """A file's. Raises CallerError for anything but a deny list."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise CallerError(f"deny list {path}: larger than {_MOST_BYTES} bytes")
        document = json.loads(content)
    except OSError as error:
        raise CallerError(f"deny list {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CallerError(f"deny list {path}: no JSON: {error}") from None
    told = document.get("deny") if isinstance(document, dict) else None
    if not isinstance(told, list) or len(told) > _MOST_ENTRIES:
        raise CallerError(
            f'deny list {path}: an object with a list "deny" of at most {_MOST_ENTRIES} entries is expected'
        )
    found = []
    for number, each in enumerate(told):
        try:
            found.append(_entry(each))
        except CallerError as error:
            reason = error.reason if isinstance(error, ControlError) else str(error)
            raise CallerError(f"deny list {path}: entry {number}: {reason}") from None
    fabric = document.get("fabric")
    if fabric is not None and not isinstance(fabric, str):
        raise CallerError(f"deny list {path}: fabric is {fabric!r}, a name is expected")
    return DenyList(tuple(found), fabric)


def _entry(told: Any) -> Denied:
    if not isinstance(told, dict):
        raise CallerError(f"{told!r} is no object")
    if foreign := sorted(told.keys() - _KEYS):
        raise CallerError(f"unknown key {', '.join(foreign)}: there are {', '.join(sorted(_KEYS))}")
    plane = told.get("plane")
    if type(plane) is not int or not 0 <= plane < MAX_PLANES:
        raise CallerError(f"plane is {plane!r}, a number from 0 to {MAX_PLANES - 1} is expected")
    for name in ("endpoint", "peer"):
        if told.get(name) is not None and not isinstance(told[name], str):
            raise CallerError(f"{name} is {told[name]!r}, a name or an address is expected")
    return Denied(plane, ev_of(told.get("ev")), told.get("endpoint"), told.get("peer"))
