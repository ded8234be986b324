"""Random loss on what arrives at one end of a link, through nftables over netlink.

Each impaired end gets one table of its own in its namespace, `mrc-loss-INTERFACE`, family inet, with one chain at the
prerouting hook and one rule: packets from that interface, a random number below the wanted share, count, drop. Deleting
the table is clearing the loss. Nothing else remembers it: status reads the rule and its counter back from the kernel.

What it cannot do: a segment-offloaded TCP packet of up to 64 KiB lives or dies as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.nfnetlink import nfgen_msg
from pyroute2.netlink.nfnetlink.nftsocket import nft_chain_msg, nft_rule_msg, nft_table_msg

from mrc.errors import CallerError, SystemRefused
from mrc.lab.netlink import NetlinkSocket, Request

_SUBSYSTEM = 10 << 8
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 2, 3, 6, 7
_REQUEST, _ACK, _DUMP, _CREATE, _APPEND = 0x001, 0x004, 0x300, 0x400, 0x800
_FAMILY_INET = 1
_HOOK_PREROUTING = 0
_PRIORITY_RAW = -300
_REGISTER = 1
_META_IIFNAME = 6
_INTERFACE_NAME_BYTES = 16
_COMPARE_EQUAL, _COMPARE_BELOW = 0, 2
_NUMGEN_RANDOM = 1
_TO_NETWORK_ORDER = 1
_VERDICT_REGISTER, _VERDICT_DROP = 0, 0
# The random number is drawn from 0 to this, so that is the grain of a loss: a millionth.
_MODULUS = 1_000_000
_CHAIN = "arriving"
_TABLE_PREFIX = "mrc-loss-"


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss installed on one interface: `share` 0..1 of what arrives, and what it has dropped so far."""

    interface: str
    share: float
    dropped_packets: int
    dropped_bytes: int


def _message(message: Any, kind: int, flags: int, attributes: list[tuple[str, Any]]) -> bytes:
    message["header"]["type"] = _SUBSYSTEM | kind
    message["header"]["flags"] = _REQUEST | flags
    message["nfgen_family"] = _FAMILY_INET
    message["attrs"] = attributes
    message.encode()
    return bytes(message.data)


def _marker(kind: int) -> bytes:
    message = nfgen_msg()
    message["res_id"] = _SUBSYSTEM >> 8
    message["header"]["type"] = kind
    message["header"]["flags"] = _REQUEST
    message.encode()
    return bytes(message.data)


