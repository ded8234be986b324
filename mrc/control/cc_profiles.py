# SPDX-License-Identifier: BSD-2-Clause
"""The congestion control profiles of an endpoint: an algorithm and its configuration (api.md, Controller)."""

from __future__ import annotations

from errno import EBUSY, EINVAL
from typing import Any

from mrc.control.attributes import CcProfileAttr
from mrc.control.errors import ControlError, arguments
from mrc.control.states import ProfileState
from mrc.control.table import INIT, ONLINE, ProfileTable, Slot
from mrc.endpoint.congestion import (
    DEFAULT_ALGORITHM,
    Configured,
    algorithm_names,
    config_of,
    configured,
    factory_of,
    name_of,
)
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.online import DEFAULT_PROFILE


class CcProfiles(ProfileTable[CcProfileAttr]):
    """Congestion control profiles by number. A controller cannot change a profile that QPs use."""

    def __init__(self, endpoint: Endpoint) -> None:
        controller = endpoint.online.cc.get(DEFAULT_PROFILE) or factory_of(DEFAULT_ALGORITHM)
        config = {"config": controller.config} if isinstance(controller, Configured) else {}
        super().__init__("CC", Slot(ONLINE, {"algorithm": name_of(controller), **config}))
        self._endpoint = endpoint

    def modify(self, profile_id: int, attr: CcProfileAttr, *, with_usual: bool = False) -> None:
        """`with_usual`: without a configuration it goes ONLINE with the algorithm's default one."""
        wanted, merged = self.step(profile_id, attr)
        self._check_free(profile_id)
        if wanted != INIT:
            self._check(merged)
        if wanted == ONLINE and not with_usual and _lacks_config(merged):
            raise ControlError(EINVAL, "CC profile, OFFLINE to ONLINE: needs config")
        self._commit(profile_id, wanted, merged)

    def load(self, profile_id: int, attr: CcProfileAttr) -> None:
        """Whatever it was, it is ONLINE with these attributes. The default one too, as long as no QP uses it."""
        self._check_free(profile_id)
        merged = attr.given()
        self._check(merged)
        self._commit(profile_id, ONLINE, merged)

    def _check_free(self, profile_id: int) -> None:
        users = [qp for qp in self._endpoint.qps.values() if qp.cc_profile_id == profile_id]
        if self.slot(profile_id).state == ONLINE and users:
            raise ControlError(EBUSY, f"CC profile {profile_id} is used by {len(users)} QPs")

    @staticmethod
    def _check(attributes: dict[str, Any]) -> None:
        algorithm = attributes.get("algorithm")
        if algorithm not in algorithm_names():
            known = ", ".join(algorithm_names())
            raise ControlError(EINVAL, f"no congestion control algorithm {algorithm!r}: there are {known}")
        with arguments():
            configured(algorithm, attributes.get("config"))

    def _commit(self, profile_id: int, wanted: ProfileState, attributes: dict[str, Any]) -> None:
        online = self._endpoint.online.cc
        if wanted != ONLINE:
            online.pop(profile_id, None)
        else:
            online[profile_id] = configured(attributes["algorithm"], attributes.get("config"))
        self[profile_id] = Slot(wanted, attributes)

    def set(self, profile_id: int, state: ProfileState, attributes: dict[str, Any]) -> None:
        """It is as another endpoint's controller has left it. Raises ControlError, and then nothing has changed."""
        if state != INIT:
            self._check(attributes)
        self._commit(profile_id, state, attributes)


def _lacks_config(attributes: dict[str, Any]) -> bool:
    return "config" not in attributes and config_of(attributes["algorithm"]) is not None
