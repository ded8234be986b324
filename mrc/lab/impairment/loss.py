# SPDX-License-Identifier: BSD-2-Clause
"""Random loss on what arrives at one end of a link, through nftables over netlink.

Each end that loses gets one table of its own in its namespace, `mrc-loss-INTERFACE`, family netdev, with one chain at
that interface's ingress hook and one rule: a random number below the wanted share, count, drop. What arrives on other
interfaces never meets it; at the prerouting hook every packet would pass the rules of all. Deleting the table is
clearing the loss. Nothing else remembers it: status reads the rule and its counter back from the kernel.

What it cannot do: a segment-offloaded TCP packet of up to 64 KiB lives or dies as one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mrc.errors import SystemRefused
from mrc.fabric.impairment import SHARE_GRAIN
from mrc.lab import nftables
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.nftables import Expression, number
from mrc.netlink import DUMP, HEADER, attribute, attributes, list_of

_GETRULE = 7
_GENERIC_HEADER_BYTES = 4
_NUMGEN_DREG, _NUMGEN_MODULUS, _NUMGEN_TYPE = 1, 2, 3
_NUMGEN_RANDOM = 1
_COUNTER_BYTES, _COUNTER_PACKETS = 1, 2
_NOTHING = struct.pack("!Q", 0)
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
    kind = number(_NUMGEN_MODULUS, SHARE_GRAIN) + number(_NUMGEN_TYPE, _NUMGEN_RANDOM)
    return [
        nftables.expression("numgen", number(_NUMGEN_DREG, nftables.REGISTER) + kind),
        # The generator leaves the number in the machine's order; only a big-endian one compares as a number.
        nftables.swap_order(nftables.TO_NETWORK_ORDER),
        nftables.compare(nftables.COMPARE_BELOW, threshold.to_bytes(4, "big")),
        nftables.expression("counter", attribute(_COUNTER_BYTES, _NOTHING) + attribute(_COUNTER_PACKETS, _NOTHING)),
        nftables.drop(),
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

    request = nftables.message(_GETRULE, DUMP, nftables.FAMILY_NETDEV)
    netlink.dump("read the nftables rules", request, collect)
    return found


def _parse(data: bytes) -> Loss | None:
    rule = attributes(data, HEADER.size + _GENERIC_HEADER_BYTES)
    table = rule.get(nftables.RULE_TABLE, b"").rstrip(b"\0").decode(errors="replace")
    if not table.startswith(_TABLE_PREFIX):
        return None
    threshold = packets = octets = 0
    for _, encoded in list_of(rule.get(nftables.RULE_EXPRESSIONS, b"")):
        expression = attributes(encoded)
        name = expression.get(nftables.EXPRESSION_NAME, b"").rstrip(b"\0")
        content = attributes(expression.get(nftables.EXPRESSION_DATA, b""))
        if name == b"counter":
            packets, octets = (int.from_bytes(content[kind], "big") for kind in (_COUNTER_PACKETS, _COUNTER_BYTES))
        elif name == b"cmp":
            value = attributes(content[nftables.CMP_DATA])[nftables.DATA_VALUE]
            threshold = int.from_bytes(value, "big")
    return Loss(table.removeprefix(_TABLE_PREFIX), threshold / SHARE_GRAIN, packets, octets)
