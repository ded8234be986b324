# SPDX-License-Identifier: BSD-2-Clause
"""Versions, vendor configuration and EV counts of a device, as `mrc_ctl.h` has them (api.md, Controller)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from control_pair import ControlPair, refused

from mrc.control import CcProfileAttr, EvFormatAttr, EvProfileAttr, ProfileState, query_version
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.verbs import ProtocolVersion
from mrc.wire.entropy import EvMode

OFFLINE = ProfileState.OFFLINE


def test_versions_are_those_of_the_header() -> None:
    versions = query_version()
    assert versions.current == (1, 0, 1)
    assert [each.number for each in versions] == [0x01000001, 0x01000000, 0, 0]
    assert ControlPair().controller.query_device().protocol_version == ProtocolVersion.MRC_1


def test_evs_of_all_profiles_are_counted() -> None:
    """By the counts that profiles really have, as the planes divide them. MRC-CTL-01."""
    controller = ControlPair().controller
    before = controller.query_device()
    assert before.max_total_ev_count == 64 * 4096
    assert before.free_ev_count == before.max_total_ev_count
    controller.modify_ev_profile(1, EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, format_id=0, count=7))
    assert controller.query_device().free_ev_count == before.free_ev_count - 8
    controller.modify_ev_profile(1, EvProfileAttr(ProfileState.INIT))
    assert controller.query_device().free_ev_count == before.free_ev_count


@pytest.mark.parametrize(
    ("call", "attr", "given"),
    [
        ("modify_ev_format", EvFormatAttr, {"mode": EvMode.SRV6}),
        ("modify_ev_profile", EvProfileAttr, {"ev_mode": EvProfileMode.AUTO, "format_id": 0}),
        ("modify_cc_profile", CcProfileAttr, {"algorithm": "none"}),
    ],
)
def test_a_vendor_configuration_of_zeros_is_none(call: str, attr: Any, given: dict[str, Any]) -> None:
    """MRC-CTL-25."""
    controller = ControlPair().controller
    modify = getattr(controller, call)
    for wrong in (b"\1", bytes(129), "0"):
        with refused(errno.EINVAL, "vendor_cfg"):
            modify(1, attr(state=OFFLINE, vendor_cfg=wrong, **given))
    modify(1, attr(state=OFFLINE, vendor_cfg=bytes(128), **given))
    assert getattr(controller, call.replace("modify", "query"))(1) == attr(state=OFFLINE, **given)
