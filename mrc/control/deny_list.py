# SPDX-License-Identifier: BSD-2-Clause
"""Deny lists: files that say which EVs are not to be used, between which hosts (docs/control.md, Deny lists)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from mrc.control.errors import ControlError
from mrc.control.reading import Ev
from mrc.control.typed import Text, told
from mrc.errors import CallerError
from mrc.records import record
from mrc.untrusted import NotJson, parse_json
from mrc.wire.usid import MAX_PLANES

_MOST_BYTES = 16 << 20
_MOST_ENTRIES = 65536
_UPLINKS = 256


class Denied(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry; `endpoint` and `peer` None: everybody. The `reason` is for people."""

    plane: Annotated[int, Meta(ge=0, le=MAX_PLANES - 1)]
    ev: Ev
    endpoint: Text | None = None
    peer: Text | None = None
    reason: Any = None

    def ev_in(self, mode: str) -> int:
        """The whole EV in a network of this mode."""
        return self.plane << 24 | self.ev if mode.startswith("srv6") and self.ev < _UPLINKS else self.ev

    def is_for(self, names: Iterable[str]) -> bool:
        """Whether it is about the endpoint that has these names and addresses."""
        return self.endpoint is None or self.endpoint in names


class _File(Struct):
    deny: tuple[Denied, ...]
    fabric: str | None = None


@record(frozen=True, slots=True)
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
        document = parse_json(content, f"deny list {path}")
    except OSError as error:
        raise CallerError(f"deny list {path}: {error.strerror}") from None
    except NotJson as error:
        raise CallerError(str(error)) from None
    entries = document.get("deny") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > _MOST_ENTRIES:
        raise CallerError(
            f'deny list {path}: an object with a list "deny" of at most {_MOST_ENTRIES} entries is expected'
        )
    try:
        said = told(document, _File, "a deny list")
    except ControlError as error:
        raise CallerError(f"deny list {path}: {error.reason}") from None
    return DenyList(said.deny, said.fabric)
