# SPDX-License-Identifier: BSD-2-Clause
"""What the wire's functions refuse, and that the sentence names the thing: people read it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mrc.errors import CallerError, MalformedPacket
from mrc.wire.entropy import EvField, expanded
from mrc.wire.headers import HeaderLayout, pack_header, unpack_header
from mrc.wire.packet import decode_transport, encode_transport
from mrc.wire.profile import WireProfile
from mrc.wire.usid import container, ev_of_path, host_usid, leaf_usid, path_of_ev, spine_usid


@pytest.mark.parametrize(
    ("function", "second"), [(leaf_usid, "leaf"), (spine_usid, "spine"), (host_usid, "host"), (ev_of_path, "uplink")]
)
def test_a_number_beyond_the_plan_of_section_11_is_named_with_its_range(function: object, second: str) -> None:
    """Up to 16 planes, 256 of each."""
    assert callable(function)
    with pytest.raises(CallerError, match=r"^plane must be 0\.\.15, got 16"):
        function(16, 0)
    with pytest.raises(CallerError, match=rf"^{second} must be 0\.\.255, got 256"):
        function(0, 256)


def test_too_many_usids_and_an_ev_of_another_plan_are_named() -> None:
    with pytest.raises(CallerError, match="holds 6 uSIDs, got 7"):
        container(0x5F000000, (1,) * 7)
    with pytest.raises(CallerError, match="EV 0x00010000"):
        path_of_ev(0x00010000)


@pytest.mark.parametrize(
    ("ev", "words"),
    [
        (0x01000100, "names uplink 256 in plane(8) zero(8) uplink(16): it must be 0..255"),
        (0x0000FFFF, "names uplink 65535 in plane(8) zero(8) uplink(16): it must be 0..255"),
        (0x10000000, "names plane 16 in plane(8) zero(8) uplink(16): it must be 0..15"),
        (0x00050000, "is not of the form plane(8) zero(8) uplink(16): the zero is 0x05"),
    ],
)
def test_what_is_wrong_with_an_srv6_ev_is_told_with_its_form_and_limit(ev: int, words: str) -> None:
    """EV = plane(8) zero(8) uplink(16); uSIDs have four bits for the plane and eight for the spine. MRC-SRV6-06."""
    with pytest.raises(CallerError, match=re.escape(f"EV {ev:#010x} {words}") + "$"):
        path_of_ev(ev)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("udp_port=1=2", "udp_port: '1=2'"),
        ("colour=1", "'colour'.*udp_port"),
        ("udp_checksum_zero=1", "udp_checksum_zero takes a bool, got 1"),
        ("dscp_control=64", r"dscp_control must be 0\.\.63, got 64"),
        ("udp_port=65536", r"0\.\.65535, got 65536"),
        ("neth_cc_type=16", r"neth_cc_type must be 0\.\.15, got 16"),
        ("neth_cc_type=-1", r"neth_cc_type must be 0\.\.15, got -1"),
        ("/nonexistent/profile.json", "/nonexistent/profile.json"),
    ],
)
def test_a_wrong_switch_is_named(option: str, words: str) -> None:
    with pytest.raises(CallerError, match=words):
        WireProfile.from_option([option])


def test_the_ends_of_each_range_are_allowed() -> None:
    """A DSCP has 6 bits, a UDP port 16, cc_type 4; op of the EETH begins at bit 2 or 4, port 1 is bit 0 or 1."""
    low = ["dscp_control=0", "udp_port=0", "neth_cc_type=0", "eeth_op_shift=2", "first_port_bit=0", "tsr1_unit_ns=1"]
    high = ["dscp_control=63", "udp_port=65535", "neth_cc_type=15", "eeth_op_shift=4", "first_port_bit=1"]
    for options in (low, high):
        profile = WireProfile.from_option(options)
        for option in options:
            key, _, value = option.partition("=")
            assert getattr(profile, key) == int(value)


def test_one_number_will_do_where_several_are_taken_and_words_may_be_in_any_case(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"accepted_udp_ports": [4791, 5000]}))
    assert WireProfile.from_option([str(file)]).accepted_udp_ports == (4791, 5000)
    assert WireProfile.from_option(["accepted_udp_ports=4971"]).accepted_udp_ports == (4971,)
    profile = WireProfile.from_option([" udp_checksum_zero = False ", "solicited_event_first=FALSE"])
    assert (profile.udp_checksum_zero, profile.solicited_event_first) == (False, False)


def test_a_field_of_an_ev_says_what_contradicts_it() -> None:
    with pytest.raises(CallerError, match="width must be at least 1 bit, got 0"):
        EvField(0)
    for name in ("init_val", "mask"):
        with pytest.raises(CallerError, match=f"^{name} 0x10 does not fit a field of 4 bits"):
            EvField(4, **{name: 0x10})
        assert getattr(EvField(4, **{name: 0xF}), name) == 0xF
    with pytest.raises(CallerError, match="min_val 0 and max_val 16 must bound 4 generated bits"):
        EvField(8, mask=0xF, max_val=16)
    assert EvField(1).width == 1
    assert EvField(8, mask=0xF, min_val=15, max_val=15).greatest == 15
    with pytest.raises(CallerError, match="EV 0x100 has more than the 8 bits"):
        expanded(0x100, (EvField(8, mask=0xFF),), (8,))


@pytest.mark.parametrize("text", ["a:8 b", "a:7", "a:8 b:x", ":8", "a:8 b:8 c:4"])
def test_a_layout_that_is_not_whole_bytes_of_named_fields_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="layout of thing"):
        HeaderLayout.parse("thing", text)


def test_what_does_not_fit_a_header_is_named_with_the_range() -> None:
    with pytest.raises(CallerError, match=r"^aeth\.syndrome must be 0\.\.255, got 256"):
        pack_header("aeth", {"syndrome": 256})
    with pytest.raises(CallerError, match=r"^seth\.sack_offset must be -32768\.\.32767, got -32769"):
        pack_header("seth", {"sack_offset": -32769})
    with pytest.raises(CallerError, match=r"^aeth has no field colour, shape$"):
        pack_header("aeth", {"colour": 1, "shape": 2})
    with pytest.raises(CallerError, match=r"^seth\.probe_id must be 0\.\.65535, got 65536"):
        pack_header("seth", {"pr": 1, "probe_id": 65536})
    with pytest.raises(CallerError, match="begins with a bth"):
        encode_transport([("aeth", {})])


def _malformed(text: str) -> str:
    found = decode_transport(bytes.fromhex(text)).malformed
    assert found is not None
    return found


def test_a_malformed_packet_says_first_what_it_is_and_then_how_much_is_there() -> None:
    """The reason is the stable name that counters and findings use."""
    for text, reason, detail in (
        ("d100ffff002b02220000000000", "short_header", "aeth takes 4 bytes, 1 are left"),
        ("c2" + "00" * 11, "unknown_opcode", "0xc2"),
        ("d100ffff002b0222000000001f000000aabbcc", "no_icrc", "3 bytes follow the headers"),
        ("0430ffff002b022200000000" + "ab" + "00" * 4, "bad_pad", "pad count 3, 1 bytes of payload"),
        ("d100ffff002b0222000000001f000000" + "ab" * 2 + "00" * 4, "unexpected_payload", "2 bytes after a Acknowledge"),
    ):
        found = _malformed(text)
        assert found.startswith(f"{reason}: "), text
        assert detail in found
    with pytest.raises(MalformedPacket, match=re.escape("bth takes 12 bytes, 11 are left")) as caught:
        unpack_header("bth", bytes(11))
    assert caught.value.reason == "short_header"
