# SPDX-License-Identifier: BSD-2-Clause
"""What a machine wants of Python, once for each flow or operation, never for a packet."""

from __future__ import annotations

from typing import Protocol


class Attendant(Protocol):
    """Nothing is raised: who fails keeps what was raised, and stops the machine."""

    def on_arrived(self, row: int, epsn: int, now: int) -> int:
        """The receiving QP of this number expects `epsn`. Returns the PSN by which the next flow has arrived."""

    def hand_over(self, host: int, now: int) -> None:
        """Work of a host has ended."""

    def look_after(self, host: int, now: int) -> int:
        """Endpoint operations of a host are due. Returns when they are next, ns, or FOREVER."""

    def fail(self, error: BaseException) -> int:
        """Something went wrong: keep it, and stop the machine."""

    def looks_at(self, host: int) -> int:
        """When endpoint operations of a host are due, ns, or FOREVER."""
