# SPDX-License-Identifier: BSD-2-Clause
"""nftables over netlink: tables with one chain each, at a hook for what arrives, made or replaced as a whole.

pyroute2 does the encoding; numbers are those of linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyroute2.netlink.nfnetlink import nfgen_msg
from pyroute2.netlink.nfnetlink.nftsocket import nft_chain_msg, nft_rule_msg, nft_table_msg

from mrc.lab.netlink import NetlinkSocket, Request

NETLINK_NETFILTER = 12
FAMILY_NETDEV, FAMILY_IPV6 = 5, 10
PRIORITY_FIRST, PRIORITY_MANGLE = -300, -150
# The register expressions hand their values on in.
REGISTER = 1
META_MARK, META_L4PROTO = 3, 16
COMPARE_EQUAL, COMPARE_BELOW = 0, 2
TO_HOST_ORDER, TO_NETWORK_ORDER = 0, 1
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2

_SUBSYSTEM = 10 << 8
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE = 0, 2, 3, 6
_REQUEST, _ACK, _CREATE, _APPEND = 0x001, 0x004, 0x400, 0x800
_HOOK_ARRIVING = 0  # prerouting of IPv6, ingress of an interface
_CHAIN = "arriving"

# One expression of a rule; a rule is a list of them, each passing the packet on to the next or not.
Expression = dict[str, Any]


def message(content: Any, kind: int, flags: int, family: int, attributes: list[tuple[str, Any]]) -> bytes:
    """One nftables message of this kind, encoded."""
    content["header"]["type"] = _SUBSYSTEM | kind
    content["header"]["flags"] = _REQUEST | flags
    content["nfgen_family"] = family
    content["attrs"] = attributes
    content.encode()
    return bytes(content.data)


def expression(name: str, attributes: list[tuple[str, Any]]) -> Expression:
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": attributes})]}


def load_meta(key: int) -> Expression:
    """Something the kernel knows of the packet, into the register."""
    return expression("meta", [("NFTA_META_KEY", key), ("NFTA_META_DREG", REGISTER)])


def set_meta(key: int) -> Expression:
    """The register, into something the kernel keeps with the packet."""
    return expression("meta", [("NFTA_META_KEY", key), ("NFTA_META_SREG", REGISTER)])


def load_bytes(header: int, offset: int, length: int) -> Expression:
    """Bytes of a header, as they are, into the register."""
    return expression(
        "payload",
        [
            ("NFTA_PAYLOAD_DREG", REGISTER),
            ("NFTA_PAYLOAD_BASE", header),
            ("NFTA_PAYLOAD_OFFSET", offset),
            ("NFTA_PAYLOAD_LEN", length),
        ],
    )


def compare(operation: int, value: bytes) -> Expression:
    """Go on only when the register compares so with `value`; less than compares big-endian numbers."""
    data = {"attrs": [("NFTA_DATA_VALUE", value)]}
    return expression("cmp", [("NFTA_CMP_SREG", REGISTER), ("NFTA_CMP_OP", operation), ("NFTA_CMP_DATA", data)])


def swap_order(direction: int) -> Expression:
    """The register's 32 bits from network order into the machine's, or the other way round."""
    return expression(
        "byteorder",
        [
            ("NFTA_BYTEORDER_SREG", REGISTER),
            ("NFTA_BYTEORDER_DREG", REGISTER),
            ("NFTA_BYTEORDER_OP", direction),
            ("NFTA_BYTEORDER_LEN", 4),
            ("NFTA_BYTEORDER_SIZE", 4),
        ],
    )


def mask_and_flip(mask: bytes, flip: bytes) -> Expression:
    """The register AND `mask`, XOR `flip`, both in the register's order."""
    return expression(
        "bitwise",
        [
            ("NFTA_BITWISE_SREG", REGISTER),
            ("NFTA_BITWISE_DREG", REGISTER),
            ("NFTA_BITWISE_LEN", len(mask)),
            ("NFTA_BITWISE_MASK", {"attrs": [("NFTA_DATA_VALUE", mask)]}),
            ("NFTA_BITWISE_XOR", {"attrs": [("NFTA_DATA_VALUE", flip)]}),
        ],
    )


def replace_table(
    netlink: NetlinkSocket,
    name: str,
    family: int,
    priority: int,
    rules: Sequence[Sequence[Expression]],
    interface: str = "",
) -> None:
    """Make the table `name` with one chain of these rules, in place of one of that name, all or nothing.

    The chain is at the prerouting hook, or in FAMILY_NETDEV at the ingress hook of `interface`. Raises SystemRefused.
    """
    at: list[tuple[str, Any]] = [("NFTA_HOOK_HOOKNUM", _HOOK_ARRIVING), ("NFTA_HOOK_PRIORITY", priority)]
    if family == FAMILY_NETDEV:
        at.append(("NFTA_HOOK_DEV", interface))
    hook = {"attrs": at}
    chain = [
        ("NFTA_CHAIN_TABLE", name),
        ("NFTA_CHAIN_NAME", _CHAIN),
        ("NFTA_CHAIN_HOOK", hook),
        ("NFTA_CHAIN_TYPE", "filter"),
    ]
    requests = [
        *_without_table(name, family),
        _new_table(name, family),
        Request(f"make a chain in {name}", message(nft_chain_msg(), _NEWCHAIN, _ACK | _CREATE, family, chain)),
    ]
    for rule in rules:
        attributes = [
            ("NFTA_RULE_TABLE", name),
            ("NFTA_RULE_CHAIN", _CHAIN),
            ("NFTA_RULE_EXPRESSIONS", list(rule)),
        ]
        encoded = message(nft_rule_msg(), _NEWRULE, _ACK | _CREATE | _APPEND, family, attributes)
        requests.append(Request(f"make a rule of {name}", encoded))
    netlink.transact_batch(_marker(_BATCH_BEGIN), requests, _marker(_BATCH_END))


def delete_table(netlink: NetlinkSocket, name: str, family: int) -> None:
    """Remove the table `name`. No error when there is none. Raises SystemRefused."""
    netlink.transact_batch(_marker(_BATCH_BEGIN), _without_table(name, family), _marker(_BATCH_END))


def _new_table(name: str, family: int) -> Request:
    encoded = message(nft_table_msg(), _NEWTABLE, _ACK | _CREATE, family, [("NFTA_TABLE_NAME", name)])
    return Request(f"make the nftables table {name}", encoded)


def _without_table(name: str, family: int) -> list[Request]:
    """Delete a table whether or not it is there: making one that exists is no error, deleting one that does not is."""
    deletion = message(nft_table_msg(), _DELTABLE, _ACK, family, [("NFTA_TABLE_NAME", name)])
    return [_new_table(name, family), Request(f"delete the nftables table {name}", deletion)]


def _marker(kind: int) -> bytes:
    """The message that begins or ends a batch."""
    content = nfgen_msg()
    content["res_id"] = _SUBSYSTEM >> 8
    content["header"]["type"] = kind
    content["header"]["flags"] = _REQUEST
    content.encode()
    return bytes(content.data)
