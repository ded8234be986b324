# SPDX-License-Identifier: BSD-2-Clause
"""Scapy's own RoCE layer and ours side by side: its test cases (test/contrib/roce.uts) in our terms, and who dissects.

Cases that say what happens on import run in an interpreter of their own: Scapy's bindings are those of the process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from mrc.capture.fields import packet_document
from mrc.capture.frames import Record
from mrc.capture.walk import walk
from mrc.layers import BTH, ICRC, RETH, bind_to_udp, bound_to_udp, check_icrc, unbind_from_udp
from mrc.wire.profile import WireProfile

# A frame of UC between two ports of one adapter, which knows its ICRC: 18 bytes of payload, two of padding.
UC_PAYLOAD = bytes.fromhex("4630818be28935d90e9a95505401be885e50")
UC_ICRC = 0x78F353F3
# A congestion notification as a ConnectX-4 Lx sent it.
CNP = bytes.fromhex(
    """e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c400040119161 0a001101 0a001201 000012b700280000
       8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a"""
)


def test_a_send_of_uc_has_the_adapters_icrc() -> None:
    mac = "24:8a:07:a8:fa:22"
    below = IP(tos=1, id=1144, flags="DF", src="192.168.0.7", dst="192.168.0.7") / UDP(sport=49152)
    bth = BTH(opcode=0x24, m=1, dqp=211, psn=13571856)
    found = Ether(bytes(Ether(src=mac, dst=mac) / below / bth / Raw(UC_PAYLOAD)))
    assert (found[IP].len, found[IP].chksum, found[UDP].len) == (64, 0xB4D5, 44)
    assert (found[BTH].sprintf("%BTH.opcode%"), found[BTH].pad) == ("UC SEND Only", 2)
    assert found[ICRC].crc == UC_ICRC
    assert check_icrc(found) is True


def test_a_notification_as_an_adapter_sends_it() -> None:
    found = Ether(CNP)
    assert (found[BTH].opcode, found[BTH].becn, found[BTH].fecn, found[BTH].dqp) == (0x81, 1, 0, 0x118)
    assert found[ICRC].crc == 0x82FD002A
    assert check_icrc(found) is True
    del found[ICRC].crc
    assert bytes(found) == CNP
    walked = walk(CNP, 1, len(CNP))
    document = packet_document(1, Record(0, CNP, len(CNP), 1), walked)
    assert (document["icrc_ok"], document["opcode_name"]) == (True, "CNP")
    layers = {layer["layer"]: layer.get("fields") for layer in document["layers"]}
    assert (layers["bth"]["becn"], layers["bth"]["fecn"]) == (1, 0)
    assert layers["icrc"]["crc"] == 0x82FD002A


def test_a_notification_that_we_build() -> None:
    ip = IP(src="22.22.22.8", dst="22.22.22.7", id=0x98C6, flags="DF", ttl=0x20, tos=0x89)
    found = Ether(bytes(Ether() / ip / UDP(sport=56238) / BTH(opcode=0x81, becn=1, dqp=0xD2) / Raw(bytes(16))))
    assert (found[IP].len, found[UDP].len, found[UDP].chksum) == (60, 40, 0)
    bth = found[BTH]
    assert (bth.becn, bth.fecn, bth.reserved, bth.dqp, bth.tver, bth.se, bth.m, bth.pad) == (1, 0, 0, 0xD2, 0, 0, 0, 0)
    assert (bth.pkey, bth.ackreq, bth.psn, found[Raw].load) == (0xFFFF, 0, 0, bytes(16))
    theirs = Ether() / ip / UDP(sport=56238, dport=4791, chksum=0) / roce.cnp(dqpn=0xD2)
    assert bytes(theirs) == bytes(found)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("payload", [b"", b"data", bytes(range(200))])
def test_both_work_out_the_same_icrc_and_write_it_alike(version: int, payload: bytes) -> None:
    ip = IP(src="10.0.0.1", dst="10.0.0.2") if version == 4 else IPv6(src="fd00::1", dst="fd00::2", fl=9)
    ours = ip / UDP(sport=49152) / BTH(opcode=0x04, dqp=7, psn=9, ackreq=1) / Raw(payload)
    built = type(ip)(bytes(ours))
    theirs = ip / UDP(sport=49152, dport=4791, chksum=0) / roce.BTH(opcode=4, dqpn=7, psn=9, ackreq=1) / Raw(payload)
    assert bytes(theirs) == bytes(ours)
    unbind_from_udp()
    try:
        assert type(ip)(bytes(ours))[roce.BTH].icrc == built[ICRC].crc
    finally:
        bind_to_udp()


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


SETUP = f"""
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
data = bytes.fromhex("{CNP.hex()}")
def who():
    return type(Ether(data)[UDP].payload).__module__
"""


@pytest.mark.parametrize(
    "imports",
    [
        "from mrc.layers import *; import scapy.contrib.roce",
        "import scapy.contrib.roce; from mrc.layers import *",
        "from scapy.main import load_contrib; load_contrib('roce'); from mrc.layers import *",
    ],
)
def test_importing_our_layers_leaves_scapys_alone(imports: str) -> None:
    code = imports + SETUP + "print(who())\nbind_to_udp()\nprint(who())\nunbind_from_udp()\nprint(who())"
    assert run(code) == ["scapy.contrib.roce", "mrc.layers.bth", "scapy.contrib.roce"]


def test_importing_our_layers_changes_no_method_of_scapys() -> None:
    code = """
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
before = UDP.answers, IPv6.answers, IPv6.hashret, list(UDP.payload_guess)
import mrc.layers
print(before == (UDP.answers, IPv6.answers, IPv6.hashret, list(UDP.payload_guess)))
"""
    assert run(code) == ["True"]


def test_a_block_leaves_all_as_it_was() -> None:
    code = (
        "import scapy.contrib.roce\nfrom mrc.layers import *\nfrom mrc.wire.profile import WireProfile"
        + SETUP
        + """
with bound_to_udp(WireProfile(accepted_udp_ports=(9999,))):
    print(who())
    with bound_to_udp(WireProfile()):
        print(who())
    print(who())
print(who())
try:
    with bound_to_udp():
        raise KeyError
except KeyError:
    print(who())
"""
    )
    theirs = "scapy.contrib.roce"
    assert run(code) == [theirs, "mrc.layers.bth", theirs, theirs, theirs]


def test_packets_are_built_without_being_bound() -> None:
    unbind_from_udp()
    try:
        packet = IPv6(src="fd00::1", dst="fd00::2") / UDP() / BTH(opcode=0x0A) / RETH(va=1) / b"data"
        built = bytes(packet)
        assert BTH not in IPv6(built)
        assert packet[UDP].dport == 4791
        with bound_to_udp(WireProfile()):
            assert check_icrc(IPv6(built)) is True
        assert BTH not in IPv6(built)
    finally:
        bind_to_udp()
