# SPDX-License-Identifier: BSD-2-Clause
"""EV profiles and formats at the edges of what they allow (wire.md section 10; api.md, Controller)."""

from __future__ import annotations

from random import Random

import pytest
from test_endpoint_profiles import (
    EXPLICIT,
    GENERATED,
    SRV6,
    STEV,
    UDP,
    by_plane,
    flow_label,
    made,
    planes,
    source_port,
)

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.addressing import PlanePair, srv6_paths
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.paths.states import CARRIES_DATA
from mrc.errors import CallerError
from mrc.wire.entropy import EvField, EvMode
from mrc.wire.profile import WireProfile
from mrc.wire.usid import UsidTemplate


def _left_usable(profile: EvProfile, config: PathConfig) -> int:
    """How many of a profile's EVs stay usable when one after the other loses a packet."""
    chosen = PathSet(made(profile, planes(2)), profile.path_config(config), Random(1))
    for index in range(len(chosen.paths)):
        chosen.on_loss(index, index)
    return sum(CARRIES_DATA[state] for state in chosen.state)


def test_min_active_of_a_profile_is_the_fewest_evs_that_stay_usable() -> None:
    """behaviour.md, ev_min_active: a quarter of 8 by default; what the QP itself is given comes first."""
    evs = tuple(range(50000, 50008))
    assert _left_usable(EvProfile(EXPLICIT, UDP, evs=evs), PathConfig()) == 2
    assert _left_usable(EvProfile(EXPLICIT, UDP, evs=evs, min_active=5), PathConfig()) == 5
    assert _left_usable(EvProfile(EXPLICIT, UDP, evs=evs, min_active=5), PathConfig(ev_min_active=3)) == 3


def test_every_ev_of_a_profile_may_be_active_and_have_to_stay_usable() -> None:
    """At most as many as there are: 8 of 8."""
    evs = tuple(range(50000, 50008))
    profile = EvProfile(EXPLICIT, UDP, evs=evs, min_active=8, active_count=8)
    assert _left_usable(profile, PathConfig()) == 8


def test_auto_draws_from_every_bit_it_may() -> None:
    """Odd EVs as well as even ones, in UDP and in STEV mode: "at random" (docs/udp-mode.md)."""
    for mode in (EvMode.UDP, EvMode.STEV):
        evs = [path.ev for path in made(EvProfile.auto(mode), planes(1))]
        assert {ev & 1 for ev in evs} == {0, 1}


@pytest.mark.parametrize(("ipv4", "bits"), [(False, 32), (True, 16)])
def test_auto_in_stev_mode_without_widths_has_a_first_hop_of_eight_bits(ipv4: bool, bits: int) -> None:
    """One EV for each uplink, in the most significant field; 32 bits, 16 over IPv4; the plane in the last bits."""
    pairs = [PlanePair(p, p, pair.local_address, pair.peer_address, 3) for p, pair in enumerate(planes(2, ipv4=ipv4))]
    paths = made(EvProfile.auto(EvMode.STEV), pairs)
    expected = [(uplink << bits - 8 | plane, uplink) for plane in (0, 1) for uplink in range(3)]
    assert [(path.ev, path.spine) for path in paths] == expected


def test_auto_in_stev_mode_fills_the_first_field_and_the_last_bits() -> None:
    """Sixteen uplinks in 4 bits, planes 0 to 3 in 2; a fifth plane could not be told from the first."""
    auto = EvProfile.auto(EvMode.STEV, (4, 2))
    evs = [path.ev for path in made(auto, planes(4, uplinks=16))]
    assert len(set(evs)) == 64
    assert max(evs) == 0b1111_11
    with pytest.raises(CallerError, match="cannot tell 16 uplinks of plane 4 apart"):
        made(auto, planes(5, uplinks=16))


def test_the_udp_port_and_the_halves_of_the_wire_profile_count_in_every_mode() -> None:
    """wire.md sections 1 and 10: port 4971 and the low half in the flow label, as switches of the wire profile."""
    wire = WireProfile(udp_port=4971, ev_low_half_in_source_port=False)
    plane = planes(1, uplinks=8)[0]
    udp, stev, srv6 = (
        EvProfile(EXPLICIT, form, evs=(ev,)).paths([plane], Random(1), wire)[0]
        for form, ev in ((UDP, 0xC123), (STEV, 0x12345678), (SRV6, 7))
    )
    assert srv6.spine == 7
    for path, carried in ((udp, (0xC123, 0)), (stev, (0x1234, 0x5678)), (srv6, (0, 7))):
        assert (source_port(path), flow_label(path)) == carried
        assert int.from_bytes(bytes(path.template[42:44]), "big") == 4971
    whole_fabric = srv6_paths([plane], UsidTemplate(0, 1, 1), wire)
    assert {int.from_bytes(bytes(path.template[42:44]), "big") for path in whole_fabric} == {4971}


def test_a_generated_srv6_profile_may_have_every_ev_its_fields_allow() -> None:
    fields = (EvField(8, mask=0x01), EvField(8), EvField(16, mask=0x3))
    paths = made(EvProfile(GENERATED, SRV6, count=8, fields=fields), planes(2, uplinks=4))
    assert by_plane(paths) == {plane: [plane << 24 | uplink for uplink in range(4)] for plane in (0, 1)}


@pytest.mark.seconds
def test_of_a_generated_srv6_profile_2_to_the_16_evs_are_looked_at() -> None:
    """Each of them, so that one that names no path is refused by name; of twice as many none."""
    for mask, says in ((0, r"EV 0x00000100 names uplink 256 .* must be 0\.\.255"), (1, "at most 65536 are looked at")):
        fields = (EvField(8, mask=mask), EvField(8), EvField(16, mask=0xFFFF))
        with pytest.raises(CallerError, match=says):
            made(EvProfile(GENERATED, SRV6, count=1, fields=fields), planes(1, uplinks=4))


def test_each_field_is_filled_to_the_width_of_its_place() -> None:
    """As many fields as the format has: 0xA in 4 bits, then 0x5 of 4 bits in a place of 8."""
    fields = (EvField(4, 0xA), EvField(4, 0x5))
    profile = EvProfile(GENERATED, EvFormat(EvMode.STEV, (4, 8)), count=1, fields=fields)
    assert [path.ev for path in made(profile, planes(1))] == [0xA05]


@pytest.mark.parametrize(
    ("srh", "bits", "says"), [(False, 129, "SRV6 carries 128"), (True, 257, "SRV6 with SRH carries 256")]
)
def test_a_format_too_wide_says_what_its_mode_carries(srh: bool, bits: int, says: str) -> None:
    """E2BIG with the needed size (api.md, Errors)."""
    with pytest.raises(CallerError, match=f"the fields take {bits} bits, {says}$"):
        EvFormat(EvMode.SRV6, (bits,), srh)
