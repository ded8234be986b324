# SPDX-License-Identifier: BSD-2-Clause
"""A peer's memory, as it describes it."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.memory import VA_LIMIT
from mrc.records import record, values
from mrc.verbs.documents import integer, mapping
from mrc.verbs.tables import Tabular


@record(frozen=True, slots=True)
class RemoteMemory(Tabular):
    """`length` bytes at `addr`, open to any request that names `rkey`: `MR.remote` returns it, a SendWR needs it."""

    addr: int
    length: int
    rkey: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, which `from_json` at the peer reads."""
        return values(self)

    @classmethod
    def from_json(cls, document: object) -> RemoteMemory:
        """Raises PeerError for anything but such a description."""
        fields = mapping(document, "description of memory")
        return cls(
            integer(fields, "addr", 0, VA_LIMIT - 1),
            integer(fields, "length", 0, VA_LIMIT - 1),
            integer(fields, "rkey", 0, (1 << 32) - 1),
        )
