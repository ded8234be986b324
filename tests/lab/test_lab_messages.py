# SPDX-License-Identifier: BSD-2-Clause
"""What a lab asks of the kernel, read by pyroute2, which has the kernel's names for every number."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest
from pyroute2.netlink.nfnetlink.nftsocket import nft_chain_msg, nft_rule_msg, nft_table_msg
from pyroute2.netlink.rtnl.fibmsg import FR_ACT_BLACKHOLE, FR_ACT_TO_TBL, fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from mrc.errors import SystemRefused
from mrc.fabric import Clos
from mrc.lab import marking, messages, nftables
from mrc.lab.impairment import loss
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.lab.plan import Interface, Marking, Route, RouteKind, Rule, plan

LOWER = Interface("h0", "h0-p0l0", 3, False)
UPPER = Interface("p0l0", "p0l0-h0", 3, True)


def read(kind: Any, data: bytes) -> Any:
    message = kind(data)
    message.decode()
    assert message["header"]["length"] == len(data)
    return message


def plain(value: Any) -> Any:
    """Attributes as lists of names and values, within each other."""
    if isinstance(value, dict) and "attrs" in value:
        return [(each[0], plain(each[1])) for each in value["attrs"]]
    return [plain(each) for each in value] if isinstance(value, list) else value


def said(kind: Any, request: Request) -> list[tuple[str, Any]]:
    return cast("list[tuple[str, Any]]", plain(read(kind, request.data)))


def test_a_cable_has_two_ends() -> None:
    request = messages.veth_pair(LOWER, UPPER, 17, 4400)
    message = read(ifinfmsg, request.data)
    assert (message["header"]["type"], message["header"]["flags"]) == (16, 0x605)
    assert (message["index"], message["flags"], message["change"]) == (LOWER.index, 0, 0)
    peer = message.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    assert (peer["index"], peer["flags"]) == (UPPER.index, 0)
    both = [("IFLA_MTU", 4400)]
    assert plain(peer) == [
        *(("IFLA_IFNAME", UPPER.name), *both, ("IFLA_ADDRESS", UPPER.mac)),
        ("IFLA_NET_NS_FD", 17),
    ]
    assert plain(message)[:3] == [("IFLA_IFNAME", LOWER.name), *both, ("IFLA_ADDRESS", LOWER.mac)]
    assert message.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_KIND") == "veth"


def test_links_are_set() -> None:
    assert said(ifinfmsg, messages.loopback_up("mrc lab x")) == [("IFLA_IFALIAS", "mrc lab x")]
    assert said(ifinfmsg, messages.bridge_port(5, "p", 9)) == [("IFLA_MASTER", 9)]
    assert said(ifinfmsg, messages.link_mtu(5, "p", 1500)) == [("IFLA_MTU", 1500)]
    kind = [("IFLA_INFO_KIND", "bridge")]
    assert said(ifinfmsg, messages.bridge(5, "p")) == [("IFLA_IFNAME", "p"), ("IFLA_LINKINFO", kind)]
    for request, index, flags, change in (
        (messages.loopback_up(""), 1, 1, 1),
        (messages.bridge(5, "p"), 5, 1, 1),
        (messages.bridge_port(5, "p", 9), 5, 1, 1),
        (messages.link_mtu(5, "p", 9), 5, 0, 0),
        (messages.link_state(LOWER, up=True), LOWER.index, 1, 1),
        (messages.link_state(LOWER, up=False), LOWER.index, 0, 1),
        (messages.delete_link(5, "p"), 5, 0, 0),
    ):
        message = read(ifinfmsg, request.data)
        assert (message["index"], message["flags"], message["change"]) == (index, flags, change)
        assert message["header"]["type"] == (17 if "delete" in request.what else 16)


@pytest.mark.parametrize(
    ("ip", "family", "flags", "names"),
    [("fd00::7", socket.AF_INET6, 2, ["IFA_ADDRESS"]), ("10.0.0.7", socket.AF_INET, 0, ["IFA_ADDRESS", "IFA_LOCAL"])],
)
def test_addresses(ip: str, family: int, flags: int, names: list[str]) -> None:
    message = read(ifaddrmsg, messages.address(3, ip, 24).data)
    assert [message[key] for key in ("family", "prefixlen", "flags", "scope", "index")] == [family, 24, flags, 0, 3]
    assert plain(message) == [(name, ip) for name in names]


def test_a_neighbour() -> None:
    message = read(ndmsg, messages.neighbour(LOWER).data)
    assert (message["family"], message["ifindex"], message["state"]) == (socket.AF_INET6, LOWER.index, 0x80)
    assert plain(message) == [("NDA_DST", LOWER.peer_link_local), ("NDA_LLADDR", LOWER.peer_mac)]


@pytest.mark.parametrize("mode", Clos.modes)
def test_every_route_and_rule_of_a_fabric(mode: str) -> None:
    nodes = plan(Clos(planes=2, spines=4, mode=mode)).values()
    routes = [each for node in nodes for each in (*node.routes, *(r for i in node.interfaces for r in i.routes))]
    assert len(routes) > 10
    for each in routes:
        message = read(rtmsg, messages.route(each).data)
        destination, _, length = each.prefix.partition("/")
        kind = {RouteKind.LOCAL: 2, RouteKind.BLACKHOLE: 6}.get(each.kind, 1)
        assert (message["family"], message["dst_len"], message["type"]) == (socket.AF_INET6, int(length), kind)
        assert (message["table"], message["proto"]) == (255 if each.kind is RouteKind.LOCAL else 254, 4)
        wanted = {"RTA_DST": destination, "RTA_OIF": each.device_index, "RTA_GATEWAY": each.gateway}
        wanted |= {"RTA_PREFSRC": each.source, "RTA_TABLE": each.table, "RTA_PRIORITY": each.metric}
        found = dict(plain(message))
        if each.kind is RouteKind.USID:
            assert found.pop("RTA_ENCAP_TYPE") == 7
            assert found.pop("RTA_ENCAP")
        assert found == {key: value for key, value in wanted.items() if value is not None}
    for rule in (each for node in nodes for each in node.rules):
        check_rule(rule)


def check_rule(each: Rule) -> None:
    message = read(fibmsg, messages.rule(each).data)
    assert message["action"] == (FR_ACT_BLACKHOLE if each.table is None else FR_ACT_TO_TBL)
    wanted: dict[str, Any] = {"FRA_PRIORITY": each.priority, "FRA_TABLE": each.table}
    wanted["FRA_SUPPRESS_PREFIXLEN"] = each.longer_than
    if each.mark is not None:
        wanted |= {"FRA_FWMARK": each.mark, "FRA_FWMASK": each.mask}
    assert dict(plain(message)) == {key: value for key, value in wanted.items() if value is not None}


def test_a_usid_route_ends_with_the_next_c_sid_flavor() -> None:
    """By hand: seg6local action 1 (End), flavors (11, nested): operations 1 << 4, 32 bits of block, 16 of node."""
    data = messages.route(Route("fc00::/48", RouteKind.USID, 4)).data
    encap = "08000100010000001c000b80080001001000000005000200200000000500030010000000"
    assert bytes.fromhex(encap) in data


def test_a_link_is_read() -> None:
    message = ifinfmsg()
    message["index"], message["flags"] = 7, 0x41
    counted = {"rx_packets": 1 << 40, "tx_packets": 2, "rx_bytes": 3 << 40, "tx_bytes": 4}
    message["attrs"] = [("IFLA_IFNAME", "p0"), ("IFLA_MTU", 4400), ("IFLA_STATS64", counted)]
    message.encode()
    data = bytes(message.data)
    assert messages.parse_link(data) == ("p0", True, 1 << 40, 3 << 40, 4400)
    assert messages.parse_index(data) == 7


class Told:
    """A socket that keeps what it is told."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def transact_batch(self, begin: bytes, requests: list[Request], end: bytes) -> None:
        assert [each[16:] for each in (begin, end)] == [bytes([0, 0, 0, 10])] * 2
        assert [each[4] for each in (begin, end)] == [16, 17]
        self.requests += requests

    def dump(self, what: str, data: bytes, take: Any) -> None:
        """The kernel shows the rule as it was made."""
        assert (data[4:8], data[16:]) == (bytes([7, 10, 1, 3]), bytes([nftables.FAMILY_NETDEV, 0, 0, 0]))
        take(0, self.requests[-1].data)