def _expression(name: str, attributes: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": attributes})]}


def _compare(operation: int, value: bytes) -> dict[str, Any]:
    return _expression(
        "cmp",
        [
            ("NFTA_CMP_SREG", _REGISTER),
            ("NFTA_CMP_OP", operation),
            ("NFTA_CMP_DATA", {"attrs": [("NFTA_DATA_VALUE", value)]}),
        ],
    )


def _rule(interface: str, threshold: int) -> list[dict[str, Any]]:
    """`iifname INTERFACE numgen random mod 1000000 < THRESHOLD counter drop`."""
    return [
        _expression("meta", [("NFTA_META_KEY", _META_IIFNAME), ("NFTA_META_DREG", _REGISTER)]),
        _compare(_COMPARE_EQUAL, interface.encode().ljust(_INTERFACE_NAME_BYTES, b"\0")),
        _expression(
            "numgen",
            [("NFTA_NG_DREG", _REGISTER), ("NFTA_NG_MODULUS", _MODULUS), ("NFTA_NG_TYPE", _NUMGEN_RANDOM)],
        ),
        # The generator leaves the number in the machine's order; only a big-endian one compares as a number.
        _expression(
            "byteorder",
            [
                ("NFTA_BYTEORDER_SREG", _REGISTER),
                ("NFTA_BYTEORDER_DREG", _REGISTER),
                ("NFTA_BYTEORDER_OP", _TO_NETWORK_ORDER),
                ("NFTA_BYTEORDER_LEN", 4),
                ("NFTA_BYTEORDER_SIZE", 4),
            ],
        ),
        _compare(_COMPARE_BELOW, threshold.to_bytes(4, "big")),
        _expression("counter", [("NFTA_COUNTER_BYTES", 0), ("NFTA_COUNTER_PACKETS", 0)]),
        _expression(
            "immediate",
            [
                ("NFTA_IMMEDIATE_DREG", _VERDICT_REGISTER),
                (
                    "NFTA_IMMEDIATE_DATA",
                    {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", _VERDICT_DROP)]})]},
                ),
            ],
        ),
    ]


def _without_table(table: str) -> Iterator[Request]:
    """Delete `table` whether or not it is there: making one that exists is no error, deleting one that does not is."""
    named = [("NFTA_TABLE_NAME", table)]
    yield Request(f"make the nftables table {table}", _message(nft_table_msg(), _NEWTABLE, _ACK | _CREATE, named))
    yield Request(f"delete the nftables table {table}", _message(nft_table_msg(), _DELTABLE, _ACK, named))


def install(netlink: NetlinkSocket, interface: str, share: float) -> None:
    """Lose `share` (0 < share <= 1, grain one millionth) of what arrives on `interface`, in place of an earlier loss.

    Raises CallerError for a share out of range, SystemRefused when the kernel refuses or does not show the rule.
    """
    threshold = round(share * _MODULUS)
    if not 1 <= threshold <= _MODULUS:
        raise CallerError(f"a loss must be between 0.0001% and 100%, got {share * 100:g}%")
    table = _TABLE_PREFIX + interface
    hook = {"attrs": [("NFTA_HOOK_HOOKNUM", _HOOK_PREROUTING), ("NFTA_HOOK_PRIORITY", _PRIORITY_RAW)]}
    chain = [
        ("NFTA_CHAIN_TABLE", table),
        ("NFTA_CHAIN_NAME", _CHAIN),
        ("NFTA_CHAIN_HOOK", hook),
        ("NFTA_CHAIN_TYPE", "filter"),
    ]
    rule = [
        ("NFTA_RULE_TABLE", table),
        ("NFTA_RULE_CHAIN", _CHAIN),
        ("NFTA_RULE_EXPRESSIONS", _rule(interface, threshold)),
    ]
    requests = [
        *_without_table(table),
        Request(
            f"make the nftables table {table}",
            _message(nft_table_msg(), _NEWTABLE, _ACK | _CREATE, [("NFTA_TABLE_NAME", table)]),
        ),
        Request(f"make a chain in {table}", _message(nft_chain_msg(), _NEWCHAIN, _ACK | _CREATE, chain)),
        Request(f"make the rule of {table}", _message(nft_rule_msg(), _NEWRULE, _ACK | _CREATE | _APPEND, rule)),
    ]
    netlink.transact_batch(_marker(_BATCH_BEGIN), requests, _marker(_BATCH_END))
    found = {loss.interface: round(loss.share * _MODULUS) for loss in installed(netlink)}
    if found.get(interface) != threshold:
        raise SystemRefused(
            f"the kernel took the loss rule for {interface} but does not show it: does another program change nftables?"
        )


def clear(netlink: NetlinkSocket, interface: str) -> None:
    """Lose nothing on `interface` any more. No error when nothing was lost. Raises SystemRefused."""
    requests = list(_without_table(_TABLE_PREFIX + interface))
    netlink.transact_batch(_marker(_BATCH_BEGIN), requests, _marker(_BATCH_END))


def installed(netlink: NetlinkSocket) -> list[Loss]:
    """Every loss installed in this namespace, read back from the kernel. Raises SystemRefused."""
    found: list[Loss] = []

    def take(_: int, data: bytes) -> None:
        if (loss := _parse(data)) is not None:
            found.append(loss)

    netlink.dump("read the nftables rules", _message(nft_rule_msg(), _GETRULE, _DUMP, []), take)
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
            # The interface name is compared first, the threshold last.
            threshold = int.from_bytes(value, "big") if len(value) == 4 else threshold
    return Loss(table.removeprefix(_TABLE_PREFIX), threshold / _MODULUS, int(packets), int(octets))
