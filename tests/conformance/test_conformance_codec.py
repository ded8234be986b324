# SPDX-License-Identifier: BSD-2-Clause
"""The tester's codec: against the Scapy layers, against captures of Linux, and against bytes worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.utils import RawPcapReader

import mrc.layers
from mrc.conformance.codec.carriage import Carriage, Outer, ev_fields, ev_of, read_carriage
from mrc.conformance.codec.headers import OPCODES, layouts
from mrc.conformance.codec.icrc import icrc, icrc_bytes
from mrc.conformance.codec.layout import Layout
from mrc.conformance.codec.transport import read_transport, write_transport
from mrc.conformance.packets import Crafted
from mrc.errors import CallerError
from mrc.layers.bind import bind_to_udp, use_wire_profile
from mrc.wire.opcodes import OPCODES as ENDPOINT_OPCODES
from mrc.wire.profile import WireProfile

bind_to_udp()
DEFAULT = WireProfile()
OTHERWISE = WireProfile(solicited_event_first=False, eeth_op_shift=4, ev_low_half_in_source_port=False)
SOFTROCE = Path(__file__).resolve().parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"
ETHERNET = 14


def values_of(layout: Layout) -> st.SearchStrategy[dict[str, int]]:
    """Every field of a header, anywhere in its range."""

    def one(bits: int, signed: bool) -> st.SearchStrategy[int]:
        low = -(1 << bits - 1) if signed else 0
        return st.integers(low, low + (1 << bits) - 1)

    return st.fixed_dictionaries({name: one(place.bits, place.signed) for name, place in layout.places.items()})


def scapy_class(name: str) -> Any:
    return getattr(mrc.layers, {"immdt": "ImmDt"}.get(name, name.upper()))


@pytest.mark.parametrize("name", sorted(layouts(DEFAULT)))
@pytest.mark.parametrize("switches", [DEFAULT, OTHERWISE], ids=["default", "otherwise"])
@given(data=st.data())
def test_every_header_has_the_bytes_of_its_scapy_layer(name: str, switches: WireProfile, data: st.DataObject) -> None:
    layout = layouts(switches)[name]
    values = data.draw(values_of(layout))
    fields: dict[str, Any] = dict(values)
    if name == "bth":
        # Standard opcodes have neither rtx nor ts (wire.md section 13): that is the layers' affair.
        fields["opcode"] = values["opcode"] = values["opcode"] | 0xC0
    if name == "seth" and values["pr"]:
        fields["probe_id"] = fields.pop("ack_psn_offset") & 0xFFFF
    for reserved, size in {"reserved3": 26, "reserved4": 6}.items() if name == "eeth" else ():
        fields[reserved] = values[reserved].to_bytes(size, "big")
    use_wire_profile(switches)
    try:
        built = bytes(scapy_class(name)(**fields))[: layout.length]
    finally:
        use_wire_profile(DEFAULT)
    assert layout.write(values) == built
    assert layout.read(built) == values


def test_opcodes_and_their_headers_are_those_of_the_endpoint() -> None:
    """Two tables written apart."""
    mine = {value: (opcode.headers, opcode.has_payload) for value, opcode in OPCODES.items()}
    theirs = {value: (each.headers, each.has_payload) for value, each in ENDPOINT_OPCODES.items() if each.is_mrc}
    assert mine == theirs


def crafted(opcode: int, version: int, outer: bool, profile: WireProfile, payload: bytes, ts: bool) -> Crafted:
    layers: list[tuple[str, dict[str, int]]] = [("bth", {"opcode": opcode, "pkey": 0xFFFF, "psn": 77, "ts": int(ts)})]
    layers += [(name, {}) for name in OPCODES[opcode].headers if ts or name != "tseth"]
    source, destination = (0x0A000001, 0x0A000002) if version == 4 else (1 << 120 | 1, 1 << 120 | 2)
    sport, label = ev_fields(0xC0DE if version == 4 else 0x0102C0DE, version, profile)
    container = Outer(5, 0x5F000000 << 96 | 0x4001 << 80, 0x13) if outer else None
    carriage = Carriage(source, destination, version, 0x12, label, sport=sport, outer=container)
    return Crafted(tuple(layers), carriage, 0, profile, 0, payload if OPCODES[opcode].has_payload else b"")


@pytest.mark.parametrize("opcode", sorted(OPCODES))
@pytest.mark.parametrize(("version", "outer"), [(6, False), (6, True), (4, False)], ids=["ipv6", "srv6", "ipv4"])
@pytest.mark.parametrize("ts", [False, True])
def test_whole_packets_are_dissected_by_scapy(opcode: int, version: int, outer: bool, ts: bool) -> None:
    """Every opcode, each way of being carried: no layer is left over, the ICRC and all lengths are right."""
    ts = ts and "tseth" in OPCODES[opcode].headers
    packet = crafted(opcode, version, outer, DEFAULT, b"seven b", ts)
    found = (IPv6 if version == 6 else IP)(packet.frame())
    assert mrc.layers.check_icrc(found) is True
    assert bytes(found) == packet.frame()
    names = [name for name, _ in packet.layers]
    assert [layer for layer in names if found.haslayer(scapy_class(layer))] == names
    if packet.payload:
        assert found["Raw"].load == packet.payload
        assert found["Pad"].data == b"\0"
    rebuilt = (IPv6 if version == 6 else IP)(packet.frame())
    del rebuilt["ICRC"].crc
    assert bytes(rebuilt) == packet.frame()


@pytest.mark.parametrize("opcode", sorted(OPCODES))
@pytest.mark.parametrize(("version", "outer"), [(6, False), (6, True), (4, False)], ids=["ipv6", "srv6", "ipv4"])
def test_what_is_written_is_read_back(opcode: int, version: int, outer: bool) -> None:
    packet = crafted(opcode, version, outer, OTHERWISE, b"seven b", ts=False)
    frame = packet.frame()
    found = read_carriage(frame)
    assert not isinstance(found, str)
    transport = read_transport(frame[found.transport_at :], OTHERWISE)
    assert (transport.wrong, transport.payload, list(transport.layers)) == ("", packet.payload, list(packet.fields))
    assert transport.icrc == icrc(frame[found.inner_at : -4])
    assert (ev_of(found.carriage, OTHERWISE), found.carriage.outer) == (packet.ev, packet.carriage.outer)
    assert found.carriage.udp_length == len(frame) - found.transport_at + 8


def test_icrc_of_packets_that_linux_made() -> None:
    """Soft-RoCE's own ICRCs, over IPv4 and IPv6 (wire.md section 9): MRC-ICRC-01..07."""
    versions = set()
    for data, _ in RawPcapReader(str(SOFTROCE)):
        packet = data[ETHERNET:]
        following = packet[6] if packet[0] >> 4 == 6 else packet[9]
        if following == 17 and packet[-4:]:
            assert icrc_bytes(icrc(packet[:-4])) == packet[-4:]
            versions.add(packet[0] >> 4)
    assert versions == {4, 6}


