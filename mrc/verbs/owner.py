# SPDX-License-Identifier: BSD-2-Clause
"""What memory, queues, channels and QPs know of the context they were made on."""

from __future__ import annotations

from typing import Any, Protocol

from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import ControllerFactory
from mrc.endpoint.paths.profiles import EvProfile
from mrc.verbs.device import Device
from mrc.verbs.enums import AsyncEventType


class Owner(Protocol):
    """A Context. What was made on it is in one of its sets until it is closed."""

    device: Device
    tuning: QpConfig
    pds: set[Any]
    channels: set[Any]
    cqs: set[Any]

    @property
    def address(self) -> dict[str, Any]:
        """Where this node is, as plain JSON: what a peer's `AHAttr` takes."""

    def controller_of(self, profile_id: int) -> str | ControllerFactory | None:
        """The controller of a profile; None: the endpoint's default. Raises VerbsError ENOENT."""

    def evs_of(self, profile_id: int) -> EvProfile:
        """An EV profile by number. Raises VerbsError ENOENT."""

    def shared_numbers(self, ev_profile_id: int, cc_profile_id: int) -> tuple[int, int]:
        """What the endpoint calls these profiles."""

    def add(self, qp: Any) -> None:
        """A QP was made."""

    def remove(self, qp: Any) -> None:
        """A QP is gone, and with it what was to be said of it."""

    def check_open(self) -> None:
        """Raise VerbsError EINVAL when it is closed."""

    def is_the_parents(self) -> bool:
        """Whether this process was forked from the one that has the device."""

    def report(self, event_type: AsyncEventType, element: Any, detail: str) -> None:
        """Something happened outside of any work request."""
