# SPDX-License-Identifier: BSD-2-Clause
"""The entropy value (wire.md section 10), uSID addresses (section 11) and the switches of WireProfile."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.wire.entropy import (
    SRV6_WITH_SRH_WIDTH_LIMIT,
    WIDTH_LIMITS,
    EvField,
    EvMode,
    ev_to_fields,
    expand,
    expanded,
    fields_to_ev,
    generated_ev,
    generated_evs,
)
from mrc.wire.fields import fields_to_ev_array
from mrc.wire.profile import WireProfile
from mrc.wire.usid import (
    UsidTemplate,
    address_text,
    container,
    ev_of_path,
    host_usid,
    leaf_usid,
    path_of_ev,
    shifted,
    spine_usid,
)

SWAPPED = WireProfile(ev_low_half_in_source_port=False)
evs = st.integers(0, 0xFFFFFFFF)


def test_the_low_half_is_in_the_source_port_the_high_half_in_the_flow_label() -> None:
    """MRC-EV-02."""
    assert ev_to_fields(0x12345678) == (0x5678, 0x1234)
    assert ev_to_fields(0x12345678, SWAPPED) == (0x1234, 0x5678)
    assert fields_to_ev(0x5678, 0x1234) == 0x12345678


def test_only_sixteen_bits_of_the_flow_label_count_and_ipv4_has_none() -> None:
    """On IPv4 only the low half travels and the responder reports the missing half as 0."""
    assert fields_to_ev(0x5678, 0xF1234) == 0x12345678
    assert fields_to_ev(0x5678, 0) == 0x5678


@given(evs, st.booleans())
def test_an_ev_comes_back_from_the_fields_that_carry_it(ev: int, swapped: bool) -> None:
    """MRC-EV-01."""
    profile = SWAPPED if swapped else WireProfile()
    source_port, label = ev_to_fields(ev, profile)
    assert 0 <= source_port <= 0xFFFF
    assert 0 <= label <= 0xFFFF
    assert fields_to_ev(source_port, label, profile) == ev
    array = fields_to_ev_array(np.array([source_port], np.uint32), np.array([label], np.uint32), profile)
    assert array.tolist() == [ev]


def test_the_expansion_of_section_10() -> None:
    """(8 bits, init 0xA0, mask 0x0F) and (4 bits, init 0, mask 0xF): EV 0x25 -> 0xA2, 0x5 -> 0xA25. MRC-EV-12."""
    fields = (EvField(8, 0xA0, 0x0F), EvField(4, 0, 0xF))
    assert expanded(0x25, fields, (8, 4)) == 0xA25
    assert len(list(generated_evs(fields))) == 256


def test_mask_bits_are_set_from_the_most_significant_down() -> None:
    """mask 1010_0001 takes three bits: 0b110 puts 1 at bit 7, 1 at bit 5, 0 at bit 0; init bits there give way."""
    assert EvField(8, 0b0100_0011, 0b1010_0001).place(0b110) == 0b1110_0010
    assert EvField(8, 0xFF, 0x0F).place(0) == 0xF0


def test_a_field_without_a_mask_takes_no_bits() -> None:
    assert expanded(0x3, (EvField(4, 0x9), EvField(2, 0, 0x3), EvField(4, 0x6)), (4, 2, 4)) == 0b1001_11_0110


def test_a_field_narrower_than_its_place_is_right_aligned() -> None:
    """wire.md section 10: "right-aligned there, with zeros in front"; a place without a field is 0. MRC-EV-09."""
    fields = (EvField(4, 0xA), EvField(4, 0, 0xF))
    assert expanded(0x5, fields, (8, 16, 8)) == 0x0A_0005_00
    assert generated_ev(fields, 0x5, (8, 16, 8)) == 0x0A_0005_00


def test_the_name_that_knows_no_widths_warns_and_takes_the_fields_own() -> None:
    with pytest.warns(DeprecationWarning, match="use expanded"):
        assert expand(0x5, (EvField(4, 0xA), EvField(4, 0, 0xF))) == 0xA5


@pytest.mark.parametrize("widths", [(), (8,), (7, 4), (8, 3), (4, 8)])
def test_widths_without_room_for_the_fields_are_refused(widths: tuple[int, ...]) -> None:
    for made in (
        lambda: expanded(0, (EvField(8), EvField(4)), widths),
        lambda: generated_ev((EvField(8), EvField(4)), 0, widths),
    ):
        with pytest.raises(CallerError, match="the format has fields of"):
            made()


def test_bounds_are_on_the_generated_bits_before_they_are_placed() -> None:
    """MRC-EV-11."""
    fields = (EvField(8, 0xA0, 0xF0, min_val=2, max_val=4), EvField(4, 0, 0x3))
    assert expanded(0b10_01 | 0, fields, (8, 4)) == 0x2 << 8 | 1  # bits 0010 01: 2 placed in the high nibble
    for ev in (0b0001_00, 0b0101_00):
        with pytest.raises(CallerError, match=r"outside 2\.\.4"):
            expanded(ev, fields, (8, 4))
    assert list(generated_evs(fields)) == [bits << 2 | low for bits in (2, 3, 4) for low in range(4)]


def test_a_greatest_value_of_0_bounds_nothing() -> None:
    """MRC-EV-14."""
    assert list(generated_evs([EvField(8, mask=0x3, max_val=0)])) == [0, 1, 2, 3]
    assert list(generated_evs([EvField(8, mask=0x3, min_val=2, max_val=0)])) == [2, 3]


def test_an_ev_with_more_bits_than_the_masks_is_refused() -> None:
    """MRC-EV-10."""
    with pytest.raises(CallerError):
        expanded(0x100, (EvField(8, 0xA0, 0x0F), EvField(4, 0, 0xF)), (8, 4))
    with pytest.raises(CallerError):
        expanded(-1, (EvField(8, 0, 0xFF),), (8,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"width": 4, "init_val": 0x10},
        {"width": 4, "mask": 0x10},
        {"width": 4, "init_val": -1},
        {"width": 8, "mask": 0xF, "max_val": 16},
        {"width": 8, "mask": 0xF, "min_val": 5, "max_val": 4},
        {"width": 8, "mask": 0xF, "min_val": -1},
    ],
)
def test_a_field_that_contradicts_itself_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CallerError):
        EvField(**wrong)


@st.composite
def ev_fields(draw: st.DrawFn) -> EvField:
    width = draw(st.integers(1, 12))
    return EvField(width, draw(st.integers(0, (1 << width) - 1)), draw(st.integers(0, (1 << width) - 1)))


@given(st.lists(st.tuples(ev_fields(), st.integers(0, 9)), min_size=1, max_size=4), st.integers(0, 9), st.data())
def test_expansion_bit_by_bit(wider: list[tuple[EvField, int]], rest: int, data: st.DataObject) -> None:
    """A second way: write every bit of the result as text, taking the EV's bits from the left. MRC-EV-09."""
    fields = [field for field, _ in wider]
    widths = [field.width + more for field, more in wider] + [rest] * (rest > 0)
    bits = sum(field.mask.bit_count() for field in fields)
    ev = data.draw(st.integers(0, (1 << bits) - 1))
    left = iter(f"{ev:0{bits}b}" if bits else "")
    text = ""
    for field, more in wider:
        text += "0" * more
        for mask, plain in zip(f"{field.mask:0{field.width}b}", f"{field.init_val:0{field.width}b}", strict=True):
            text += next(left) if mask == "1" else plain
    assert expanded(ev, fields, widths) == int(text + "0" * rest, 2)