def test_the_sack_of_the_example_byte_by_byte() -> None:
    """wire.md section 6: PSN 0..11 sent, 5 and 8 lost: cack_psn 4, sack_offset 1, bitmap 0b1110110. MRC-SACK-09."""
    seth = {"ack_psn_offset": 7, "entropy": 0x01020304, "spdcid": 0x0506, "dpdcid": 0x0708, "cack_psn": 4}
    seth |= {"sack_offset": 1, "bitmap": 0b1110110, "m": 1}
    cc_state = {"tx_timestamp": 0xABCD, "ooo_count": 5, "restore_cwnd": 1, "rcv_cwnd_pen": 3, "rcvd_bytes": 0x090A0B}
    bth = {"opcode": 0xDC, "pkey": 0xFFFF, "dqp": 0x111213, "psn": 4, "rtx": 1}
    layers = [("bth", bth), ("seth", seth), ("cc_state", cc_state)]
    assert write_transport(layers, b"", None, DEFAULT).hex(" ") == (
        "dc 00 ff ff 00 11 12 13 20 00 00 04 "
        "00 20 00 07 01 02 03 04 05 06 07 08 00 00 00 04 00 00 00 01 00 00 00 00 00 00 00 76 "
        "ab cd 00 05 83 09 0a 0b"
    )


@pytest.mark.parametrize(
    "text",
    ["0 a\n2 b", "0[7:4] a", "0-1 a\n2 b\n3 c", "0 a b", "0 a", "0 a\n0 b"],
    ids=["hole", "bits", "long", "words", "short", "twice"],
)
def test_a_layout_that_does_not_add_up_is_refused(text: str) -> None:
    with pytest.raises(CallerError):
        Layout("x", 2, text)


def test_a_layout_refuses_what_does_not_fit() -> None:
    layout = Layout("x", 2, "0 a\n1 b signed")
    assert layout.write({"a": 255, "b": -128}) == b"\xff\x80"
    for wrong in ({"a": 256}, {"a": -1}, {"b": 128}, {"c": 0}):
        with pytest.raises(CallerError):
            layout.write(wrong)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_words(data: bytes) -> None:
    found = read_carriage(data)
    if isinstance(found, str):
        assert found
    else:
        read_transport(data[found.transport_at :], DEFAULT)
    assert isinstance(read_transport(data, DEFAULT).wrong, str)
