# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What packets that go one way have alike, for several ways: template, local port, destination."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from mrc.wire.compiled import i64s, python, u8s
from mrc.wire.rows import EXTENSION_AT

TEMPLATE: Final = EXTENSION_AT  # bytes
DESTINATION: Final = 28


class Frames:
    """Ways are numbered as they are added. `templates`, `destinations` and `ports` are theirs one behind the other."""

    def __init__(self) -> None:
        self.templates: u8s = memoryview(bytearray())
        self.destinations: u8s = memoryview(bytearray())
        self.ports: i64s = memoryview(bytearray()).cast("q")

    def add(self, template: bytes, port: int, destination: bytes) -> python[None]:
        """One more way. `template` is the first 60 bytes of a packet (`mrc.wire.templates`); `destination` 28 bytes, a
        sockaddr_in6 or a padded sockaddr_in."""
        self.extend((template,), (port,), (destination,))

    def extend(self, templates: Sequence[bytes], ports: Sequence[int], destinations: Sequence[bytes]) -> python[None]:
        """Further ways, each as in `add`."""
        self.templates = memoryview(bytearray(self.templates) + b"".join(templates))
        self.destinations = memoryview(bytearray(self.destinations) + b"".join(destinations))
        more = b"".join([port.to_bytes(8, sys.byteorder) for port in ports])
        self.ports = memoryview(bytearray(self.ports) + more).cast("q")