def test_a_loss_is_a_rule_that_reads_as_one() -> None:
    told = Told()
    loss.install(cast("NetlinkSocket", told), "p0", 0.25)
    made, deleted, again, chain, rule = told.requests
    table = [("NFTA_TABLE_NAME", "mrc-loss-p0")]
    assert [said(nft_table_msg, each) for each in (made, deleted, again)] == [table] * 3
    assert [read(nft_table_msg, each.data)["header"]["type"] for each in (made, deleted, again)] == [2560, 2562, 2560]
    hook = [("NFTA_HOOK_HOOKNUM", 0), ("NFTA_HOOK_PRIORITY", -300), ("NFTA_HOOK_DEV", "p0")]
    named = [("NFTA_CHAIN_TABLE", "mrc-loss-p0"), ("NFTA_CHAIN_NAME", "arriving")]
    assert said(nft_chain_msg, chain) == [*named, ("NFTA_CHAIN_HOOK", hook), ("NFTA_CHAIN_TYPE", "filter")]
    table, in_chain, (_, expressions) = said(nft_rule_msg, rule)
    assert (table, in_chain) == (("NFTA_RULE_TABLE", "mrc-loss-p0"), ("NFTA_RULE_CHAIN", "arriving"))
    names = ["numgen", "byteorder", "cmp", "counter", "immediate"]
    assert [dict(each)["NFTA_EXPR_NAME"] for each in expressions] == names
    numgen, _, compared, counted, verdict = (dict(dict(each)["NFTA_EXPR_DATA"]) for each in expressions)
    assert (numgen["NFTA_NG_MODULUS"], numgen["NFTA_NG_DREG"]) == (1_000_000, "NFT_REG_1")
    assert compared["NFTA_CMP_DATA"] == [("NFTA_DATA_VALUE", (250_000).to_bytes(4, "big"))]
    assert counted == {"NFTA_COUNTER_BYTES": 0, "NFTA_COUNTER_PACKETS": 0}
    assert "NFTA_DATA_VERDICT" in dict(verdict["NFTA_IMMEDIATE_DATA"])
    assert loss.installed(cast("NetlinkSocket", told)) == [loss.Loss("p0", 0.25, 0, 0)]