def test_width_limits() -> None:
    """Section 10: UDP 16, STEV 32, SRV6 128, SRV6 with SRH 256 bits."""
    assert WIDTH_LIMITS == {EvMode.UDP: 16, EvMode.STEV: 32, EvMode.SRV6: 128}
    assert SRV6_WITH_SRH_WIDTH_LIMIT == 256


# ------------------------------------------------------------------ uSIDs


def test_the_addresses_of_section_11() -> None:
    """Plane 1, uplink 3, leaf 0 to host 1 on leaf 1: as it leaves, at the spine's input, at the host.

    MRC-SRV6-03, MRC-SRV6-05, MRC-SRV6-08.
    """
    address = UsidTemplate(source_leaf=0, destination_leaf=1, destination_host=1).address(1, 3)
    assert address_text(address) == "5f00:0:1100:2103:1101:4101::"
    assert address_text(shifted(address)) == "5f00:0:2103:1101:4101::"
    assert address_text(shifted(shifted(shifted(address)))) == "5f00:0:4101::"
    assert address_text(shifted(shifted(shifted(shifted(address))))) == "5f00::"


def test_two_hosts_on_one_leaf_have_one_path_a_plane() -> None:
    """Section 11: `source leaf : host port`; the source leaf is the destination leaf. MRC-SRV6-09."""
    template = UsidTemplate(source_leaf=5, destination_leaf=5, destination_host=9)
    assert address_text(template.address(2, 0)) == "5f00:0:1205:4209::"
    assert template.address(2, 0) == template.address(2, 7)


def test_the_plan_of_usids() -> None:
    """Section 11: leaf `1 p ll`, spine `2 p ss`, host port 4000 + p * 256 + h. MRC-SRV6-07, MRC-SRV6-10."""
    assert leaf_usid(15, 255) == 0x1FFF
    assert spine_usid(1, 3) == 0x2103
    assert host_usid(15, 255) == 0x4000 + 15 * 256 + 255
    for function in (leaf_usid, spine_usid, host_usid, ev_of_path):
        for plane, number in ((16, 0), (-1, 0), (0, 256), (0, -1)):
            with pytest.raises(CallerError):
                function(plane, number)


