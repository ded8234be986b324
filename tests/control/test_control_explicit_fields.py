# SPDX-License-Identifier: BSD-2-Clause
"""EXPLICIT profiles with fields: the array holds the bits of the masks (api.md, Controller), judged by packets."""

from __future__ import annotations

import errno
import ipaddress
from typing import Any

import pytest
from control_pair import MILLISECOND, READY, ControlPair, refused, spine_ev

from mrc.control import EvFormatAttr, EvOp, EvOpKind, EvProfileAttr, EvStateChange, ProfileState
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.errors import CallerError
from mrc.wire.entropy import EvField, EvMode
from mrc.wire.usid import ev_of_address

OFFLINE, ONLINE = ProfileState.OFFLINE, ProfileState.ONLINE
# plane(8) zero(8) uplink(16): a bit of the plane and two of the uplink.
PLANNED = (EvField(8, mask=0x01), EvField(8), EvField(16, mask=0x03))
# The front of an outer address: the locator block stands in init_val, a leaf and a spine have their plane's bit each.
LOCATOR = (
    EvField(32, init_val=0x5F000000),
    EvField(16, init_val=0x1000, mask=0x0100),
    EvField(16, init_val=0x2000, mask=0x0103),
)


def described(pair: ControlPair, fields: tuple[EvField, ...], evs: list[int], **more: Any) -> None:
    widths = tuple(field.width for field in fields)
    pair.controller.modify_ev_format(1, EvFormatAttr(OFFLINE, EvMode.SRV6))
    pair.controller.modify_ev_format(1, EvFormatAttr(ONLINE, fields=widths))
    attr = EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 1, count=len(evs), fields=fields, **more)
    pair.controller.modify_ev_profile(1, attr)
    batch = [EvOp(EvOpKind.REPLACE, new_ev=ev) for ev in evs]
    assert [result.errno for result in pair.controller.ev_operations(1, batch)] == [0] * len(evs)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ONLINE, **READY))


@pytest.mark.parametrize(
    ("fields", "evs"),
    [(PLANNED, [0b000, 0b010, 0b101, 0b111]), (LOCATOR, [0b0000, 0b0010, 0b1101, 0b1111])],
    ids=["planned", "locator"],
)
def test_packets_carry_what_the_masked_bits_expand_to(fields: tuple[EvField, ...], evs: list[int]) -> None:
    pair = ControlPair()
    described(pair, fields, evs)
    assert pair.controller.query_ev_profile(1).fields == fields
    assert pair.controller.query_ev_array(1) == evs
    left, _ = pair.connect(ev_profile_id=1)
    pair.sent()
    pair.write(left)
    assert set(pair.sent()["h0"]) == {spine_ev(0, 0), spine_ev(0, 2), spine_ev(1, 1), spine_ev(1, 3)}
    assert {entry.ev for entry in pair.controller.query_evs(1)} == set(evs)


def test_an_ev_is_denied_queried_and_told_of_by_its_masked_bits() -> None:
    pair = ControlPair(rate_bps=1_000_000_000)
    described(pair, LOCATOR, [0b0000, 0b0001, 0b1100, 0b1101])
    left, _ = pair.connect(ev_profile_id=1)
    run = pair.controller.ev_operations
    with pair.controller.ev_events(ev_only=True) as events:
        assert run(1, [EvOp(EvOpKind.MODIFY_STATE, ev=0b1101, state=EvState.DENIED)])[0].errno == 0
        (event,) = events.take(2)
        assert isinstance(event, EvStateChange)
        assert (event.ev, event.state) == (0b1101, EvState.DENIED)
    assert run(1, [EvOp(EvOpKind.QUERY_STATE, ev=0b1101)])[0].state == EvState.DENIED
    # What packets carry is no entry of this array.
    assert run(1, [EvOp(EvOpKind.QUERY_STATE, ev=spine_ev(1, 1))])[0].errno == errno.ENOENT
    pair.sent()
    pair.post(left)
    pair.run(1 * MILLISECOND)
    assert run(1, [EvOp(EvOpKind.REPLACE, ev=0b0001, new_ev=0b0011)])[0].errno == 0
    pair.sent()
    pair.finish()
    assert set(pair.sent()["h0"]) == {spine_ev(0, 0), spine_ev(0, 3), spine_ev(1, 0)}