class Silent(Told):
    def dump(self, what: str, data: bytes, take: Any) -> None:
        pass


def test_a_loss_that_the_kernel_does_not_show_is_refused() -> None:
    with pytest.raises(SystemRefused, match="does not show it"):
        loss.install(cast("NetlinkSocket", Silent()), "p0", 0.25)


def test_marks() -> None:
    rule = marking._rule(4791, Marking((4791,), mask=0xFF00, tag=0x55))
    request = Request("", nftables.message(6, 0, nftables.FAMILY_IPV6, nftables.attribute(4, b"".join(rule))))
    ((_, expressions),) = said(nft_rule_msg, request)
    names = ["meta", "cmp", "payload", "cmp", "payload", "byteorder", "bitwise", "meta"]
    assert [dict(each)["NFTA_EXPR_NAME"] for each in expressions] == names
    port, word = (dict(dict(expressions[at])["NFTA_EXPR_DATA"]) for at in (2, 4))
    keys = ("NFTA_PAYLOAD_BASE", "NFTA_PAYLOAD_OFFSET", "NFTA_PAYLOAD_LEN")
    assert [[each[key] for key in keys] for each in (port, word)] == [
        ["NFT_PAYLOAD_TRANSPORT_HEADER", 2, 2],
        ["NFT_PAYLOAD_NETWORK_HEADER", 0, 4],
    ]
    flipped = dict(dict(expressions[6])["NFTA_EXPR_DATA"])
    assert flipped["NFTA_BITWISE_MASK"] == [("NFTA_DATA_VALUE", bytes([0, 0xFF, 0, 0]))]
    assert flipped["NFTA_BITWISE_XOR"] == [("NFTA_DATA_VALUE", bytes([0x55, 0, 0, 0]))]