@given(st.integers(0, 15), st.integers(0, 255))
def test_ev_and_path(plane: int, uplink: int) -> None:
    """EV = plane(8) zero(8) uplink(16), most significant first. MRC-SRV6-06."""
    ev = ev_of_path(plane, uplink)
    assert ev.to_bytes(4, "big") == bytes((plane, 0, 0, uplink))
    assert path_of_ev(ev) == (plane, uplink)


@pytest.mark.parametrize("ev", [0x00010000, 0x10000000, 0x00000100, 0xFFFFFFFF])
def test_an_ev_of_another_form_is_refused(ev: int) -> None:
    with pytest.raises(CallerError):
        path_of_ev(ev)


@given(st.lists(st.integers(1, 0xFFFF), max_size=6), st.integers(0, 0xFFFFFFFF))
def test_a_container_and_its_shift(usids: list[int], block: int) -> None:
    """RFC 9800 section 4.1: the block stays, the uSIDs move left by one, zeros follow. MRC-SRV6-02."""
    words = [block >> 16, block & 0xFFFF, *usids, *[0] * (6 - len(usids))]
    address = container(block, tuple(usids))
    assert ipaddress.IPv6Address(address) == ipaddress.IPv6Address(b"".join(w.to_bytes(2, "big") for w in words))
    moved = [*words[:2], *words[3:], 0]
    assert shifted(address).to_bytes(16, "big") == b"".join(word.to_bytes(2, "big") for word in moved)


def test_a_container_holds_six_usids() -> None:
    """MRC-SRV6-02."""
    with pytest.raises(CallerError, match="SRH"):
        container(0x5F000000, (1,) * 7)


# ------------------------------------------------------------------ profile


def test_options_set_switches_and_later_ones_win(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"udp_port": 4971, "neth_cc_type": 0, "accepted_udp_ports": [4971]}))
    profile = WireProfile.from_option((str(file), "neth_cc_type=1", "dscp_control=0x30", "udp_checksum_zero=false"))
    assert (profile.udp_port, profile.neth_cc_type, profile.accepted_udp_ports) == (4971, 1, (4971,))
    assert (profile.dscp_control, profile.udp_checksum_zero) == (48, False)
    assert WireProfile.from_option(()) == WireProfile()


@pytest.mark.parametrize(
    "option",
    [
        "colour=1",
        "udp_port=true",
        "udp_port=4791.5",
        "udp_checksum_zero=1",
        "udp_port=blue",
        "dscp_control=64",
        "dscp_trimmed=-1",
        "eeth_op_shift=3",
        "first_port_bit=2",
        "/nonexistent/profile.json",
        "udp_port=",
        "=4",
    ],
)
def test_a_wrong_option_is_the_callers(option: str) -> None:
    with pytest.raises(CallerError):
        WireProfile.from_option([option])


@pytest.mark.parametrize(
    "option",
    ["udp_port=70000", "udp_port=-1", "accepted_udp_ports=[70000]", 'accepted_udp_ports=["x"]', "tsr1_unit_ns=0"],
)
def test_a_value_no_packet_can_carry_is_refused(option: str) -> None:
    """A UDP port is 16 bits (section 1), a unit of time is positive (section 4)."""
    with pytest.raises(CallerError):
        WireProfile.from_option([option])


@pytest.mark.parametrize("text", ["[1, 2]", "{", '"udp_port"', '{"udp_port": "4791"}', '{"colour": 1}'])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(CallerError):
        WireProfile.from_option([str(file)])


BY_MODE = 'ev_low_half_in_source_port={"stev": false}'


@pytest.mark.parametrize(
    ("mode", "low_half_in_port"), [("udp", True), ("stev", False), ("srv6", True), ("srv6-srh", True)]
)
def test_the_halves_may_lie_otherwise_in_one_mode(mode: str, low_half_in_port: bool, tmp_path: Path) -> None:
    assert WireProfile.from_option([BY_MODE], mode).ev_low_half_in_source_port == low_half_in_port
    file = tmp_path / "wire.json"
    file.write_text('{"ev_low_half_in_source_port": {"udp": false, "srv6": false, "stev": true}}')
    assert WireProfile.from_option([str(file)], mode).ev_low_half_in_source_port == (mode == "stev")
    assert WireProfile.from_option([BY_MODE, "ev_low_half_in_source_port=true"], mode) == WireProfile()


@pytest.mark.parametrize(
    ("value", "mode", "why"),
    [
        ('{"stev": false}', None, "give true or false"),
        ('{"ecmp": false}', "udp", "no mode 'ecmp': there are udp, stev, srv6"),
        ('{"udp": 1}', "udp", "udp takes a bool, got 1"),
        ("[]", "udp", "takes a bool"),
    ],
)
def test_a_value_per_mode_that_cannot_be_is_refused(value: str, mode: str | None, why: str) -> None:
    with pytest.raises(CallerError, match=why):
        WireProfile.from_option([f"ev_low_half_in_source_port={value}"], mode)
