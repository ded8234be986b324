# SPDX-License-Identifier: BSD-2-Clause
"""Random loss on what arrives at one end of a link, through nftables over netlink.

Each end that loses gets one table of its own in its namespace, `mrc-loss-INTERFACE`, family netdev, with one chain at
that interface's ingress hook and one rule: a random number below the wanted share, count, drop. What arrives on other
interfaces never meets it; at the prerouting hook every packet would pass the rules of all. Deleting the table is
clearing the loss. Nothing else remembers it: status reads the rule and its counter back from the kernel.

What it cannot do: a segment-offloaded TCP packet of up to 64 KiB lives or dies as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroute2.netlink.nfnetlink.nftsocket import nft_rule_msg

from mrc.errors import SystemRefused
from mrc.fabric.impairment import SHARE_GRAIN
from mrc.lab import nftables
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.nftables import Expression

_GETRULE, _DUMP = 7, 0x300
_NUMGEN_RANDOM = 1
_VERDICT_REGISTER, _VERDICT_DROP = 0, 0
_TABLE_PREFIX = "mrc-loss-"


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss installed on one interface: `share` 0..1 of what arrives, and what it has dropped so far."""

    interface: str
    share: float
    dropped_packets: int
    dropped_bytes: int


def _rule(threshold: int) -> list[Expression]:
    """`numgen random mod 1000000 < THRESHOLD counter drop`."""
    drop = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", _VERDICT_DROP)]})]}
    return [
        nftables.expression(
            "numgen",
            [
                ("NFTA_NG_DREG", nftables.REGISTER),
                ("NFTA_NG_MODULUS", SHARE_GRAIN),
                ("NFTA_NG_TYPE", _NUMGEN_RANDOM),
            ],
        ),
        # The generator leaves the number in the machine's order; only a big-endian one compares as a number.
        nftables.swap_order(nftables.TO_NETWORK_ORDER),
        nftables.compare(nftables.COMPARE_BELOW, threshold.to_bytes(4, "big")),
        nftables.expression("counter", [("NFTA_COUNTER_BYTES", 0), ("NFTA_COUNTER_PACKETS", 0)]),
        nftables.expression("immediate", [("NFTA_IMMEDIATE_DREG", _VERDICT_REGISTER), ("NFTA_IMMEDIATE_DATA", drop)]),
    ]


def install(netlink: NetlinkSocket, interface: str, share: float) -> None:
    """Lose `share` (a millionth to 1) of what arrives on `interface`, in place of an earlier loss.

    Raises SystemRefused when the kernel refuses or does not show the rule.
    """
    threshold = round(share * SHARE_GRAIN)
    table, rules = _TABLE_PREFIX + interface, [_rule(threshold)]
    nftables.replace_table(netlink, table, nftables.FAMILY_NETDEV, nftables.PRIORITY_FIRST, rules, interface)
    found = {loss.interface: round(loss.share * SHARE_GRAIN) for loss in installed(netlink)}
    if found.get(interface) != threshold:
        raise SystemRefused(
            f"the kernel took the loss rule for {interface} but does not show it: does another program change nftables?"
        )


def clear(netlink: NetlinkSocket, interface: str) -> None:
    """Lose nothing on `interface` any more. No error when nothing was lost. Raises SystemRefused."""
    nftables.delete_table(netlink, _TABLE_PREFIX + interface, nftables.FAMILY_NETDEV)


def installed(netlink: NetlinkSocket) -> list[Loss]:
    """Every loss installed in this namespace, read back from the kernel. Raises SystemRefused."""
    found: list[Loss] = []

    def collect(_: int, data: bytes) -> None:
        if (loss := _parse(data)) is not None:
            found.append(loss)

    request = nftables.message(nft_rule_msg(), _GETRULE, _DUMP, nftables.FAMILY_NETDEV, [])
    netlink.dump("read the nftables rules", request, collect)
    return found


def _parse(data: bytes) -> Loss | None:
    message = nft_rule_msg(data)
    message.decode()
    table = str(message.get_attr("NFTA_RULE_TABLE") or "")
    if not table.startswith(_TABLE_PREFIX):
        return None
    threshold = packets = octets = 0
    for expression in message.get_attr("NFTA_RULE_EXPRESSIONS") or []:
        kind, content = expression.get_attr("NFTA_EXPR_NAME"), expression.get_attr("NFTA_EXPR_DATA")
        if kind == "counter":
            packets, octets = content.get_attr("NFTA_COUNTER_PACKETS"), content.get_attr("NFTA_COUNTER_BYTES")
        elif kind == "cmp":
            value = content.get_attr("NFTA_CMP_DATA").get_attr("NFTA_DATA_VALUE")
            threshold = int.from_bytes(value, "big")
    return Loss(table.removeprefix(_TABLE_PREFIX), threshold / SHARE_GRAIN, int(packets), int(octets))
