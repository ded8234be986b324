# SPDX-License-Identifier: BSD-2-Clause
"""Netlink messages and attributes, held against pyroute2's and against what is cut short or lies."""

from __future__ import annotations

import struct

import pytest
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_GETLINK, RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from mrc import netlink


def theirs(kind: int, flags: int, sequence: int) -> bytes:
    """A link named p0 of MTU 4400, as pyroute2 writes it."""
    message = ifinfmsg()
    message["index"] = 7
    message["attrs"] = [("IFLA_IFNAME", "p0"), ("IFLA_MTU", 4400)]
    message["header"].update({"type": kind, "flags": flags, "sequence_number": sequence, "pid": 0})
    message.encode()
    return bytes(message.data)


def ours(kind: int, flags: int, sequence: int) -> bytes:
    body = netlink.LINK.pack(0, 0, 7, 0, 0)
    body += netlink.attribute(3, b"p0\0") + netlink.attribute(4, struct.pack("=I", 4400))
    return netlink.message(kind, flags, body, sequence)


def test_a_request_is_what_pyroute2_writes() -> None:
    assert ours(RTM_GETLINK, netlink.DUMP, 5) == theirs(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 5)


def test_what_pyroute2_writes_is_read() -> None:
    data = theirs(RTM_NEWLINK, 0, 1) + theirs(RTM_GETLINK, NLM_F_DUMP, 2)
    (first, second) = netlink.messages(data)
    assert first[:3] == (RTM_NEWLINK, 0, 1)
    assert second[:3] == (RTM_GETLINK, NLM_F_DUMP, 2)
    assert netlink.LINK.unpack_from(first[3])[2] == 7
    assert netlink.attributes(first[3], netlink.LINK.size) == {3: b"p0\0", 4: struct.pack("=I", 4400)}


@pytest.mark.parametrize("length", [0, 1, 15])
def test_a_message_shorter_than_its_header_ends_it(length: int) -> None:
    whole = ours(RTM_NEWLINK, 0, 1)
    assert len(list(netlink.messages(whole + struct.pack("=I", length) + bytes(12) + whole))) == 1


@pytest.mark.parametrize("kept", range(16))
def test_the_rest_of_a_header_is_no_message(kept: int) -> None:
    assert list(netlink.messages(ours(RTM_NEWLINK, 0, 1)[:kept])) == []


@pytest.mark.parametrize("length", [0, 3])
def test_an_attribute_shorter_than_its_header_ends_them(length: int) -> None:
    data = netlink.attribute(1, b"one") + struct.pack("=HH", length, 2) + netlink.attribute(3, b"three")
    assert netlink.attributes(data) == {1: b"one"}


def test_flags_of_an_attribute_are_not_its_kind() -> None:
    inner = netlink.attribute(1, b"x")
    assert netlink.attributes(netlink.attribute(2 | netlink.NESTED, inner)) == {2: inner}


def test_attributes_end_where_they_are_said_to() -> None:
    data = netlink.attribute(1, b"1234") + netlink.attribute(2, b"5678")
    assert netlink.attributes(data, 8) == {2: b"5678"}
    assert netlink.attributes(data, 0, 8) == {1: b"1234"}
