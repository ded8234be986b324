# SPDX-License-Identifier: BSD-2-Clause
"""The three tables of profiles of one endpoint."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar

from mrc.control.cc_profiles import CcProfiles
from mrc.control.ev_profiles import EvProfiles
from mrc.endpoint.endpoint import Endpoint
from mrc.verbs.device import Device
from mrc.verbs.tables import brief

T = TypeVar("T")


class Profiles:
    """All profiles of a device. Profile 0 of each kind is the default one: ONLINE from the start, and for good."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.endpoint: Endpoint = device.endpoint
        self.evs = EvProfiles(self.endpoint, device.ev_profile, self.planes)
        self.formats = self.evs.formats
        self.ccs = CcProfiles(self.endpoint)

    @property
    def planes(self) -> int:
        return len(self.device.ports())

    @property
    def ev_count(self) -> int:
        """How many EVs all profiles have together. Those of an AUTO profile depend on the peer and do not count."""
        return sum(slot.attributes.get("count", 0) for slot in self.evs.values())

    @property
    def counts(self) -> str:
        """How many there are of each kind, in words."""
        return f"{len(self.formats)} EV formats, {len(self.evs)} EV profiles, {len(self.ccs)} CC profiles"

    def __repr__(self) -> str:
        return brief("Profiles", f"of {self.device.name}", closed=False, says=self.counts)

    def change(self, action: Callable[[], T], *, or_alone: bool = False) -> T:
        """Let a controller change them by `action`: on a host with several endpoints those of all of them.

        With `or_alone` only those of this endpoint, where its process may not change the host's. Raises ControlError.
        """
        host = self.endpoint.online.host
        if host is None or (or_alone and not host.permitted):
            return action()
        with host.changing():
            return action()


_known: weakref.WeakKeyDictionary[Endpoint, Profiles] = weakref.WeakKeyDictionary()


def profiles_of(device: Device) -> Profiles:
    """The one set of tables of a device's endpoint. Called where the endpoint runs."""
    found = _known.get(device.endpoint)
    if found is None:
        found = _known[device.endpoint] = Profiles(device)
    return found
