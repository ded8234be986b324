# SPDX-License-Identifier: BSD-2-Clause
"""The profiles that QPs of an endpoint may name, and what the controller denied (api.md, Controller)."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager
from typing import Protocol

from mrc.endpoint.congestion import ControllerFactory
from mrc.endpoint.paths.profiles import EvProfile

DEFAULT_PROFILE = 0
# The profile of a QP whose owner gave it EVs of his own: no controller's profile has this number.
OWN_PROFILE = -1

Peer = frozenset[int]  # a peer node's inner addresses


class HostProfiles(Protocol):
    """What all endpoints of a host have in common: its profiles and the states of its ports. Called where the endpoint
    runs, and nothing but `changing` raises."""

    @property
    def permitted(self) -> bool:
        """Whether this process may change them."""

    def changing(self) -> AbstractContextManager[None]:
        """The context in which a controller changes this endpoint's profiles, and so the host's.

        Raises MrcError: EPERM where the process may not, EBUSY where another process's QPs are in the way.
        """

    def refresh(self) -> None:
        """Another process may have changed them."""

    def named(self, ev_profile_id: int, cc_profile_id: int) -> None:
        """A QP is about to use these."""

    def released(self) -> None:
        """A QP no longer uses what it named."""


class OnlineProfiles:
    """`ev` and `cc` by number: the profiles that are ONLINE. The default one, 0, need not be there.

    `host`: where the profiles are not this endpoint's alone, what it has in common with others.
    """

    __slots__ = ("_denied", "cc", "ev", "host")

    def __init__(self) -> None:
        self.host: HostProfiles | None = None
        self.ev: dict[int, EvProfile] = {}
        self.cc: dict[int, ControllerFactory] = {}
        # By profile, by EV: the peers towards which it is denied, None for all of them.
        self._denied: dict[int, dict[int, set[Peer | None]]] = {}

    def deny(self, profile_id: int, ev: int, peer: Peer | None) -> None:
        """Remember for QPs to come that an EV is denied, towards one peer or towards all."""
        self._denied.setdefault(profile_id, {}).setdefault(ev, set()).add(peer)

    def allow(self, profile_id: int, ev: int, peer: Peer | None) -> None:
        """The opposite. Without a peer it is allowed towards all; with one it stays denied where all were named."""
        peers = self._denied.get(profile_id, {}).get(ev, set())
        if peer is None:
            peers.clear()
        peers.discard(peer)

    def denied(self, profile_id: int, peer: Peer) -> list[int]:
        """The EVs that a new QP with this profile may not use towards a peer."""
        return [ev for ev, peers in self._denied.get(profile_id, {}).items() if peers & {None, peer}]

    def denied_towards(self, profile_id: int, ev: int) -> Set[Peer | None]:
        """The peers towards which an EV is denied, None among them for all."""
        return self._denied.get(profile_id, {}).get(ev, set())

    def denied_to_all(self, profile_id: int) -> set[int]:
        """The EVs of a profile that are denied towards all peers."""
        return {ev for ev, peers in self._denied.get(profile_id, {}).items() if None in peers}

    def forget(self, profile_id: int) -> None:
        """The profile is no longer ONLINE, and so is what was denied in it."""
        self.ev.pop(profile_id, None)
        self._denied.pop(profile_id, None)
