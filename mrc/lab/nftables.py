# SPDX-License-Identifier: BSD-2-Clause
"""nftables over netlink: tables with one chain each, at a hook for what arrives, made or replaced as a whole.

Numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h. Numbers of nftables are in network order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mrc import netlink
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.netlink import ACK, attribute, text

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
_CREATE, _APPEND = 0x400, 0x800
_HEADER = struct.Struct("!BBH")  # struct nfgenmsg: family, version, resource
_HOOK_ARRIVING = 0  # prerouting of IPv6, ingress of an interface
_CHAIN = "arriving"

_TABLE_NAME = 1
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_TYPE = 1, 3, 4, 7
_HOOK_NUMBER, _HOOK_PRIORITY, _HOOK_DEVICE = 1, 2, 3
RULE_TABLE, _RULE_CHAIN, RULE_EXPRESSIONS = 1, 2, 4
LIST_ELEMENT = 1
EXPRESSION_NAME, EXPRESSION_DATA = 1, 2
DATA_VALUE, _DATA_VERDICT = 1, 2
_VERDICT_CODE = 1
_META_DREG, _META_KEY, _META_SREG = 1, 2, 3
_PAYLOAD_DREG, _PAYLOAD_BASE, _PAYLOAD_OFFSET, _PAYLOAD_LEN = 1, 2, 3, 4
_CMP_SREG, _CMP_OP, CMP_DATA = 1, 2, 3
_BYTEORDER_SREG, _BYTEORDER_DREG, _BYTEORDER_OP, _BYTEORDER_LEN, _BYTEORDER_SIZE = 1, 2, 3, 4, 5
_BITWISE_SREG, _BITWISE_DREG, _BITWISE_LEN, _BITWISE_MASK, _BITWISE_XOR = 1, 2, 3, 4, 5
_IMMEDIATE_DREG, _IMMEDIATE_DATA = 1, 2
_VERDICT_REGISTER, _VERDICT_DROP = 0, 0

# One expression of a rule, encoded; a rule is a list of them, each passing the packet on to the next or not.
Expression = bytes


def message(kind: int, flags: int, family: int, attributes: bytes = b"") -> bytes:
    """One nftables message of this kind, encoded."""
    return netlink.message(_SUBSYSTEM | kind, flags, _HEADER.pack(family, 0, 0) + attributes)


def number(kind: int, value: int) -> bytes:
    """An attribute that is a number of 32 bits; a priority may be below zero."""
    return attribute(kind, struct.pack("!I", value & 0xFFFFFFFF))


def expression(name: str, attributes: bytes) -> Expression:
    return attribute(LIST_ELEMENT, text(EXPRESSION_NAME, name) + attribute(EXPRESSION_DATA, attributes))


def load_meta(key: int) -> Expression:
    """Something the kernel knows of the packet, into the register."""
    return expression("meta", number(_META_KEY, key) + number(_META_DREG, REGISTER))


def set_meta(key: int) -> Expression:
    """The register, into something the kernel keeps with the packet."""
    return expression("meta", number(_META_KEY, key) + number(_META_SREG, REGISTER))


def load_bytes(header: int, offset: int, length: int) -> Expression:
    """Bytes of a header, as they are, into the register."""
    where = number(_PAYLOAD_BASE, header) + number(_PAYLOAD_OFFSET, offset) + number(_PAYLOAD_LEN, length)
    return expression("payload", number(_PAYLOAD_DREG, REGISTER) + where)


def compare(operation: int, value: bytes) -> Expression:
    """Go on only when the register compares so with `value`; less than compares big-endian numbers."""
    data = attribute(CMP_DATA, attribute(DATA_VALUE, value))
    return expression("cmp", number(_CMP_SREG, REGISTER) + number(_CMP_OP, operation) + data)


def swap_order(direction: int) -> Expression:
    """The register's 32 bits from network order into the machine's, or the other way round."""
    registers = number(_BYTEORDER_SREG, REGISTER) + number(_BYTEORDER_DREG, REGISTER)
    how = number(_BYTEORDER_OP, direction) + number(_BYTEORDER_LEN, 4) + number(_BYTEORDER_SIZE, 4)
    return expression("byteorder", registers + how)


def mask_and_flip(mask: bytes, flip: bytes) -> Expression:
    """The register AND `mask`, XOR `flip`, both in the register's order."""
    registers = number(_BITWISE_SREG, REGISTER) + number(_BITWISE_DREG, REGISTER) + number(_BITWISE_LEN, len(mask))
    masked = attribute(_BITWISE_MASK, attribute(DATA_VALUE, mask))
    return expression("bitwise", registers + masked + attribute(_BITWISE_XOR, attribute(DATA_VALUE, flip)))


def drop() -> Expression:
    """End of the packet."""
    verdict = attribute(_DATA_VERDICT, number(_VERDICT_CODE, _VERDICT_DROP))
    return expression("immediate", number(_IMMEDIATE_DREG, _VERDICT_REGISTER) + attribute(_IMMEDIATE_DATA, verdict))


def replace_table(
    socket: NetlinkSocket,
    name: str,
    family: int,
    priority: int,
    rules: Sequence[Sequence[Expression]],
    interface: str = "",
) -> None:
    """Make the table `name` with one chain of these rules, in place of one of that name, all or nothing.

    The chain is at the prerouting hook, or in FAMILY_NETDEV at the ingress hook of `interface`. Raises SystemRefused.
    """
    at = number(_HOOK_NUMBER, _HOOK_ARRIVING) + number(_HOOK_PRIORITY, priority)
    if family == FAMILY_NETDEV:
        at += text(_HOOK_DEVICE, interface)
    chain = (
        text(_CHAIN_TABLE, name) + text(_CHAIN_NAME, _CHAIN) + attribute(_CHAIN_HOOK, at) + text(_CHAIN_TYPE, "filter")
    )
    requests = [
        *_without_table(name, family),
        _new_table(name, family),
        Request(f"make a chain in {name}", message(_NEWCHAIN, ACK | _CREATE, family, chain)),
    ]
    for rule in rules:
        attributes = text(RULE_TABLE, name) + text(_RULE_CHAIN, _CHAIN) + attribute(RULE_EXPRESSIONS, b"".join(rule))
        encoded = message(_NEWRULE, ACK | _CREATE | _APPEND, family, attributes)
        requests.append(Request(f"make a rule of {name}", encoded))
    socket.transact_batch(_marker(_BATCH_BEGIN), requests, _marker(_BATCH_END))


def delete_table(socket: NetlinkSocket, name: str, family: int) -> None:
    """Remove the table `name`. No error when there is none. Raises SystemRefused."""
    socket.transact_batch(_marker(_BATCH_BEGIN), _without_table(name, family), _marker(_BATCH_END))


def _new_table(name: str, family: int) -> Request:
    encoded = message(_NEWTABLE, ACK | _CREATE, family, text(_TABLE_NAME, name))
    return Request(f"make the nftables table {name}", encoded)


def _without_table(name: str, family: int) -> list[Request]:
    """Delete a table whether or not it is there: making one that exists is no error, deleting one that does not is."""
    deletion = message(_DELTABLE, ACK, family, text(_TABLE_NAME, name))
    return [_new_table(name, family), Request(f"delete the nftables table {name}", deletion)]


def _marker(kind: int) -> bytes:
    """The message that begins or ends a batch."""
    return netlink.message(kind, 0, _HEADER.pack(0, 0, _SUBSYSTEM >> 8))