def test_what_evs_are_called_is_worked_out_once_and_again_after_a_change() -> None:
    """Each event asks for it, while packets wait."""
    pair = ControlPair()
    described(pair, PLANNED, [0b000, 0b101])
    pair.connect(ev_profile_id=1)
    profiles = pair.controller.profiles
    before = profiles.evs.names(1)
    assert before == {spine_ev(0, 0): 0b000, spine_ev(1, 1): 0b101}
    assert profiles.evs.names(1) is before
    assert pair.controller.ev_operations(1, [EvOp(EvOpKind.REPLACE, ev=0b101, new_ev=0b111)])[0].errno == 0
    assert profiles.evs.names(1) == {spine_ev(0, 0): 0b000, spine_ev(1, 3): 0b111}
    with pair.controller.ev_events(ev_only=True) as events:
        pair.controller.ev_operations(1, [EvOp(EvOpKind.MODIFY_STATE, ev=0b111, state=EvState.DENIED)])
        assert [event.ev for event in events.take(2) if isinstance(event, EvStateChange)] == [0b111]


def test_fields_change_under_a_write() -> None:
    """Modify-online: the array stays, and its bits name other paths."""
    pair = ControlPair(rate_bps=1_000_000_000)
    described(pair, PLANNED, [0b000, 0b100])
    left, _ = pair.connect(ev_profile_id=1)
    pair.post(left)
    pair.run(1 * MILLISECOND)
    others = (PLANNED[0], PLANNED[1], EvField(16, init_val=3, mask=0x03 << 4))
    pair.controller.modify_ev_profile(1, EvProfileAttr(fields=others))
    pair.sent()
    pair.finish()
    assert set(pair.sent()["h0"]) == {spine_ev(0, 3), spine_ev(1, 3)}


@pytest.mark.parametrize(
    ("fields", "ev", "says"),
    [
        (PLANNED, 0b1000, "more than the 3 bits the masks generate"),
        (LOCATOR, 0b0100, "a leaf and a spine of one plane"),
        ((EvField(8, mask=0x01, max_val=1), EvField(8), EvField(16, mask=0x03, min_val=1)), 0b000, "outside 1..3"),
    ],
)
def test_an_ev_that_the_fields_cannot_expand(fields: tuple[EvField, ...], ev: int, says: str) -> None:
    pair = ControlPair()
    described(pair, fields, [0b001, 0b101] if fields is not LOCATOR else [0b0001, 0b1101])
    (result,) = pair.controller.ev_operations(1, [EvOp(EvOpKind.REPLACE, index=0, new_ev=ev)])
    assert result.errno == errno.EINVAL
    assert says in result.reason


def test_fields_that_the_format_has_no_room_for() -> None:
    pair = ControlPair()
    pair.controller.modify_ev_format(1, EvFormatAttr(OFFLINE, EvMode.SRV6))
    pair.controller.modify_ev_format(1, EvFormatAttr(ONLINE, fields=(8, 24)))
    attr = EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 1, count=2, fields=PLANNED)
    with refused(errno.EINVAL, "the format has fields of 8 \\+ 24 bits"):
        pair.controller.modify_ev_profile(1, attr)
    attr = EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, 1, count=2, fields=(EvField(1),) * 17)
    with refused(errno.E2BIG, "17 fields") as caught:
        pair.controller.modify_ev_profile(1, attr)
    assert caught.value.needed == 17


@pytest.mark.parametrize("address", ["5f00::", "5f00:0:1000:2100::", "5f00:0:2001:1000::", "5f00:0:1000:4001::"])
def test_an_address_that_is_no_path(address: str) -> None:
    with pytest.raises(CallerError, match="does not lead over a leaf and a spine"):
        ev_of_address(int(ipaddress.IPv6Address(address)))
