# SPDX-License-Identifier: BSD-2-Clause
"""A table of profiles of one kind: which states they are in, and what they were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from errno import ENOENT, EPERM
from typing import Any, Generic, TypeVar

from mrc.control.attributes import MAX_PROFILES, ProfileAttr
from mrc.control.errors import ControlError
from mrc.control.states import ProfileState, check
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.records import record

INIT, OFFLINE, ONLINE = ProfileState

A = TypeVar("A", bound=ProfileAttr)


@record(slots=True)
class Slot(Generic[A]):
    """A profile: its state, its attributes by name, and the array of an EXPLICIT one (None: not populated)."""

    state: ProfileState = ProfileState.INIT
    attributes: dict[str, Any] = field(default_factory=dict)
    array: list[int | None] = field(default_factory=list)


class ProfileTable(dict[int, Slot[A]]):
    """The profiles of one kind by number, those that somebody has touched. `kind` is what errors call it."""

    def __init__(self, kind: str, default: Slot[A]) -> None:
        """`default` is profile 0, ONLINE from the start and for good."""
        super().__init__({DEFAULT_PROFILE: default})
        self.kind = kind

    def slot(self, profile_id: int) -> Slot[A]:
        """A profile, in INIT where nobody has touched it. Raises ControlError ENOENT."""
        if type(profile_id) is not int or not 0 <= profile_id < MAX_PROFILES:
            raise ControlError(ENOENT, f"no {self.kind} profile {profile_id!r}: there are 0 to {MAX_PROFILES - 1}")
        return self.get(profile_id) or Slot()

    def described(self, profile_id: int) -> Slot[A]:
        """A profile that is not in INIT. Raises ControlError ENOENT."""
        slot = self.slot(profile_id)
        if slot.state == INIT:
            raise ControlError(ENOENT, f"there is no {self.kind} profile {profile_id}")
        return slot

    def step(
        self, profile_id: int, attr: A, base: dict[str, Any] | None = None, assumed: Sequence[str] = ()
    ) -> tuple[ProfileState, dict[str, Any]]:
        """Where it is to go, and its attributes there: those of `base`, else those it has, and the new ones. Those
        `assumed` need not be given. Raises ControlError, and changes nothing."""
        slot = self.slot(profile_id)
        given = attr.given()
        wanted = slot.state if attr.state is None else attr.state
        check(self.kind, slot.state, wanted, given, [*slot.attributes, *assumed])
        if profile_id == DEFAULT_PROFILE and wanted != ONLINE:
            raise ControlError(EPERM, f"{self.kind} profile 0 is the default one: it stays ONLINE")
        if wanted == INIT:
            return wanted, {}
        return wanted, (slot.attributes if base is None else base) | given
