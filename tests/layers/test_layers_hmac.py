# SPDX-License-Identifier: BSD-2-Clause
"""The HMAC of a segment routing header: by hand from RFC 8754 section 2.1.2.1, and against Linux, both ways."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from patience import PATIENCE_S, until_in_use
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting, IPv6ExtHdrSegmentRoutingTLVPadN
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from mrc.errors import CallerError
from mrc.lab.namespace import in_thread, unshare_network
from mrc.layers import BTH, METH, RETH, SRHTLVHMAC, check_hmac, in_srv6, with_hmac

MAC = "02:00:00:00:00:02"
KEY_ID, KEY = 0x11223344, b"a secret of the domain"
SEGMENTS = ["fd00:2::9", "fd00:1::2"]  # the last of the path first


def unsigned() -> Packet:
    header = IPv6ExtHdrSegmentRouting(addresses=SEGMENTS, segleft=1, hmac=1)
    return IPv6(src="fd00:1::77", dst="fd00:1::2") / header / UDP(sport=7, dport=9) / b"hello"


def by_hand(source: str, last_entry: int, flags: int, key_id: int, segments: list[str]) -> bytes:
    text = IPv6Address(source).packed + bytes((last_entry, flags)) + key_id.to_bytes(4, "big")
    text += b"".join(IPv6Address(segment).packed for segment in segments)
    return hmac.new(KEY, text, hashlib.sha256).digest()[:32]


def test_the_hmac_is_that_of_the_rfcs_text() -> None:
    signed = bytes(with_hmac(unsigned(), KEY, KEY_ID))
    tlv = bytes((5, 38)) + bytes(2) + KEY_ID.to_bytes(4, "big") + by_hand("fd00:1::77", 1, 0x08, KEY_ID, SEGMENTS)
    # SRH: 8 bytes, two segments, 40 bytes of TLV: 80 = 8 * (9 + 1).
    assert signed[40:48] == bytes((17, 9, 4, 1, 1, 0x08, 0, 0))
    assert signed[80:120] == tlv
    assert check_hmac(IPv6(signed), {KEY_ID: KEY}) is True
    assert check_hmac(IPv6(signed), {KEY_ID: b"another"}) is False
    assert check_hmac(IPv6(signed), {1: KEY}) is False


def test_a_tlv_that_is_there_keeps_its_place_and_key_id() -> None:
    packet = unsigned()
    tlvs = [SRHTLVHMAC(hmackeyid=KEY_ID), IPv6ExtHdrSegmentRoutingTLVPadN(padding=bytes(6))]
    packet[IPv6ExtHdrSegmentRouting].tlv_objects = tlvs
    signed = bytes(with_hmac(packet, KEY))
    assert signed[88:120] == by_hand("fd00:1::77", 1, 0x08, KEY_ID, SEGMENTS)
    assert signed[120:122] == bytes((4, 6))
    assert check_hmac(IPv6(signed), {KEY_ID: KEY}) is True


@pytest.mark.parametrize("at", [8, 23, 44, 45, 48, 60, 84, 100, 119])
def test_a_changed_byte_shows(at: int) -> None:
    """Source, last entry, flags, a segment, key id, digest: everything the text covers, and the digest itself."""
    changed = bytearray(bytes(with_hmac(unsigned(), KEY, KEY_ID)))
    changed[at] ^= 1
    assert check_hmac(IPv6(bytes(changed)), {KEY_ID: KEY}) is not True


def test_the_destination_has_to_be_the_segment_pointed_at() -> None:
    """RFC 8754 section 2.1.2.1: unless D is 1; hop limit, tag and the upper layers are not covered."""
    packet = with_hmac(unsigned(), KEY, KEY_ID)
    packet.hlim, packet[IPv6ExtHdrSegmentRouting].tag, packet[UDP].sport = 3, 9, 1
    assert check_hmac(IPv6(bytes(packet)), {KEY_ID: KEY}) is True
    packet.dst = "fd00:1::3"
    assert check_hmac(IPv6(bytes(packet)), {KEY_ID: KEY}) is False


def test_a_reduced_list_sets_d() -> None:
    """RFC 8754 section 4.1.1: the first segment is only the destination, so D is 1 and the check is off."""
    packet = in_srv6(0x01000003, "fd00::1", "fd00::2", srh=True) / BTH(dqp=1) / METH() / RETH() / b"x"
    signed = IPv6(bytes(with_hmac(packet, KEY, KEY_ID)))
    tlv = signed[IPv6ExtHdrSegmentRouting].tlv_objects[0]
    assert (tlv.d, tlv.hmac) == (1, by_hand("fd00::1", 0, 0, KEY_ID, ["5f00:0:4101::"]))
    assert check_hmac(signed, {KEY_ID: KEY}) is True


def test_without_a_header_or_a_key() -> None:
    assert check_hmac(unsigned(), {KEY_ID: KEY}) is None
    assert check_hmac(IPv6() / UDP(), {KEY_ID: KEY}) is None
    with pytest.raises(CallerError, match="segment routing header"):
        with_hmac(IPv6() / UDP(), KEY)
    with pytest.raises(CallerError, match="key"):
        with_hmac(unsigned(), b"")


# Linux. SEG6_CMD_SETHMAC of include/uapi/linux/seg6_genl.h, and generic netlink's own numbers.
_GENERIC, _CONTROL, _GETFAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 16, 3, 1, 2
_SETHMAC, _HMACKEYID, _SECRET, _SECRETLEN, _ALGID, _SHA256 = 1, 3, 4, 5, 6, 2


def _attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def _generic_request(sock: socket.socket, family: int, command: int, attributes: bytes) -> bytes:
    body = struct.pack("=BBH", command, 1, 0) + attributes
    sock.send(struct.pack("=IHHII", 16 + len(body), family, 0x5, 1, 0) + body)
    return sock.recv(65536)


def _set_kernel_key() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as sock:
        sock.bind((0, 0))
        answer = _generic_request(sock, _CONTROL, _GETFAMILY, _attribute(_FAMILY_NAME, b"SEG6\0"))
        family, at = 0, 20
        while at + 4 <= len(answer):
            length, kind = struct.unpack_from("=HH", answer, at)
            if kind == _FAMILY_ID:
                family = struct.unpack_from("=H", answer, at + 4)[0]
            at += max(4, length + -length % 4)
        if struct.unpack_from("=H", answer, 4)[0] == 2 or not family:
            pytest.skip("this kernel has no segment routing")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as sock:
        sock.bind((0, 0))
        attributes = _attribute(_HMACKEYID, struct.pack("=I", KEY_ID)) + _attribute(_SECRETLEN, bytes((len(KEY),)))
        attributes += _attribute(_SECRET, KEY) + _attribute(_ALGID, bytes((_SHA256,)))
        answer = _generic_request(sock, family, _SETHMAC, attributes)
        error = struct.unpack_from("=i", answer, 16)[0]
        if error:
            pytest.skip(f"this kernel has no HMAC for segment routing ({os.strerror(-error)})")


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


def _inside_a_namespace(function: Callable[[], None]) -> None:
    def body() -> None:
        os.close(unshare_network())
        for command in ("link set lo up", f"link add va type veth peer name vb address {MAC}"):
            _ip(command)
        for name in ("all", "default", "va", "vb"):
            for setting, value in (("accept_dad", 0), ("seg6_enabled", 1), ("forwarding", 1)):
                Path(f"/proc/sys/net/ipv6/conf/{name}/{setting}").write_text(str(value))
        for command in ("link set va up", "link set vb up", "addr add fd00:1::1/64 dev va nodad"):
            _ip(command)
        _set_kernel_key()
        function()

    in_thread(body)


kernel = pytest.mark.skipif(
    shutil.which("ip") is None or (os.geteuid() != 0 and os.environ.get("CI") != "true"),
    reason="needs root and iproute2",
)


@pytest.mark.root
@kernel
@pytest.mark.parametrize("source", ["fd00:1::1", "fd00:1::1234"])
def test_what_linux_signs_is_right(source: str) -> None:
    """An encapsulation route with `hmac`: the kernel writes header and TLV, `check_hmac` finds them right."""

    def body() -> None:
        _ip(f"sr tunsrc set {source}")
        until_in_use({"va", "vb"})
        _ip(f"neigh add fd00:1::2 lladdr {MAC} dev va")
        _ip(f"-6 route add fd00:99::/64 encap seg6 mode encap segs fd00:1::2,fd00:5::5 hmac {KEY_ID} dev va")
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
        sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        with tap, sender:
            tap.bind(("vb", 0x86DD))
            tap.settimeout(PATIENCE_S)
            sender.sendto(b"through the tunnel", ("fd00:99::1", 9))
            frame = Ether(tap.recv(4096))
            while IPv6ExtHdrSegmentRouting not in frame:
                frame = Ether(tap.recv(4096))
        srh = frame[IPv6ExtHdrSegmentRouting]
        assert srh.addresses == ["fd00:5::5", "fd00:1::2"]
        assert (frame[IPv6].src, srh.hmac, srh.tlv_objects[-1].hmackeyid) == (source, 1, KEY_ID)
        assert check_hmac(frame, {KEY_ID: KEY}) is True
        assert check_hmac(frame, {KEY_ID: b"another"}) is False
        # The same header from us, digest and all.
        digest = srh.tlv_objects[-1].hmac
        srh.tlv_objects[-1].hmac = b""
        assert with_hmac(frame, KEY)[IPv6ExtHdrSegmentRouting].tlv_objects[-1].hmac == digest
        assert bytes(with_hmac(frame, KEY)) == frame.original

    _inside_a_namespace(body)


@pytest.mark.root
@kernel
def test_linux_takes_what_we_sign_and_nothing_else() -> None:
    """seg6_require_hmac: the kernel follows a segment only when the HMAC is right."""

    def body() -> None:
        for name in ("all", "vb"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/seg6_require_hmac").write_text("1")
        _ip("addr add fd00:1::2/128 dev vb nodad")
        _ip("addr add fd00:2::9/128 dev vb nodad")
        until_in_use({"va", "vb"})
        receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        with receiver, wire:
            receiver.bind(("fd00:2::9", 9))
            wire.bind(("va", 0))
            ether = Ether(src="02:00:00:00:00:01", dst=MAC)
            right = with_hmac(unsigned(), KEY, KEY_ID)
            wrong_key = with_hmac(unsigned(), b"another", KEY_ID)
            unknown_key = with_hmac(unsigned(), KEY, 5)
            other_source = right.copy()
            other_source.src = "fd00:1::78"
            for payload, packet in ((b"1", wrong_key), (b"2", unknown_key), (b"3", other_source), (b"4", unsigned())):
                packet[UDP].remove_payload()
                wire.send(bytes(ether / packet / payload))
            wire.send(bytes(ether / right))
            receiver.settimeout(PATIENCE_S)
            assert receiver.recv(100) == b"hello"
            receiver.setblocking(False)
            with pytest.raises(BlockingIOError):
                receiver.recv(100)

    _inside_a_namespace(body)
